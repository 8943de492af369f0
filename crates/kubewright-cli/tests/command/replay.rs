//! `--record` and `replay`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kubewright_api::apps::v1::Deployment;
use kubewright_api::core::v1::Secret;
use kubewright_client::{Api, Client};
use kubewright_core::{ByteString, Object};
use kubewright_recording::{Entry, Recording};

use crate::process::{Cluster, Scratch, Serving, eventually, text};

const DEPLOYMENT: &str = r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},
    "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

async fn roll_out(client: &Client) {
    let mut secret = Secret::default();
    secret.set_name("hidden");
    secret.data.insert("password", ByteString::from(b"correct horse".to_vec()));
    Api::<Secret>::namespaced(client, "default").create(&secret).await.expect("it is new");
    let deployments = Api::<Deployment>::namespaced(client, "default");
    let web = kubewright_core::DynamicObject::to_typed(&DEPLOYMENT.parse().expect("JSON")).expect("a deployment");
    deployments.create(&web).await.expect("it is new");
    eventually("two pods are available", async || {
        let status = deployments.get("web").await.expect("it is there").status.unwrap_or_default();
        status.available_replicas == Some(2)
    })
    .await;
}

/// The writes of a controller, as method and path.
fn writes(recording: &Recording, controller: &str) -> Vec<String> {
    let entries = recording.entries();
    let of_controller = |number: u64| {
        entries.iter().any(
            |entry| matches!(entry, Entry::Began(began) if began.reconcile == number && began.controller == controller),
        )
    };
    let requests = entries.iter().filter_map(|entry| match entry {
        Entry::Request(request) if request.is_write() && request.reconcile.is_some_and(of_controller) => Some(request),
        _ => None,
    });
    requests.map(|request| format!("{} {}", request.method, request.path)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn up_and_run_record_what_replay_shows() {
    let file = Scratch::new("recording");
    let cluster = Cluster::start(&["up", "--nodes", "1", "--quiet", "--record", file.path()]);
    roll_out(&cluster.client()).await;
    let (status, _) = cluster.serving.stop();
    assert_eq!(status.code(), Some(0));
    assert_eq!(std::fs::metadata(&file.0).expect("a file").permissions().mode() & 0o777, 0o600);
    let recording = Recording::open(&file.0).expect("a complete recording");
    let created = writes(&recording, "replicaset");
    assert!(
        created.iter().filter(|write| *write == "POST /api/v1/namespaces/default/pods").count() == 2,
        "{created:?}"
    );
    let created = writes(&recording, "deployment");
    assert!(
        created.iter().any(|write| write.starts_with("POST /apis/apps/v1/namespaces/default/replicasets")),
        "{created:?}"
    );
    let encoded = ByteString::from(b"correct horse".to_vec()).to_base64();
    let all: String = recording.entries().iter().map(|entry| format!("{entry:?}")).collect();
    assert!(!all.contains(&encoded) && !all.contains("correct horse"));

    // The same controllers against a server in another process.
    let (other, second) = (Cluster::start(&["apiserver"]), Scratch::new("recording"));
    let names = ["deployment", "replicaset", "nodes", "node-lifecycle"];
    let options = ["--force", "--kubeconfig", other.kubeconfig.path(), "--record", second.path()];
    let running = Serving::begin(&[&["run"][..], &names, &options].concat());
    roll_out(&other.client()).await;
    let (status, _) = running.stop();
    assert_eq!(status.code(), Some(0));
    let created = writes(&Recording::open(&second.0).expect("a complete recording"), "replicaset");
    assert!(
        created.iter().filter(|write| *write == "POST /api/v1/namespaces/default/pods").count() == 2,
        "{created:?}"
    );

    // The page of a recording.
    let page = Serving::start(&["replay", file.path()]);
    let url = page.line.trim().strip_prefix("ready http://").expect("a URL").to_owned();
    let (address, token) = url.split_once("/?token=").expect("a token");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let settings = get("/api/settings");
    assert!(settings.contains(r#""recording":{"program":"kubewright""#), "{settings}");
    let last = get("/api/moment");
    assert!(last.contains("deployments.apps") && last.contains(r#""name":"replicaset""#), "{last}");
    let first = get("/api/moment?step=0");
    assert!(first.contains(r#""informers":[]"#) && first.contains(r#""controllers":[]"#), "{first}");
    let object = get("/api/object?resource=deployments&key=default/web");
    assert!(object.contains(r#""change":"created""#) && object.contains("kind: Deployment"), "{object}");
    let wrong = get("/api/moment?step=100000000");
    assert!(wrong.starts_with("HTTP/1.0 400") && wrong.contains("the step is a number from 0 to"), "{wrong}");
    assert!(get("/api/reconcile?number=1").contains(r#""requests":["#));
    let (status, _) = page.stop();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_shrinks_to_what_a_command_needs() {
    let (file, small) = (Scratch::new("recording"), Scratch::new("minimal"));
    let cluster = Cluster::start(&["up", "--nodes", "1", "--quiet", "--record", file.path()]);
    roll_out(&cluster.client()).await;
    assert_eq!(cluster.serving.stop().0.code(), Some(0));
    let kubewright = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_kubewright")).args(arguments).output().expect("the command was built")
    };
    let has = r#"! zcat "$KUBEWRIGHT_REPLAY_FILE" | grep -q '"controller":"deployment","key":"default/web"'"#;
    let output = kubewright(&["replay", file.path(), "--shrink", small.path(), "--", "sh", "-c", has]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let minimal = Recording::open(&small.0).expect("a complete recording");
    let reconciles = minimal.entries().iter().filter(|entry| matches!(entry, Entry::Began(_))).count();
    assert_eq!(reconciles, 1);
    let again = kubewright(&["replay", file.path(), "--shrink", small.path(), "--", "false"]);
    assert!(text(&again.stderr).contains("the file exists"), "{}", text(&again.stderr));
    let other = Scratch::new("minimal");
    let passes = kubewright(&["replay", file.path(), "--shrink", other.path(), "--", "true"]);
    assert!(text(&passes.stderr).contains("does not fail with the whole recording"), "{}", text(&passes.stderr));
    let without = kubewright(&["replay", file.path(), "--shrink", other.path()]);
    assert_eq!(without.status.code(), Some(2));

    // A file that is cut, and one that is something else.
    let bytes = std::fs::read(&file.0).expect("a file");
    let cut = Scratch::new("cut");
    std::fs::write(&cut.0, &bytes[..bytes.len() / 2]).expect("a file");
    let refused = kubewright(&["replay", cut.path()]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("is truncated after"), "{said}");
    drop(Serving::start(&["replay", "--truncated", cut.path()]));
    std::fs::write(&cut.0, "something else").expect("a file");
    let said = text(&kubewright(&["replay", cut.path()]).stderr);
    assert!(said.contains("is not a recording of kubewright"), "{said}");
}
