//! Defaults.

use kubewright_core::Value;

use crate::client::{Client, server, text};
use crate::validation::CORE;

const APPS: &str = "/apis/apps/v1/namespaces/default";

/// Dry-runs a creation, and compares values of the response.
async fn check(client: &mut Client, path: &str, object: &str, want: &[(&str, &str)]) {
    let (code, made) = client.call("POST", &format!("{path}?dryRun=All"), object).await;
    assert_eq!(code, 201, "{object}: {made}");
    for (at, want) in want {
        assert_eq!(text(&made, at), *want, "{at} of {made}");
    }
}

fn pod(metadata: &str, spec: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"{metadata}}},"spec":{{{spec}}}}}"#)
}

#[tokio::test]
async fn templates_do_not_get_pod_only_defaults() {
    let (_server, mut client) = server().await;
    let spec = r#""hostNetwork":true,"terminationGracePeriodSeconds":-1,"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway"}],"containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80}]}]"#;
    let spread = r#"[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway"}]"#;
    let (_, made) = client.call("POST", &format!("{CORE}/pods?dryRun=All"), &pod("", spec)).await;
    assert_eq!(text(&made, "spec/terminationGracePeriodSeconds"), "1", "{made}");
    assert_eq!(text(&made, "spec/topologySpreadConstraints"), spread, "{made}");
    assert!(text(&made, "spec/containers").contains(r#""hostPort":80"#), "{made}");
    let set = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},
        "template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{{spec}}}}}}}}}"#
    );
    let (_, made) = client.call("POST", &format!("{APPS}/deployments?dryRun=All"), &set).await;
    let template = made.get("spec").and_then(|spec| spec.get("template")).cloned().unwrap_or_default();
    assert_eq!(text(&template, "spec/terminationGracePeriodSeconds"), "-1", "{made}");
    assert_eq!(text(&template, "spec/topologySpreadConstraints"), spread, "{made}");
    assert!(!text(&template, "spec/containers").contains("hostPort"), "{made}");
}

#[tokio::test]
async fn pods_get_defaults() {
    let (_server, mut client) = server().await;
    let pods = format!("{CORE}/pods");
    let plain = r#""containers":[{"name":"c","image":"i"}]"#;
    // With a tag and a digest, the tag determines the pull policy.
    for (image, want) in
        [("i", "Always"), ("i:1", "IfNotPresent"), ("i@sha256:0", "IfNotPresent"), ("i:latest@sha256:0", "Always")]
    {
        let spec = format!(r#""containers":[{{"name":"c","image":"{image}"}}]"#);
        let (_, made) = client.call("POST", &format!("{pods}?dryRun=All"), &pod("", &spec)).await;
        assert!(text(&made, "spec/containers").contains(&format!(r#""imagePullPolicy":"{want}""#)), "{image}: {made}");
    }
    let amounts = r#""containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100u","memory":"1500m"}}}]"#;
    let (_, made) = client.call("POST", &format!("{pods}?dryRun=All"), &pod("", amounts)).await;
    assert!(text(&made, "spec/containers").contains(r#""requests":{"cpu":"1m","memory":"1500m"}"#), "{made}");
    check(&mut client, &pods, &pod("", &format!(r#""schedulingGates":[{{"name":"g"}}],{plain}"#)), &[(
        "status/conditions",
        r#"[{"lastProbeTime":null,"lastTransitionTime":null,"message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}]"#,
    )])
    .await;
    // Keys become requirements with the values of the pod's labels.
    let term = r#""labelSelector":{"matchLabels":{"app":"a"}},"topologyKey":"z","matchLabelKeys":["v","none"],"mismatchLabelKeys":["tenant"]"#;
    let spec = format!(
        r#""affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{{term}}}]}}}},{plain},
        "topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","labelSelector":{{}},"matchLabelKeys":["v"]}}]"#
    );
    let (code, made) =
        client.call("POST", &format!("{pods}?dryRun=All"), &pod(r#","labels":{"v":"1","tenant":"t"}"#, &spec)).await;
    assert_eq!(code, 201, "{made}");
    let one = r#"{"key":"v","operator":"In","values":["1"]}"#;
    let other = r#"{"key":"tenant","operator":"NotIn","values":["t"]}"#;
    let affinity = text(&made, "spec/affinity");
    assert!(affinity.contains(&format!(r#""matchExpressions":[{one},{other}]"#)), "{affinity}");
    let spread = text(&made, "spec/topologySpreadConstraints");
    assert!(spread.contains(&format!(r#""labelSelector":{{"matchExpressions":[{one}]}}"#)), "{spread}");
}

#[tokio::test]
async fn pod_level_resources_get_defaults() {
    let (_server, mut client) = server().await;
    let spec = |resources: &str, container: &str| {
        format!(
            r#""resources":{resources},"containers":[{{"name":"c","image":"i","resources":{container}}},{{"name":"d","image":"i"}}]"#
        )
    };
    for (resources, container, requests, class) in [
        (
            r#"{"limits":{"cpu":"2"}}"#,
            r#"{"requests":{"cpu":"1","memory":"1Mi"}}"#,
            r#"{"cpu":"1","memory":"1Mi"}"#,
            "Burstable",
        ),
        (r#"{"limits":{"cpu":"2","memory":"1Gi"}}"#, "{}", r#"{"cpu":"2","memory":"1Gi"}"#, "Guaranteed"),
        (r#"{"requests":{"cpu":"2"}}"#, "{}", r#"{"cpu":"2"}"#, "Burstable"),
        ("{}", "{}", "", "BestEffort"),
    ] {
        let want = [("spec/resources/requests", requests), ("status/qosClass", class)];
        check(&mut client, &format!("{CORE}/pods"), &pod("", &spec(resources, container)), &want).await;
    }
}

#[tokio::test]
async fn sets_claims_and_services_get_defaults() {
    let (_server, mut client) = server().await;
    let set = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let want = [("spec/persistentVolumeClaimRetentionPolicy", r#"{"whenDeleted":"Delete","whenScaled":"Retain"}"#)];
    check(&mut client, &format!("{APPS}/statefulsets"), set, &want).await;
    let claim = |source: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"c"}},"spec":{{{source},"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
        )
    };
    let snapshot = r#"{"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s"}"#;
    let populator = r#"{"apiGroup":"example.com","kind":"Populator","name":"p"}"#;
    for (source, plain, reference) in [
        (format!(r#""dataSource":{snapshot}"#), snapshot, snapshot),
        (format!(r#""dataSourceRef":{populator}"#), populator, populator),
        // A `dataSource` that only `dataSourceRef` supports is dropped.
        (format!(r#""dataSource":{populator}"#), "", ""),
    ] {
        let want = [("spec/dataSource", plain), ("spec/dataSourceRef", reference)];
        check(&mut client, &format!("{CORE}/persistentvolumeclaims"), &claim(&source), &want).await;
    }
    // Both fields get the same value, on updates as well.
    let claims = format!("{CORE}/persistentvolumeclaims");
    let (code, _) = client.call("POST", &claims, &claim(&format!(r#""dataSource":{snapshot}"#))).await;
    assert_eq!(code, 201);
    let (code, put) =
        client.call("PUT", &format!("{claims}/c"), &claim(&format!(r#""dataSourceRef":{snapshot}"#))).await;
    assert_eq!((code, text(&put, "spec/dataSource").as_str()), (200, snapshot), "{put}");
    let service = |spec: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s"}},"spec":{{"clusterIP":"None",{spec},"ports":[{{"port":80}}]}}}}"#
        )
    };
    for (spec, policy, families) in [
        (r#""selector":{"a":"b"}"#, "SingleStack", r#"["IPv4"]"#),
        (r#""selector":{}"#, "RequireDualStack", r#"["IPv4","IPv6"]"#),
        (r#""ipFamilies":["IPv6"]"#, "RequireDualStack", r#"["IPv6","IPv4"]"#),
        (r#""ipFamilyPolicy":"SingleStack""#, "SingleStack", r#"["IPv4"]"#),
    ] {
        let want = [("spec/ipFamilyPolicy", policy), ("spec/ipFamilies", families)];
        check(&mut client, &format!("{CORE}/services"), &service(spec), &want).await;
    }
}

#[tokio::test]
async fn protocols_of_a_port_share_a_node_port() {
    let (_server, mut client) = server().await;
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"dns"},"spec":{"type":"NodePort",
        "ports":[{"name":"a","port":53,"protocol":"UDP"},{"name":"b","port":53,"protocol":"TCP"},{"name":"c","port":80},{"name":"d","port":80,"protocol":"UDP","nodePort":30080}]}}"#;
    let (code, made) = client.call("POST", &format!("{CORE}/services"), service).await;
    assert_eq!(code, 201, "{made}");
    let ports = made.get("spec").and_then(|spec| spec.get("ports")).and_then(Value::as_array).unwrap();
    let numbers: Vec<i64> = ports.iter().filter_map(|port| port.get("nodePort")?.as_i64()).collect();
    assert_eq!(numbers[0], numbers[1], "{made}");
    assert_eq!(numbers[2..], [30_080, 30_080], "{made}");
}

fn node_ports(service: &Value) -> Vec<i64> {
    let ports = service.get("spec").and_then(|spec| spec.get("ports")).and_then(Value::as_array).unwrap();
    ports.iter().map(|port| port.get("nodePort").and_then(Value::as_i64).expect("it has one")).collect()
}

#[tokio::test]
async fn no_protocol_has_a_port_on_nodes_twice() {
    let (_server, mut client) = server().await;
    let path = format!("{CORE}/services");
    let service = |name: &str, ports: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","ports":[{ports}]}}}}"#
        )
    };
    let clashing = r#"{"name":"a","port":80},{"name":"b","port":80,"protocol":"UDP","nodePort":30090},
        {"name":"c","port":81,"nodePort":30090}"#;
    let (code, made) = client.call("POST", &path, &service("new", clashing)).await;
    assert_eq!(code, 201, "{made}");
    let numbers = node_ports(&made);
    assert!(numbers[0] != 30_090 && numbers[1..] == [30_090, 30_090], "{made}");

    // An existing port can pass its node port to another one, and gets a new one.
    let first = r#"{"name":"a","port":80,"nodePort":30091}"#;
    assert_eq!(client.call("POST", &path, &service("old", first)).await.0, 201);
    let given = r#"{"name":"a","port":80},{"name":"b","port":81,"nodePort":30091}"#;
    let (code, changed) = client.call("PUT", &format!("{path}/old"), &service("old", given)).await;
    assert_eq!(code, 200, "{changed}");
    let numbers = node_ports(&changed);
    assert!(numbers[0] != 30_091 && numbers[1] == 30_091, "{changed}");

    // Ports added by an update do not share a node port.
    let before = r#"{"name":"a","port":53,"protocol":"UDP","nodePort":30092}"#;
    assert_eq!(client.call("POST", &path, &service("dns", before)).await.0, 201);
    let more = format!(r#"{before},{{"name":"b","port":53}}"#);
    let (code, changed) = client.call("PUT", &format!("{path}/dns"), &service("dns", &more)).await;
    assert_eq!(code, 200, "{changed}");
    let numbers = node_ports(&changed);
    assert!(numbers[0] == 30_092 && numbers[1] != 30_092, "{changed}");
}

#[tokio::test]
async fn a_service_with_a_selector_has_families_of_the_cluster() {
    let (_server, mut client) = server().await;
    for (name, families, why) in [
        ("dual", r#""ipFamilyPolicy":"RequireDualStack""#, "this cluster is not configured for dual-stack services"),
        ("other", r#""ipFamilyPolicy":"SingleStack","ipFamilies":["IPv6"]"#, "not configured on this cluster"),
    ] {
        let service = format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"None",{families},"ports":[{{"port":80}}]}}}}"#
        );
        let (code, made) = client.call("POST", &format!("{CORE}/services"), &service).await;
        assert_eq!(code, 201, "a selector is not required here: {made}");
        let path = format!("{CORE}/services/{name}");
        let (code, refused) = client.call("PATCH", &path, r#"{"spec":{"selector":{"a":"b"}}}"#).await;
        assert_eq!(code, 422, "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
        let (code, changed) = client.call("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
        assert_eq!(code, 200, "{changed}");
    }
}

#[tokio::test]
async fn a_pod_can_be_replaced_by_the_manifest_that_it_was_created_from() {
    let (_server, mut client) = server().await;
    let manifest = pod("", r#""containers":[{"name":"c","image":"i"}]"#);
    let (code, created) = client.call("POST", "/api/v1/namespaces/default/pods", &manifest).await;
    assert_eq!(code, 201, "{created}");
    let (code, replaced) = client.call("PUT", "/api/v1/namespaces/default/pods/p", &manifest).await;
    assert_eq!(code, 200, "{replaced}");
    assert_eq!(replaced.get("spec"), created.get("spec"));
}
