//! Admission plugins: what they do, and that they can be turned off.

use kubewright_apiserver::{AdmissionPlugin, ApiServer, RunningServer};

use crate::client::{Client, server, text};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
const POD: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

async fn without(plugin: AdmissionPlugin) -> (RunningServer, Client) {
    let server = ApiServer::in_memory().disable_admission_plugin(plugin).start().await.expect("it starts");
    let client = Client::over(server.connect()).await;
    (server, client)
}

#[tokio::test]
async fn a_new_node_is_tainted_as_not_ready() {
    let (_server, mut client) = server().await;
    let (_, node) = client.call("POST", "/api/v1/nodes", NODE).await;
    assert_eq!(text(&node, "spec/taints"), r#"[{"effect":"NoSchedule","key":"node.kubernetes.io/not-ready"}]"#);
    let tainted = format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"m"}},"spec":{{"taints":{}}}}}"#,
        text(&node, "spec/taints")
    );
    let (_, again) = client.call("POST", "/api/v1/nodes", &tainted).await;
    assert_eq!(text(&again, "spec/taints"), text(&node, "spec/taints"), "once");

    let (_server, mut client) = without(AdmissionPlugin::TaintNodesByCondition).await;
    let (_, node) = client.call("POST", "/api/v1/nodes", NODE).await;
    assert_eq!(text(&node, "spec/taints"), "");
}

#[tokio::test]
async fn plugins_of_pods_can_be_turned_off() {
    let pods = "/api/v1/namespaces/default/pods";
    let (_server, mut client) = without(AdmissionPlugin::DefaultTolerationSeconds).await;
    let (_, pod) = client.call("POST", pods, POD).await;
    assert_eq!((text(&pod, "spec/tolerations"), text(&pod, "spec/priority")), (String::new(), "0".to_owned()));
    let (_server, mut client) = without(AdmissionPlugin::Priority).await;
    let (_, pod) = client.call("POST", pods, POD).await;
    assert!(text(&pod, "spec/tolerations").contains("not-ready") && text(&pod, "spec/priority").is_empty(), "{pod}");
}

#[tokio::test]
async fn a_quota_is_not_enforced_without_its_plugin() {
    let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"0"}}}"#;
    for (plugin, code) in [(AdmissionPlugin::ResourceQuota, 201), (AdmissionPlugin::LimitRanger, 403)] {
        let (_server, mut client) = without(plugin).await;
        client.call("POST", "/api/v1/namespaces/default/resourcequotas", quota).await;
        assert_eq!(client.call("POST", "/api/v1/namespaces/default/pods", POD).await.0, code, "{plugin}");
    }
}

#[tokio::test]
async fn a_missing_namespace_is_accepted_without_the_lifecycle_plugin() {
    let (_server, mut client) = without(AdmissionPlugin::NamespaceLifecycle).await;
    assert_eq!(client.call("POST", "/api/v1/namespaces/nowhere/pods", POD).await.0, 201);
}

#[tokio::test]
async fn services_have_addresses_of_the_given_network() {
    let network = "10.0.0.0/29".parse().expect("a network");
    let server = ApiServer::in_memory().service_addresses(network).start().await.expect("it starts");
    let mut client = Client::over(server.connect()).await;
    let services = "/api/v1/namespaces/default/services";
    let (_, own) = client.call("GET", &format!("{services}/kubernetes"), "").await;
    assert_eq!(text(&own, "spec/clusterIP"), "10.0.0.1");
    let (_, network) = client.call("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "").await;
    assert_eq!(text(&network, "spec/cidrs"), r#"["10.0.0.0/29"]"#);
    assert!(text(&network, "status/conditions").contains("Kubernetes default Service CIDR is ready"), "{network}");
    let service = |name: &str, address: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"{address}","ports":[{{"port":80}}]}}}}"#
        )
    };
    let (code, refused) = client.call("POST", services, &service("far", "1.2.3.4")).await;
    let why = "failed to allocate IP 1.2.3.4: the provided network does not match the current range";
    assert!(code == 422 && text(&refused, "message").ends_with(why), "{refused}");
    for number in 2..7 {
        let (code, made) = client.call("POST", services, &service(&format!("s{number}"), "")).await;
        assert!(code == 201 && text(&made, "spec/clusterIP").starts_with("10.0.0."), "{made}");
    }
    let (code, full) = client.call("POST", services, &service("full", "")).await;
    assert!(code == 422 && text(&full, "message").contains("range is full"), "{full}");
}

#[tokio::test]
async fn a_malformed_tls_secret_is_warned_about() {
    let (_server, mut client) = server().await;
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t"},"type":"kubernetes.io/tls","data":{"tls.crt":"Zm9v","tls.key":""}}"#;
    let warning = "\"tls: failed to find any PEM data in certificate input\"".to_owned();
    let answer = client.warnings("POST", "/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(answer, (201, vec![warning]));
}

#[tokio::test]
async fn the_health_of_the_store_is_a_component_status() {
    let (_server, mut client) = server().await;
    let (code, status) = client.call("GET", "/api/v1/componentstatuses/etcd-0", "").await;
    assert_eq!(code, 200, "{status}");
    assert_eq!(text(&status, "conditions"), r#"[{"message":"ok","status":"True","type":"Healthy"}]"#);
    let (_, list) = client.call("GET", "/api/v1/componentstatuses", "").await;
    assert!(text(&list, "items").contains(r#""name":"etcd-0""#), "{list}");
    let (_, none) = client.call("GET", "/api/v1/componentstatuses?fieldSelector=metadata.name%3Dx", "").await;
    assert_eq!(text(&none, "items"), "[]", "{none}");
    let (code, missing) = client.call("GET", "/api/v1/componentstatuses/scheduler", "").await;
    assert_eq!((code, text(&missing, "message").as_str()), (404, "componentstatus \"scheduler\" not found"));
}
