//! Writes and reads of objects.

use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, config_map, server, text};

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    let (server, mut client) = server().await;
    let (code, created) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!((code, text(&created, "metadata/namespace").as_str()), (201, "default"));
    let path = format!("{CONFIG_MAPS}/a");
    let (code, changed) = client.call("PATCH", &path, r#"{"data":{"k":"v"}}"#).await;
    assert_eq!((code, text(&changed, "data/k").as_str()), (200, "v"));
    assert_ne!(text(&created, "metadata/resourceVersion"), text(&changed, "metadata/resourceVersion"));
    let (code, deleted) = client.call("DELETE", &path, "").await;
    assert_eq!((code, text(&deleted, "details/uid")), (200, text(&created, "metadata/uid")));
    assert_eq!(client.call("GET", &path, "").await.0, 404);
    server.stop().await;
}

#[tokio::test]
async fn an_update_without_changes_keeps_the_resource_version() {
    let (_server, mut client) = server().await;
    let (_, created) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, same) = client.call("PUT", &path, &config_map("a", "")).await;
    assert_eq!(text(&created, "metadata/resourceVersion"), text(&same, "metadata/resourceVersion"));
}

#[tokio::test]
async fn custom_resources_are_served_as_soon_as_they_are_defined() {
    let (_server, mut client) = server().await;
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"gadgets.shop.example.com"},"spec":{"group":"shop.example.com","scope":"Namespaced",
        "names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
    let gadgets = "/apis/shop.example.com/v1/namespaces/default/gadgets";
    assert_eq!(client.call("GET", gadgets, "").await.0, 404);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", definitions, definition).await.0, 201);
    let gadget = r#"{"apiVersion":"shop.example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":3}}"#;
    let (code, created) = client.call("POST", gadgets, gadget).await;
    assert_eq!((code, text(&created, "spec/size").as_str()), (201, "3"));
    assert_eq!(client.call("DELETE", &format!("{definitions}/gadgets.shop.example.com"), "").await.0, 200);
    client.until(gadgets, 404).await;
}

#[tokio::test]
async fn pages_show_one_moment() {
    let (_server, mut client) = server().await;
    for name in ["a", "b", "c"] {
        client.call("POST", CONFIG_MAPS, &config_map(name, "")).await;
    }
    let (_, first) = client.call("GET", &format!("{CONFIG_MAPS}?limit=2"), "").await;
    assert_eq!(text(&first, "metadata/remainingItemCount"), "1");
    client.call("DELETE", &format!("{CONFIG_MAPS}/c"), "").await;
    let token = text(&first, "metadata/continue");
    let (_, second) = client.call("GET", &format!("{CONFIG_MAPS}?limit=2&continue={token}"), "").await;
    let items = second.get("items").and_then(|items| items.as_array()).expect("a list").len();
    assert_eq!((items, text(&second, "metadata/continue").as_str()), (1, ""));
}

#[tokio::test]
async fn some_kinds_require_a_resource_version() {
    let (_server, mut client) = server().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}"#;
    let (code, made) = client.call("PUT", &format!("{leases}/l"), lease).await;
    assert_eq!(code, 201, "{made}");
    let (code, refused) = client.call("PUT", &format!("{leases}/l"), lease).await;
    let why = r#"metadata.resourceVersion: Invalid value: 0: must be specified for an update"#;
    assert_eq!(code, 422);
    assert!(text(&refused, "message").ends_with(why), "{refused}");
    assert_eq!(client.call("PUT", &format!("{leases}/l"), &made.to_string()).await.0, 200);
}

#[tokio::test]
async fn a_repeated_deletion_may_change_the_propagation_policy() {
    let (_server, mut client) = server().await;
    let held = r#","finalizers":["example.com/hold"]"#;
    let (path, options) = (format!("{CONFIG_MAPS}/a"), |policy| format!(r#"{{"propagationPolicy":"{policy}"}}"#));
    let finalizers = |object: &Value| text(object, "metadata/finalizers");
    client.call("POST", CONFIG_MAPS, &config_map("a", held)).await;
    let (_, waiting) = client.call("DELETE", &path, &options("Orphan")).await;
    assert!(finalizers(&waiting).contains("hold"), "{waiting}");
    let since = text(&waiting, "metadata/deletionTimestamp");
    let (code, waiting) = client.call("DELETE", &path, &options("Foreground")).await;
    assert_eq!((code, finalizers(&waiting).contains("foregroundDeletion")), (200, true), "{waiting}");
    assert_eq!(text(&waiting, "metadata/deletionTimestamp"), since);
    assert_eq!(client.call("DELETE", &path, &options("Background")).await.0, 200);
    let (_, waiting) = client.call("GET", &path, "").await;
    assert_eq!(finalizers(&waiting), r#"["example.com/hold"]"#);
}

#[tokio::test]
async fn a_shorter_grace_period_keeps_the_generation() {
    let (_server, mut client) = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(client.call("POST", pods, pod).await.0, 201);
    let (_, first) = client.call("DELETE", &format!("{pods}/p"), "").await;
    let (_, second) = client.call("DELETE", &format!("{pods}/p?gracePeriodSeconds=5"), "").await;
    assert_eq!(text(&second, "metadata/deletionGracePeriodSeconds"), "5", "{second}");
    assert_eq!(text(&second, "metadata/generation"), text(&first, "metadata/generation"));
}

#[tokio::test]
async fn a_load_balancer_with_local_traffic_policy_gets_a_health_check_node_port() {
    let (_server, mut client) = server().await;
    let services = "/api/v1/namespaces/default/services";
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},
        "spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]}}"#;
    let (code, made) = client.call("POST", services, service).await;
    let port = text(&made, "spec/healthCheckNodePort");
    assert_eq!(code, 201, "{made}");
    assert!(port.parse::<u16>().is_ok_and(|port| (30_000..=32_767).contains(&port)), "{made}");
    assert!(!text(&made, "spec/ports").contains(&format!(r#""nodePort":{port}"#)), "{made}");
    let (code, kept) = client.call("PUT", &format!("{services}/s"), service).await;
    assert_eq!((code, text(&kept, "spec/healthCheckNodePort")), (200, port), "{kept}");
    let cluster = r#"{"spec":{"externalTrafficPolicy":"Cluster"}}"#;
    let (code, changed) = client.call("PATCH", &format!("{services}/s"), cluster).await;
    assert_eq!((code, text(&changed, "spec/healthCheckNodePort").as_str()), (200, ""), "{changed}");
}

#[tokio::test]
async fn typed_secrets_need_their_keys() {
    let (_server, mut client) = server().await;
    let secret = |name: &str, data: &str| {
        let data = kubewright_core::ByteString::from(data).to_base64();
        format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}"}},"type":"kubernetes.io/dockerconfigjson","data":{{".dockerconfigjson":"{data}"}}}}"#
        )
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(client.call("POST", secrets, &secret("a", r#"{"auths":{}}"#)).await.0, 201);
    let (code, refused) = client.call("POST", secrets, &secret("b", "hunter2")).await;
    assert_eq!(code, 422, "{refused}");
    let message = text(&refused, "message");
    assert!(message.contains("<secret contents redacted>") && !message.contains("hunter2"), "{message}");
}

#[tokio::test]
async fn a_pod_gets_the_priority_of_its_class() {
    let (_server, mut client) = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, more: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{{more}"containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    for (more, want, why) in [
        (r#""priority":0,"#, 201, ""),
        (
            r#""priority":5,"#,
            403,
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            r#""preemptionPolicy":"Never","#,
            403,
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec",
        ),
    ] {
        let (code, answer) = client.call("POST", pods, &pod(&format!("p{}", more.len()), more)).await;
        assert_eq!(code, want, "{answer}");
        assert!(text(&answer, "message").contains(why), "{answer}");
    }
}

#[tokio::test]
async fn classes_set_defaults_and_limits() {
    let (_server, mut client) = server().await;
    let class = |name: &str, grows: bool, is_default: bool| {
        format!(
            r#"{{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{{"name":"{name}","annotations":
            {{"storageclass.kubernetes.io/is-default-class":"{is_default}"}}}},"provisioner":"p","allowVolumeExpansion":{grows}}}"#
        )
    };
    for (name, grows, is_default) in [("fixed", false, false), ("usual", true, true)] {
        let (code, answer) =
            client.call("POST", "/apis/storage.k8s.io/v1/storageclasses", &class(name, grows, is_default)).await;
        assert_eq!(code, 201, "{answer}");
    }
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let bigger = r#"{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}"#;
    for (name, class, shown, code) in [
        ("a", "", "usual", 200),
        ("b", r#""storageClassName":"fixed","#, "fixed", 403),
        ("c", r#""storageClassName":"","#, "", 403),
    ] {
        let claim = format!(
            r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"{name}"}},"spec":{{{class}"accessModes":["ReadWriteOnce"],
            "volumeName":"v","resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
        );
        let (_, made) = client.call("POST", claims, &claim).await;
        assert_eq!(text(&made, "spec/storageClassName"), shown, "{made}");
        let path = format!("{claims}/{name}");
        assert_eq!(client.call("PATCH", &path, bigger).await.0, 422, "not before it is bound");
        assert_eq!(client.call("PATCH", &format!("{path}/status"), r#"{"status":{"phase":"Bound"}}"#).await.0, 200);
        let (had, answer) = client.call("PATCH", &path, bigger).await;
        assert_eq!(had, code, "{answer}");
    }
    let runtime = r#"{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"vm"},"handler":"vm",
        "overhead":{"podFixed":{"memory":"64Mi"}},"scheduling":{"nodeSelector":{"vm":"yes"},"tolerations":[{"key":"vm","operator":"Exists"}]}}"#;
    assert_eq!(client.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime).await.0, 201);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, spec: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{{spec},"containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    let (code, made) = client.call("POST", pods, &pod("p", r#""runtimeClassName":"vm""#)).await;
    assert_eq!(
        (code, text(&made, "spec/overhead/memory").as_str(), text(&made, "spec/nodeSelector/vm").as_str()),
        (201, "64Mi", "yes"),
        "{made}"
    );
    for (spec, why) in [
        (r#""runtimeClassName":"none""#, r#"pod rejected: RuntimeClass "none" not found"#),
        (
            r#""runtimeClassName":"vm","nodeSelector":{"vm":"no"}"#,
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes",
        ),
        (r#""overhead":{"memory":"1Mi"}"#, "Pod Overhead set without corresponding RuntimeClass"),
    ] {
        let (code, answer) = client.call("POST", pods, &pod("q", spec)).await;
        assert_eq!(code, 403, "{answer}");
        assert!(text(&answer, "message").contains(why), "{answer}");
    }
    let ingress_class = r#"{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"web","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"example.com/c"}}"#;
    assert_eq!(client.call("POST", "/apis/networking.k8s.io/v1/ingressclasses", ingress_class).await.0, 201);
    let ingress = r#"{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}"#;
    let (code, made) = client.call("POST", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", ingress).await;
    assert_eq!((code, text(&made, "spec/ingressClassName").as_str()), (201, "web"), "{made}");
}

#[tokio::test]
async fn the_resource_version_of_a_new_object_is_judged_last_and_not_in_a_dry_run() {
    let (_server, mut client) = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let message = |status: &Value| text(status, "message");
    let (code, made) =
        client.call("POST", &format!("{maps}?dryRun=All"), &config_map("a", r#","resourceVersion":"5""#)).await;
    assert_eq!((code, text(&made, "metadata/resourceVersion").as_str()), (201, "5"), "{made}");
    let (code, status) = client.call("POST", maps, &config_map("A B", r#","resourceVersion":"5""#)).await;
    assert!(code == 422 && message(&status).contains("Invalid value: \"A B\""), "{status}");
    let (code, status) = client.call("POST", maps, &config_map("a", r#","resourceVersion":"5""#)).await;
    assert_eq!((code, message(&status).as_str()), (500, "resourceVersion should not be set on objects to be created"));
}

/// The feature gate MaxUnavailableStatefulSet is off by default in Kubernetes.
#[tokio::test]
async fn the_field_of_a_disabled_feature_is_dropped() {
    let (_server, mut client) = server().await;
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let set = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"serviceName":"db",
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"db","image":"db"}]}},
        "updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":2}}}}"#;
    let (code, made) = client.call("POST", path, set).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(text(&made, "spec/updateStrategy/rollingUpdate"), r#"{"partition":1}"#);
    let change = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}"#;
    let (code, changed) = client.call("PATCH", &format!("{path}/db"), change).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(text(&changed, "spec/updateStrategy/rollingUpdate"), r#"{"partition":1}"#);
    assert_eq!(text(&changed, "metadata/generation"), "1");
}
