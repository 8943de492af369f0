//! The audit log.

use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{
    ApiServer, AuditLog, AuditLogOptions, AuditPolicy, AuditSink, AuditWebhook, AuditWebhookOptions, RunningServer,
    StaticTokens,
};
use kubewright_core::Value;
use kubewright_storage::Directory;
use tokio::net::TcpStream;

use crate::client::{CONFIG_MAPS, Client, config_map, text};
use crate::json_server::JsonServer;

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: RequestResponse, omitManagedFields: true, resources: [{group: '', resources: [configmaps]}], verbs: [create]}
- {level: Metadata, resources: [{group: '', resources: [configmaps]}]}
- {level: Request, omitStages: [RequestReceived], resources: [{group: '', resources: [namespaces]}]}
";

async fn start(directory: &Directory) -> (RunningServer, Client) {
    std::fs::create_dir_all(&directory.0).expect("it can be created");
    let mut options = AuditLogOptions::default();
    options.path = directory.0.join("audit.log");
    start_with(AuditLog::open(options).expect("it can be opened").into()).await
}

async fn start_with(sink: AuditSink) -> (RunningServer, Client) {
    let tokens = StaticTokens::from_csv("admin,root,1,system:masters\ns3cret,bob,7").expect("two lines");
    let server = ApiServer::in_memory()
        .listen("127.0.0.1:0".parse().expect("an address"))
        .plain_http()
        .tokens(tokens)
        .audit(AuditPolicy::from_yaml(POLICY).expect("a policy"), [sink])
        .start()
        .await
        .expect("it starts");
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it accepts");
    (server, Client::over(socket).await)
}

async fn send(
    client: &mut Client,
    (token, method, path): (&str, &str, &str),
    body: &str,
    id: Option<&str>,
) -> (u16, String) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "test")
        .header("user-agent", "audit-test")
        .header("content-type", "application/json")
        .header("x-forwarded-for", "192.0.2.7, nonsense")
        .header("authorization", format!("Bearer {token}"));
    if let Some(id) = id {
        request = request.header("audit-id", id);
    }
    let response = client.send(request.body(Full::from(body.to_owned())).expect("a valid request")).await;
    let id = response.headers()["audit-id"].to_str().expect("text").to_owned();
    let code = response.status().as_u16();
    response.into_body().collect().await.expect("a body");
    (code, id)
}

/// The events of a request, once there are so many.
async fn events(directory: &Directory, id: &str, count: usize) -> Vec<Value> {
    let path: &Path = &directory.0.join("audit.log");
    for _ in 0..1000 {
        let log = std::fs::read_to_string(path).expect("it is there");
        let all = log.lines().map(|line| Value::from_json(line.as_bytes()).expect("a line of JSON"));
        let found: Vec<Value> = all.filter(|event| text(event, "auditID") == id).collect();
        if found.len() >= count {
            assert_eq!(found.len(), count, "{log}");
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("there are fewer than {count} events of {id}");
}

#[tokio::test]
async fn each_stage_of_a_request_is_recorded_as_far_as_the_policy_says() {
    let directory = Directory::new("audit-server");
    let (_server, mut client) = start(&directory).await;
    let map = config_map("one", r#","managedFields":[]"#);
    let (code, id) = send(&mut client, ("admin", "POST", CONFIG_MAPS), &map, Some("our-own-id")).await;
    assert_eq!((code, id.as_str()), (201, "our-own-id"));
    let [received, complete] = &events(&directory, &id, 2).await[..] else { panic!("there are two stages") };
    assert_eq!(
        (text(received, "stage"), text(complete, "stage")),
        ("RequestReceived".into(), "ResponseComplete".into())
    );
    for (path, expected) in [
        ("kind", "Event"),
        ("apiVersion", "audit.k8s.io/v1"),
        ("level", "RequestResponse"),
        ("verb", "create"),
        ("requestURI", CONFIG_MAPS),
        ("user/username", "root"),
        ("userAgent", "audit-test"),
        ("sourceIPs", r#"["192.0.2.7","127.0.0.1"]"#),
        ("objectRef/resource", "configmaps"),
        ("objectRef/namespace", "default"),
        ("objectRef/apiVersion", "v1"),
        ("responseStatus/code", "201"),
        ("requestObject/metadata/name", "one"),
        ("responseObject/metadata/namespace", "default"),
        ("responseObject/metadata/managedFields", ""),
    ] {
        assert_eq!(text(complete, path), expected, "{path}");
    }
    assert!(
        complete
            .get("annotations")
            .is_some_and(|all| all.get("authorization.k8s.io/decision").and_then(Value::as_str) == Some("allow"))
    );
    assert_eq!(text(received, "responseStatus"), "");

    // Without objects, a failure with its reason.
    let (code, id) = send(&mut client, ("s3cret", "GET", &format!("{CONFIG_MAPS}/one")), "", None).await;
    assert_eq!(code, 403);
    let refused = &events(&directory, &id, 2).await[1];
    assert_eq!(
        (text(refused, "responseStatus/code"), text(refused, "responseStatus/reason")),
        ("403".into(), "Forbidden".into())
    );
    assert_eq!((text(refused, "objectRef/name"), text(refused, "responseObject")), ("one".into(), String::new()));

    // One stage is omitted, and the response is not recorded.
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
    let (_, id) = send(&mut client, ("admin", "POST", "/api/v1/namespaces"), namespace, None).await;
    let [made] = &events(&directory, &id, 1).await[..] else { panic!("there is one stage") };
    assert_eq!(
        (text(made, "requestObject/metadata/name"), text(made, "responseObject")),
        ("shop".into(), String::new())
    );

    // No rule is about nodes.
    let (_, id) = send(&mut client, ("admin", "GET", "/api/v1/nodes"), "", None).await;
    events(&directory, &id, 0).await;
}

#[tokio::test]
async fn a_watch_is_recorded_when_it_starts_and_when_it_ends() {
    let directory = Directory::new("audit-watch");
    let (_server, mut client) = start(&directory).await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1");
    let (code, id) = send(&mut client, ("admin", "GET", &path), "", None).await;
    assert_eq!(code, 200);
    let stages: Vec<String> = events(&directory, &id, 3).await.iter().map(|event| text(event, "stage")).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
}

#[tokio::test]
async fn a_webhook_receives_batches_and_the_rest_when_the_server_stops() {
    let directory = Directory::new("audit-webhook");
    let receiver = JsonServer::start(&directory, |_| String::new()).await;
    *receiver.failures.lock().unwrap() = 1;
    let mut options = AuditWebhookOptions::new(&receiver.kubeconfig);
    options.max_batch_size = 3;
    options.initial_backoff = Duration::from_millis(10);
    let webhook = AuditWebhook::new(options).expect("a kubeconfig");
    let (server, mut client) = start_with(AuditSink::Webhook(webhook)).await;
    let mut ids = Vec::new();
    // Two events each. The first batch is sent twice, because its receiver fails.
    for _ in 0..2 {
        let (code, id) = send(&mut client, ("admin", "GET", CONFIG_MAPS), "", None).await;
        assert_eq!(code, 200);
        ids.push(id);
    }
    for _ in 0..1000 {
        if receiver.calls() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop().await;
    let seen = receiver.seen.lock().unwrap().clone();
    let items = |list: &Value| -> Vec<String> {
        assert_eq!(text(list, "kind"), "EventList");
        assert_eq!(text(list, "apiVersion"), "audit.k8s.io/v1");
        let items = list.get("items").and_then(Value::as_array).expect("a list");
        items.iter().map(|event| format!("{} {}", text(event, "auditID"), text(event, "stage"))).collect()
    };
    let [first, second] = &ids[..] else { unreachable!("two requests") };
    let batch =
        [format!("{first} RequestReceived"), format!("{first} ResponseComplete"), format!("{second} RequestReceived")];
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!([items(&seen[0]), items(&seen[1])], [batch.clone(), batch]);
    assert_eq!(items(&seen[2]), [format!("{second} ResponseComplete")]);
}
