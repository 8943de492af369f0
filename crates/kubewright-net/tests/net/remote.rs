//! exec and port-forward requests to the embedded server, which rejects them after authorization
//! because it has no nodes.

use bytes::Bytes;
use http::{Request, StatusCode};
use kubewright_client::remote::{AttachOptions, ExecOptions};
use kubewright_client::rest::Impersonation;
use kubewright_client::{Client, Error};

use crate::requests::{ask, secure_server};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

// RX-1
#[tokio::test]
async fn create_permission_suffices_for_connect_requests() {
    let (_server, config) = secure_server().await;
    let transport = config.connect().expect("certificates are fine");
    for (path, object) in [
        (
            "/api/v1/namespaces/default/pods".to_owned(),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        ),
        (
            format!("{RBAC}/roles"),
            r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"connects"},"rules":[{"verbs":["create"],
                "apiGroups":[""],"resources":["pods/exec","pods/attach","pods/portforward"]}]}"#,
        ),
        (
            format!("{RBAC}/rolebindings"),
            r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"connects"},
                "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"connects"},
                "subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"}]}"#,
        ),
    ] {
        let request = Request::post(path).header("content-type", "application/json");
        let (code, answer) = ask(&transport, request.body(Bytes::from(object)).expect("fine")).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    let client = Client::over(transport);
    // The server has no node to connect to, and reports that to users with permission.
    for (user, expected) in [("alice", 501), ("bob", 403)] {
        let pods = client.clone().impersonate(Impersonation::user(user)).core_v1().pods("default");
        let refused = [
            pods.exec("web", &ExecOptions::new(["true"])).await.map(drop),
            pods.attach("web", &AttachOptions::default()).await.map(drop),
            pods.port_forward("web", &[80]).await.map(drop),
        ];
        for refused in refused {
            let Err(Error::Status(status)) = refused else { panic!("{user}: {refused:?}") };
            assert_eq!(status.code, Some(expected), "{user}: {status:?}");
        }
    }
}
