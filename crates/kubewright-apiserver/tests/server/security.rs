//! Pod security standards.

use crate::client::{Client, server, text};

const PODS: &str = "/api/v1/namespaces/n/pods";

async fn namespace(client: &mut Client, labels: &str) {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"n","labels":{{{labels}}}}}}}"#);
    let (code, answer) = client.call("POST", "/api/v1/namespaces", &body).await;
    assert_eq!(code, 201, "{answer}");
}

fn pod(name: &str, spec: &str, container: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{{spec}"containers":[{{"name":"c","image":"i"{container}}}]}}}}"#
    )
}

#[tokio::test]
async fn a_restricted_namespace_rejects_unrestricted_pods() {
    let (_server, mut client) = server().await;
    namespace(&mut client, r#""pod-security.kubernetes.io/enforce":"restricted""#).await;
    let (code, refused) = client.call("POST", PODS, &pod("plain", "", "")).await;
    assert_eq!(code, 403);
    let want = r#"pods "plain" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#;
    assert_eq!(text(&refused, "message"), want);
    let good = r#","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}"#;
    let (code, made) = client.call("POST", PODS, &pod("good", "", good)).await;
    assert_eq!(code, 201, "{made}");
    // Ephemeral containers are checked as well.
    let debug = r#"{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}"#;
    let (code, refused) = client.call("PATCH", &format!("{PODS}/good/ephemeralcontainers"), debug).await;
    assert_eq!(code, 403, "{refused}");
    assert!(text(&refused, "message").contains(r#"container "e" must set"#), "{refused}");
    assert_eq!(client.call("PATCH", &format!("{PODS}/good"), r#"{"metadata":{"labels":{"a":"b"}}}"#).await.0, 200);
}

#[tokio::test]
async fn a_baseline_namespace_rejects_pods_with_host_access() {
    let (_server, mut client) = server().await;
    namespace(
        &mut client,
        r#""pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/enforce-version":"v1.30""#,
    )
    .await;
    for (spec, container, why) in [
        (
            "",
            r#","securityContext":{"privileged":true}"#,
            r#"privileged (container "c" must not set securityContext.privileged=true)"#,
        ),
        (r#""hostNetwork":true,"hostPID":true,"#, "", "host namespaces (hostNetwork=true, hostPID=true)"),
        (r#""volumes":[{"name":"v","hostPath":{"path":"/"}}],"#, "", r#"hostPath volumes (volume "v")"#),
        ("", r#","ports":[{"containerPort":80,"hostPort":80}]"#, r#"hostPort (container "c" uses hostPort 80)"#),
        (
            "",
            r#","securityContext":{"capabilities":{"add":["CHOWN","NET_ADMIN"]}}"#,
            r#"non-default capabilities (container "c" must not include "NET_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            r#""securityContext":{"seccompProfile":{"type":"Unconfined"}},"#,
            "",
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            "",
            r#","livenessProbe":{"httpGet":{"port":80,"host":"169.254.169.254"}}"#,
            r#"probe or lifecycle host (container "c" must not set probe or lifecycle host)"#,
        ),
        (
            r#""securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]},"#,
            "",
            r#"forbidden sysctls ("kernel.msgmax")"#,
        ),
    ] {
        let (code, refused) = client.call("POST", PODS, &pod("p", spec, container)).await;
        let want = format!(r#"pods "p" is forbidden: violates PodSecurity "baseline:v1.30": {why}"#);
        assert_eq!((code, text(&refused, "message")), (403, want));
    }
    assert_eq!(client.call("POST", PODS, &pod("p", "", "")).await.0, 201);
}

#[tokio::test]
async fn a_workload_gets_warnings_about_its_pods() {
    let (server, mut client) = server().await;
    namespace(&mut client, r#""pod-security.kubernetes.io/warn":"baseline""#).await;
    let deployment = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
        "template":{"metadata":{"labels":{"a":"b"}},"spec":{"hostPID":true,"containers":[{"name":"c","image":"i"}]}}}}"#;
    let request =
        hyper::Request::post("/apis/apps/v1/namespaces/n/deployments").header("content-type", "application/json");
    let response =
        server.service().call(request.body(deployment.into()).expect("a valid request")).await.expect("an answer");
    assert_eq!(response.status(), 201);
    let warning = response.headers().get("warning").and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert!(
        warning.contains(r#"would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"#),
        "{warning}"
    );
}

#[tokio::test]
async fn labels_that_name_no_standard_are_refused() {
    let (_server, mut client) = server().await;
    let body = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"strict","pod-security.kubernetes.io/warn-version":"1.30"}}}"#;
    let (code, refused) = client.call("POST", "/api/v1/namespaces", body).await;
    assert_eq!(code, 422, "{refused}");
    let message = text(&refused, "message");
    assert!(message.contains(r#"metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted"#), "{message}");
    assert!(message.contains("pod-security.kubernetes.io/warn-version"), "{message}");
}

#[tokio::test]
async fn existing_pods_may_change_harmless_fields() {
    let (_server, mut client) = server().await;
    namespace(&mut client, r#""a":"b""#).await;
    assert_eq!(client.call("POST", PODS, &pod("p", "", r#","securityContext":{"privileged":true}"#)).await.0, 201);
    let label = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}"#;
    assert_eq!(client.call("PATCH", "/api/v1/namespaces/n", label).await.0, 200);
    let (code, answer) = client.call("PATCH", &format!("{PODS}/p"), r#"{"spec":{"activeDeadlineSeconds":60}}"#).await;
    assert_eq!(code, 200, "{answer}");
    let image = r#"{"spec":{"containers":[{"name":"c","image":"other","securityContext":{"privileged":true}}]}}"#;
    let (code, answer) = client.call("PATCH", &format!("{PODS}/p"), image).await;
    assert_eq!(code, 403, "{answer}");
}
