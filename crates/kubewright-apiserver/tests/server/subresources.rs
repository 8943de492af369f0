//! Admission of subresources.

use kubewright_core::{ByteString, Value};

use crate::client::{Client, server, text};
use crate::control::{Hook, REGISTRATION};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn create_pod(client: &mut Client, name: &str) {
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    );
    let (code, answer) = client.call("POST", PODS, &pod).await;
    assert_eq!(code, 201, "{answer}");
}

async fn create_deployment(client: &mut Client) {
    let deployment = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":1,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let (code, answer) = client.call("POST", DEPLOYMENTS, deployment).await;
    assert_eq!(code, 201, "{answer}");
}

fn rules(resources: &str) -> String {
    format!(r#"{{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":{resources}}}"#)
}

/// The reviews so far: operation, resource, subresource, kind and name of each.
fn reviews(hook: &Hook) -> Vec<String> {
    let seen = hook.seen.lock().expect("no panic before");
    let line = |request: &Value| {
        let fields =
            ["operation", "resource/resource", "subResource", "kind/group", "kind/kind", "object/kind", "name"];
        fields.map(|field| text(request, field)).join(" ")
    };
    seen.iter().map(line).collect()
}

#[tokio::test]
async fn bindings_evictions_tokens_and_pod_subresources_are_reviewed() {
    let (_server, mut client) = server().await;
    create_pod(&mut client, "p").await;
    let hook = Hook::start(|request| match text(request, "object/target/name").as_str() {
        "bad" => r#""allowed":false,"status":{"code":403,"message":"not there"}"#.to_owned(),
        _ => r#""allowed":true"#.to_owned(),
    })
    .await;
    let resources = rules(r#"["pods/*","serviceaccounts/token"]"#);
    hook.register_for(&mut client, "Validating", &resources, "").await;
    let binding = |node: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"p"}},"target":{{"kind":"Node","name":"{node}"}}}}"#
        )
    };
    let (code, refused) = client.call("POST", &format!("{PODS}/p/binding"), &binding("bad")).await;
    let want = r#"admission webhook "w.example.com" denied the request: not there"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, want));
    assert_eq!(text(&client.call("GET", &format!("{PODS}/p"), "").await.1, "spec/nodeName"), "");
    assert_eq!(client.call("POST", &format!("{PODS}/p/binding"), &binding("good")).await.0, 201);
    let status = r#"{"status":{"phase":"Running"}}"#;
    assert_eq!(client.call("PATCH", &format!("{PODS}/p/status"), status).await.0, 200);
    let debug = r#"{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}"#;
    assert_eq!(client.call("PATCH", &format!("{PODS}/p/ephemeralcontainers"), debug).await.0, 200);
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;
    assert_eq!(client.call("POST", &format!("{PODS}/p/eviction"), eviction).await.0, 201);
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}"#;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(client.call("POST", accounts, account).await.0, 201);
    let request = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["a"]}}"#;
    assert_eq!(client.call("POST", &format!("{accounts}/robot/token"), request).await.0, 201);
    assert_eq!(
        reviews(&hook),
        [
            "CREATE pods binding  Binding Binding p",
            "CREATE pods binding  Binding Binding p",
            "UPDATE pods status  Pod Pod p",
            "UPDATE pods ephemeralcontainers  Pod Pod p",
            "CREATE pods eviction policy Eviction Eviction p",
            "CREATE serviceaccounts token authentication.k8s.io TokenRequest TokenRequest robot",
        ]
    );
}

#[tokio::test]
async fn a_scale_is_seen_and_changed_as_a_scale() {
    let (_server, mut client) = server().await;
    create_deployment(&mut client).await;
    let patch = ByteString::from(r#"[{"op":"replace","path":"/spec/replicas","value":2}]"#).to_base64();
    let hook = Hook::start(move |request| match text(request, "object/spec/replicas").as_str() {
        "9" => format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#),
        "8" => r#""allowed":false,"status":{"message":"eight"}"#.to_owned(),
        _ => r#""allowed":true"#.to_owned(),
    })
    .await;
    hook.register_for(&mut client, "Mutating", &rules(r#"["*/scale"]"#), "").await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let (code, scaled) = client.call("PATCH", &path, r#"{"spec":{"replicas":9}}"#).await;
    assert_eq!((code, text(&scaled, "spec/replicas").as_str()), (200, "2"));
    let (code, refused) = client.call("PATCH", &path, r#"{"spec":{"replicas":8}}"#).await;
    assert_eq!(code, 400, "{refused}");
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":3}}"#;
    assert_eq!(client.call("PUT", &path, scale).await.0, 200);
    let config = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":4}}"#;
    assert_eq!(client.apply("me&force=true", &path, config).await.0, 200);
    assert_eq!(text(&client.call("GET", &format!("{DEPLOYMENTS}/d"), "").await.1, "spec/replicas"), "4");
    // An update of the main resource does not match.
    assert_eq!(client.call("PATCH", &format!("{DEPLOYMENTS}/d"), r#"{"spec":{"replicas":8}}"#).await.0, 200);
    assert_eq!(reviews(&hook), vec!["UPDATE deployments scale autoscaling Scale Scale d"; 4]);
    let seen = hook.seen.lock().expect("no panic before");
    let replicas = |which: &str| seen.iter().map(|request| text(request, which)).collect::<Vec<_>>();
    assert_eq!(replicas("object/spec/replicas"), ["9", "8", "3", "4"]);
    assert_eq!(replicas("oldObject/spec/replicas"), ["1", "2", "2", "3"]);
}

#[tokio::test]
async fn a_policy_may_match_a_subresource() {
    let (_server, mut client) = server().await;
    create_deployment(&mut client).await;
    let policy = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},
        "spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["UPDATE"],
        "resources":["deployments/scale"]}]},"validations":[{"expression":"object.spec.replicas <= 5"}]}}"#;
    let binding = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
        "metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    for (plural, body) in [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)] {
        assert_eq!(client.call("POST", &format!("{REGISTRATION}/{plural}"), body).await.0, 201);
    }
    let path = format!("{DEPLOYMENTS}/d/scale");
    assert_eq!(client.call("PATCH", &path, r#"{"spec":{"replicas":5}}"#).await.0, 200);
    let (code, refused) = client.call("PATCH", &path, r#"{"spec":{"replicas":6}}"#).await;
    assert_eq!(code, 422, "{refused}");
    assert!(text(&refused, "message").contains("failed expression: object.spec.replicas <= 5"), "{refused}");
}

#[tokio::test]
async fn connections_are_reviewed_with_their_options() {
    let (_server, mut client) = server().await;
    create_pod(&mut client, "p").await;
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/services", service).await.0, 201);
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
    assert_eq!(client.call("POST", "/api/v1/nodes", node).await.0, 201);
    let hook = Hook::start(|request| {
        if text(request, "object/command").contains("rm") {
            r#""allowed":false,"status":{"code":403,"message":"no rm"}"#.to_owned()
        } else {
            r#""allowed":true"#.to_owned()
        }
    })
    .await;
    let connections = r#"{"apiGroups":["*"],"apiVersions":["*"],"operations":["CONNECT"],"resources":["*/*"]}"#;
    // Connect options have no labels, so object selectors never match them.
    let selector = r#","objectSelector":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}"#;
    hook.register_for(&mut client, "Validating", connections, "").await;
    let unasked = Hook::start(|_| r#""allowed":false"#.to_owned()).await;
    unasked.register_for(&mut client, "Mutating", connections, selector).await;
    let (code, refused) = client.call("POST", &format!("{PODS}/p/exec?command=rm&command=-r&stdin=0"), "").await;
    let want = r#"admission webhook "w.example.com" denied the request: no rm"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, want));
    for (method, path, code) in [
        ("GET", format!("{PODS}/p/exec?command=sh&container=c&stdin=true&stdout=1&tty"), 501),
        ("POST", format!("{PODS}/gone/attach?stderr=true"), 404),
        ("GET", format!("{PODS}/p/portforward?ports=80,81&ports=82"), 501),
        ("PUT", format!("{PODS}/p/proxy/a/b/"), 501),
        ("GET", "/api/v1/namespaces/default/services/http:s:80/proxy".to_owned(), 501),
        ("DELETE", "/api/v1/nodes/n/proxy/logs".to_owned(), 501),
    ] {
        let (answered, answer) = client.call(method, &path, "").await;
        assert_eq!(answered, code, "{path}: {answer}");
    }
    // Invalid options and dry runs are rejected before admission.
    let (code, refused) = client.call("GET", &format!("{PODS}/p/portforward?ports=a"), "").await;
    let want = r#"cannot convert to []int32: strconv.ParseUint: parsing "a": invalid syntax"#;
    assert_eq!((code, text(&refused, "message").as_str()), (400, want));
    let (code, refused) = client.call("GET", &format!("{PODS}/p/exec?dryRun=All"), "").await;
    assert_eq!((code, text(&refused, "message").as_str()), (400, "dryRun is not supported"));
    // Logs are only read, so there is no admission.
    assert_eq!(client.call("GET", &format!("{PODS}/p/log"), "").await.0, 501);
    assert_eq!(unasked.seen.lock().expect("no panic before").len(), 0);
    assert_eq!(
        reviews(&hook),
        [
            "CONNECT pods exec  PodExecOptions PodExecOptions p",
            "CONNECT pods exec  PodExecOptions PodExecOptions p",
            "CONNECT pods attach  PodAttachOptions PodAttachOptions gone",
            "CONNECT pods portforward  PodPortForwardOptions PodPortForwardOptions p",
            "CONNECT pods proxy  PodProxyOptions PodProxyOptions p",
            "CONNECT services proxy  ServiceProxyOptions ServiceProxyOptions http:s:80",
            "CONNECT nodes proxy  NodeProxyOptions NodeProxyOptions n",
        ]
    );
    let seen = hook.seen.lock().expect("no panic before");
    let objects: Vec<String> = seen.iter().map(|request| text(request, "object")).collect();
    assert_eq!(
        objects,
        [
            r#"{"apiVersion":"v1","command":["rm","-r"],"kind":"PodExecOptions"}"#,
            r#"{"apiVersion":"v1","command":["sh"],"container":"c","kind":"PodExecOptions","stdin":true,"stdout":true,"tty":true}"#,
            r#"{"apiVersion":"v1","kind":"PodAttachOptions","stderr":true}"#,
            r#"{"apiVersion":"v1","kind":"PodPortForwardOptions","ports":[80,81,82]}"#,
            r#"{"apiVersion":"v1","kind":"PodProxyOptions","path":"/a/b/"}"#,
            r#"{"apiVersion":"v1","kind":"ServiceProxyOptions"}"#,
            r#"{"apiVersion":"v1","kind":"NodeProxyOptions","path":"/logs"}"#,
        ]
    );
    let first = &seen[0];
    assert_eq!(["options", "oldObject", "dryRun"].map(|field| text(first, field)), ["null", "null", "false"]);
}

#[tokio::test]
async fn a_policy_may_match_connect_requests() {
    let (_server, mut client) = server().await;
    create_pod(&mut client, "p").await;
    let policy = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},
        "spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CONNECT"],
        "resources":["pods/exec","pods/attach"]}]},"validations":[{"expression":"!has(object.tty) || !object.tty",
        "messageExpression":"'no terminals in ' + namespaceObject.metadata.name + '/' + request.name","reason":"Forbidden"}]}}"#;
    let binding = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
        "metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    for (plural, body) in [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)] {
        assert_eq!(client.call("POST", &format!("{REGISTRATION}/{plural}"), body).await.0, 201);
    }
    for part in ["exec", "attach"] {
        let (code, refused) = client.call("GET", &format!("{PODS}/p/{part}?command=sh&tty=true"), "").await;
        let want = r#"pods "p" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no terminals in default/p"#;
        assert_eq!((code, text(&refused, "message").as_str()), (403, want));
        assert_eq!(client.call("GET", &format!("{PODS}/p/{part}?command=sh"), "").await.0, 501);
    }
    assert_eq!(client.call("GET", &format!("{PODS}/p/portforward?ports=1"), "").await.0, 501);
}

#[tokio::test]
async fn a_disruption_budget_does_not_protect_unhealthy_pods() {
    let (_server, mut client) = server().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},
        "spec":{"maxUnavailable":0,"selector":{"matchExpressions":[{"key":"none","operator":"DoesNotExist"}]}}}"#;
    assert_eq!(client.call("POST", budgets, budget).await.0, 201);
    let healthy = |count: i32| {
        format!(
            r#"{{"status":{{"observedGeneration":1,"currentHealthy":{count},"desiredHealthy":2,"disruptionsAllowed":0,"expectedPods":3}}}}"#
        )
    };
    let (status, eviction) = (format!("{budgets}/b/status"), |pod: &str| {
        format!(r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{pod}"}}}}"#)
    });
    for pod in ["ready", "sick", "sicker"] {
        create_pod(&mut client, pod).await;
        let ready = if pod == "ready" { "True" } else { "False" };
        let running =
            format!(r#"{{"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#);
        assert_eq!(client.call("PATCH", &format!("{PODS}/{pod}/status"), &running).await.0, 200);
    }
    let evict = async |client: &mut Client, pod: &str| {
        client.call("POST", &format!("{PODS}/{pod}/eviction"), &eviction(pod)).await.0
    };
    assert_eq!(client.call("PATCH", &status, &healthy(1)).await.0, 200);
    assert_eq!(evict(&mut client, "sick").await, 429, "too few are healthy");
    assert_eq!(client.call("PATCH", &status, &healthy(2)).await.0, 200);
    let (code, refused) = client.call("POST", &format!("{PODS}/ready/eviction"), &eviction("ready")).await;
    assert_eq!(code, 429);
    assert_eq!(text(&refused, "details/retryAfterSeconds"), "", "nothing tells when the budget allows it");
    assert_eq!(evict(&mut client, "sick").await, 201);
    let always = r#"{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}"#;
    assert_eq!(client.call("PATCH", &format!("{budgets}/b"), always).await.0, 200);
    assert_eq!(client.call("PATCH", &status, &healthy(0)).await.0, 200);
    assert_eq!(evict(&mut client, "sicker").await, 201);
}

#[tokio::test]
async fn parts_of_a_pod_are_checked_and_completed() {
    let (_server, mut client) = server().await;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i",
        "resources":{"limits":{"cpu":"1"},"requests":{"cpu":"500m"}}}]}}"#;
    assert_eq!(client.call("POST", PODS, pod).await.0, 201);
    let (look, resize) = (format!("{PODS}/p/ephemeralcontainers"), format!("{PODS}/p/resize"));
    let debug = |name: &str, image: &str| {
        format!(r#"{{"spec":{{"ephemeralContainers":[{{"name":"{name}","image":"{image}"}}]}}}}"#)
    };
    let (code, refused) = client.call("PATCH", &look, &debug("Bad Name!", "i")).await;
    assert_eq!(code, 422, "{refused}");
    let (code, looked) = client.call("PATCH", &look, &debug("e", "i")).await;
    assert_eq!(code, 200, "{looked}");
    let containers = text(&looked, "spec/ephemeralContainers");
    assert!(containers.contains(r#""terminationMessagePath":"/dev/termination-log""#), "{containers}");
    assert_eq!(text(&looked, "metadata/generation"), "2");
    for (patch, what) in
        [(debug("e", "other"), "changed"), (r#"{"spec":{"ephemeralContainers":null}}"#.to_owned(), "removed")]
    {
        let (code, refused) = client.call("PATCH", &look, &patch).await;
        assert_eq!(code, 422, "{refused}");
        assert!(
            text(&refused, "message").contains(&format!("existing ephemeral containers \"e\" may not be {what}")),
            "{refused}"
        );
    }
    let amounts = |limit: &str, request: &str| {
        format!(
            r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"limits":{{"cpu":"{limit}"}},"requests":{{"cpu":"{request}"}}}}}}]}}}}"#
        )
    };
    let quota =
        r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"requests.cpu":"1"}}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/resourcequotas", quota).await.0, 201);
    assert_eq!(client.call("PATCH", &resize, &amounts("1", "2")).await.0, 422, "more than its limit");
    assert_eq!(client.call("PATCH", &resize, &amounts("3", "2")).await.0, 403, "more than the quota");
    let guaranteed = r#"{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}}]}}"#;
    let (code, refused) = client.call("PATCH", &resize, guaranteed).await;
    assert_eq!(code, 422, "{refused}");
    assert!(text(&refused, "message").contains("Pod QOS Class may not change as a result of resizing"), "{refused}");
    let (code, resized) = client.call("PATCH", &resize, &amounts("2", "750m")).await;
    assert_eq!((code, text(&resized, "metadata/generation").as_str()), (200, "3"), "{resized}");
}

#[tokio::test]
async fn pod_level_resources_can_be_resized() {
    let (_server, mut client) = server().await;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],
        "resources":{"limits":{"cpu":"2","hugepages-2Mi":"2Mi"},"requests":{"cpu":"1","hugepages-2Mi":"2Mi"}}}}"#;
    let (code, made) = client.call("POST", PODS, pod).await;
    assert_eq!(code, 201, "{made}");
    let resize = format!("{PODS}/p/resize");
    let pages = r#"{"spec":{"resources":{"limits":{"hugepages-2Mi":"4Mi"},"requests":{"hugepages-2Mi":"4Mi"}}}}"#;
    for (patch, why) in [
        (pages, "spec: Forbidden: only cpu and memory resources are mutable"),
        (
            r#"{"spec":{"resources":{"limits":{"cpu":null}}}}"#,
            "spec.resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (r#"{"spec":{"resources":null}}"#, "spec.resources.requests: Forbidden: resource requests cannot be removed"),
    ] {
        let (code, refused) = client.call("PATCH", &resize, patch).await;
        assert_eq!(code, 422, "{patch}: {refused}");
        assert!(text(&refused, "message").contains(why), "{patch}: {refused}");
    }
    let more = r#"{"spec":{"resources":{"limits":{"cpu":"4"},"requests":{"cpu":"3"}}}}"#;
    let (code, resized) = client.call("PATCH", &resize, more).await;
    assert_eq!((code, text(&resized, "metadata/generation").as_str()), (200, "2"), "{resized}");
    assert_eq!(text(&resized, "spec/resources/requests/cpu"), "3", "{resized}");
    assert_eq!(text(&resized, "spec/resources/limits/cpu"), "4", "{resized}");
}

#[tokio::test]
async fn an_eviction_with_failed_preconditions_does_not_consume_the_budget() {
    let (_server, mut client) = server().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},
        "spec":{"maxUnavailable":1,"selector":{"matchExpressions":[{"key":"none","operator":"DoesNotExist"}]}}}"#;
    assert_eq!(client.call("POST", budgets, budget).await.0, 201);
    let status = r#"{"status":{"observedGeneration":1,"currentHealthy":1,"desiredHealthy":0,"disruptionsAllowed":1,"expectedPods":1}}"#;
    assert_eq!(client.call("PATCH", &format!("{budgets}/b/status"), status).await.0, 200);
    create_pod(&mut client, "p").await;
    let running = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    let (_, pod) = client.call("PATCH", &format!("{PODS}/p/status"), running).await;
    let mut evict = async |precondition: String| {
        let body = format!(
            r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"p"}},"deleteOptions":{{"preconditions":{{{precondition}}}}}}}"#
        );
        let (code, answer) = client.call("POST", &format!("{PODS}/p/eviction"), &body).await;
        let (_, budget) = client.call("GET", &format!("{budgets}/b"), "").await;
        let (_, pod) = client.call("GET", &format!("{PODS}/p"), "").await;
        let is_told = text(&pod, "status/conditions").contains("DisruptionTarget");
        (code, text(&budget, "status/disruptionsAllowed"), is_told, answer)
    };
    let (code, allowed, is_told, answer) = evict(r#""uid":"of-another""#.to_owned()).await;
    assert_eq!((code, allowed.as_str(), is_told), (409, "1", false), "{answer}");
    // The precondition still holds, although the eviction itself has updated the pod.
    let version = text(&pod, "metadata/resourceVersion");
    let (code, allowed, _, answer) = evict(format!(r#""resourceVersion":"{version}""#)).await;
    assert_eq!((code, allowed.as_str()), (201, "0"), "{answer}");
}
