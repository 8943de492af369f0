//! Quotas, limit ranges, and requests that need a node.

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};
use crate::durable::{Directory, start};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, resources: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[
        {{"name":"c","image":"i","resources":{resources}}}]}}}}"#
    )
}

#[tokio::test]
async fn a_quota_limits_the_objects_of_a_namespace() {
    let (_server, mut client) = server().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},
        "spec":{"hard":{"configmaps":"2","requests.cpu":"1"}}}"#;
    assert_eq!(client.call("POST", quotas, quota).await.0, 201);
    for (name, code) in [("a", 201), ("b", 201), ("c", 403)] {
        let (answered, answer) = client.call("POST", CONFIG_MAPS, &config_map(name, "")).await;
        assert_eq!(answered, code, "{answer}");
        if code == 403 {
            let want = r#"configmaps "c" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"#;
            assert_eq!(text(&answer, "message"), want);
        }
    }
    let (_, counted) = client.call("GET", &format!("{quotas}/q"), "").await;
    assert_eq!(text(&counted, "status/used/configmaps"), "2");
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/a"), "").await.0, 200);
    // The usage decreases soon after the deletion.
    let mut used = String::new();
    for _ in 0..2000 {
        used = text(&client.call("GET", &format!("{quotas}/q"), "").await.1, "status/used/configmaps");
        if used == "1" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(used, "1");
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("c", "")).await.0, 201);

    let (code, refused) = client.call("POST", PODS, &pod("p", "{}")).await;
    let want = r#"pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, want));
    assert_eq!(client.call("POST", PODS, &pod("p", r#"{"requests":{"cpu":"600m"}}"#)).await.0, 201);
    let (code, refused) = client.call("POST", PODS, &pod("q", r#"{"requests":{"cpu":"500m"}}"#)).await;
    assert_eq!(code, 403);
    let want = "requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1";
    assert!(text(&refused, "message").ends_with(want), "{refused}");
}

/// Reads a quota until it has this status.
async fn until_status(client: &mut Client, path: &str, want: &str) {
    let mut status = String::new();
    for _ in 0..2000 {
        status = text(&client.call("GET", path, "").await.1, "status");
        if status == want {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{status} is never {want}");
}

#[tokio::test]
async fn a_quota_shows_current_usage_without_further_writes() {
    let (_server, mut client) = server().await;
    assert_eq!(client.call("POST", PODS, &pod("p", r#"{"requests":{"cpu":"600m"}}"#)).await.0, 201);
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},
        "spec":{"hard":{"pods":"5","requests.cpu":"1"}}}"#;
    assert_eq!(client.call("POST", quotas, quota).await.0, 201);
    let path = format!("{quotas}/q");
    let want = r#"{"hard":{"pods":"5","requests.cpu":"1"},"used":{"pods":"1","requests.cpu":"600m"}}"#;
    until_status(&mut client, &path, want).await;
    // A changed quota counts other resources.
    let more = r#"{"spec":{"hard":{"pods":"6","requests.cpu":null,"configmaps":"9"}}}"#;
    assert_eq!(client.call("PATCH", &path, more).await.0, 200);
    let want = r#"{"hard":{"configmaps":"9","pods":"6"},"used":{"configmaps":"0","pods":"1"}}"#;
    until_status(&mut client, &path, want).await;
    // A terminated pod uses nothing.
    let ended = r#"{"status":{"phase":"Succeeded"}}"#;
    assert_eq!(client.call("PATCH", &format!("{PODS}/p/status"), ended).await.0, 200);
    let want = r#"{"hard":{"configmaps":"9","pods":"6"},"used":{"configmaps":"0","pods":"0"}}"#;
    until_status(&mut client, &path, want).await;
}

#[tokio::test]
async fn a_limit_range_fills_in_and_bounds() {
    let (_server, mut client) = server().await;
    let range = r#"{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container",
        "max":{"cpu":"1"},"min":{"cpu":"100m"},"defaultRequest":{"cpu":"200m"}}]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
    let (code, made) = client.call("POST", PODS, &pod("p", "{}")).await;
    assert_eq!(code, 201, "{made}");
    assert!(
        text(&made, "spec/containers").contains(r#""resources":{"limits":{"cpu":"1"},"requests":{"cpu":"200m"}}"#),
        "{made}"
    );
    let note = text(&made, "metadata/annotations/kubernetes.io~1limit-ranger");
    assert!(
        made.to_string().contains("LimitRanger plugin set: cpu request for container c; cpu limit for container c"),
        "{note}"
    );
    let (code, refused) =
        client.call("POST", PODS, &pod("q", r#"{"requests":{"cpu":"50m"},"limits":{"cpu":"2"}}"#)).await;
    let want = r#"pods "q" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, maximum cpu usage per Container is 1, but limit is 2]"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, want));
}

#[tokio::test]
async fn requests_that_need_a_node_are_rejected() {
    let (_server, mut client) = server().await;
    assert_eq!(client.call("POST", PODS, &pod("p", "{}")).await.0, 201);
    for path in ["log", "exec?command=ls", "attach", "portforward", "proxy", "proxy/a/b"] {
        let (code, answer) = client.call("GET", &format!("{PODS}/p/{path}"), "").await;
        assert_eq!((code, text(&answer, "kind").as_str()), (501, "Status"), "{path}: {answer}");
        assert!(text(&answer, "message").contains("no node"), "{path}: {answer}");
    }
    assert_eq!(client.call("GET", &format!("{PODS}/none/log"), "").await.0, 404);
}

#[tokio::test]
async fn a_containers_own_limit_overrides_the_default_request_of_a_limit_range() {
    let (_server, mut client) = server().await;
    let range = r#"{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container",
        "defaultRequest":{"cpu":"100m"}}]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
    let (code, made) = client.call("POST", PODS, &pod("p", r#"{"limits":{"cpu":"1"}}"#)).await;
    assert_eq!(code, 201, "{made}");
    assert!(text(&made, "spec/containers").contains(r#""requests":{"cpu":"1"}"#), "{made}");
    assert!(!made.to_string().contains("limit-ranger"), "{made}");
}

#[tokio::test]
async fn a_pods_own_limit_overrides_the_default_request_of_a_limit_range() {
    let (_server, mut client) = server().await;
    let range = r#"{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container",
        "defaultRequest":{"cpu":"100m","memory":"128Mi"}}]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
    let amounts = r#""resources":{"limits":{"cpu":"1","memory":"1Gi"}}"#;
    let pod = pod("p", "{}").replacen(r#""spec":{"#, &format!(r#""spec":{{{amounts},"#), 1);
    let (code, made) = client.call("POST", PODS, &pod).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(text(&made, "spec/resources/requests"), r#"{"cpu":"1","memory":"1Gi"}"#, "{made}");
    assert_eq!(text(&made, "status/qosClass"), "Guaranteed", "{made}");
}

#[tokio::test]
async fn sidecars_and_overhead_count() {
    let (_server, mut client) = server().await;
    let range = r#"{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Pod",
        "max":{"cpu":"1"}}]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
    let cpu = |amount: &str| format!(r#"{{"limits":{{"cpu":"{amount}"}}}}"#);
    let with = |policy: &str, resources: &str| {
        let first = format!(r#"[{{"name":"i","image":"i"{policy},"resources":{resources}}}]"#);
        pod("p", &cpu("600m")).replacen(r#""spec":{"#, &format!(r#""spec":{{"initContainers":{first},"#), 1)
    };
    let (code, refused) = client.call("POST", PODS, &with(r#","restartPolicy":"Always""#, &cpu("600m"))).await;
    assert_eq!(code, 403, "{refused}");
    assert!(text(&refused, "message").contains("maximum cpu usage per Pod is 1, but limit is 1200m"), "{refused}");
    assert_eq!(client.call("POST", PODS, &with("", &cpu("600m"))).await.0, 201);
}

#[tokio::test]
async fn a_claim_does_not_grow_beyond_its_limit() {
    let (_server, mut client) = server().await;
    let range = r#"{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[
        {"type":"PersistentVolumeClaim","max":{"storage":"10Gi"}}]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
    let class = r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"s"},"provisioner":"p","allowVolumeExpansion":true}"#;
    assert_eq!(client.call("POST", "/apis/storage.k8s.io/v1/storageclasses", class).await.0, 201);
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","finalizers":["example.com/hold"]},"spec":{"accessModes":["ReadWriteOnce"],
        "storageClassName":"s","resources":{"requests":{"storage":"5Gi"}}},"status":{"phase":"Bound"}}"#;
    assert_eq!(client.call("POST", claims, claim).await.0, 201);
    assert_eq!(client.call("PATCH", &format!("{claims}/c/status"), r#"{"status":{"phase":"Bound"}}"#).await.0, 200);
    let bound = r#"{"spec":{"volumeName":"v"}}"#;
    assert_eq!(client.call("PATCH", &format!("{claims}/c"), bound).await.0, 200);
    for (size, want) in [("100Gi", 403), ("8Gi", 200)] {
        let patch = format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#);
        let (code, answer) = client.call("PATCH", &format!("{claims}/c"), &patch).await;
        assert_eq!(code, want, "{answer}");
    }
    // A terminating claim can be updated despite stricter limits.
    let lower = range.replace("10Gi", "1Gi").replace(r#""name":"l""#, r#""name":"lower""#);
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/limitranges", &lower).await.0, 201);
    assert_eq!(client.call("DELETE", &format!("{claims}/c"), "").await.0, 200);
    let (code, answer) = client.call("PATCH", &format!("{claims}/c"), r#"{"metadata":{"finalizers":null}}"#).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(client.call("GET", &format!("{claims}/c"), "").await.0, 404);
}

#[tokio::test]
async fn a_failed_write_uses_no_quota() {
    let (_server, mut client) = server().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota =
        r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"configmaps":"2"}}}"#;
    assert_eq!(client.call("POST", quotas, quota).await.0, 201);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    for _ in 0..3 {
        assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 409);
    }
    let (_, counted) = client.call("GET", &format!("{quotas}/q"), "").await;
    assert_eq!(text(&counted, "status/used/configmaps"), "1");
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("b", "")).await.0, 201);
}

#[tokio::test]
async fn a_restarted_server_restores_quotas_addresses_and_bindings() {
    let directory = Directory::new("bookkeeping");
    let (server, mut client) = start(&directory).await;
    let quota =
        r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"configmaps":"2"}}}"#;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/resourcequotas", quota).await.0, 201);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("b", "")).await.0, 201);
    let service = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort",
            "clusterIP":"10.96.7.7","ports":[{{"port":80,"nodePort":30777}}]}}}}"#
        )
    };
    let services = "/api/v1/namespaces/default/services";
    assert_eq!(client.call("POST", services, &service("a")).await.0, 201);
    let binding = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
        "subjects":[{"kind":"ServiceAccount","name":"sa"}]}"#;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(client.call("POST", bindings, binding).await.0, 201);
    drop(client);
    server.stop().await;

    let (_server, mut client) = start(&directory).await;
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("c", "")).await;
    assert_eq!(code, 403, "{refused}");
    let (code, refused) = client.call("POST", services, &service("b")).await;
    let message = text(&refused, "message");
    assert!(code == 422 && message.contains("already allocated"), "{refused}");
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{
        "user":"system:serviceaccount:default:sa",
        "resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}}}"#;
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(text(&client.call("POST", reviews, review).await.1, "status/allowed"), "true");
    // Deleted objects free their node ports.
    assert_eq!(client.call("DELETE", &format!("{services}/a"), "").await.0, 200);
    assert_eq!(client.call("POST", services, &service("b")).await.0, 201);
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/a"), "").await.0, 200);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("c", "")).await.0, 201);
    assert_eq!(client.call("DELETE", &format!("{bindings}/b"), "").await.0, 200);
    assert_eq!(text(&client.call("POST", reviews, review).await.1, "status/allowed"), "false");
}
