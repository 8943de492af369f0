//! Every example runs without a cluster and prints the output of client-go's example.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use kubewright::api::apps::v1::Deployment;
use kubewright::api::core::v1::{Container, Namespace, Pod};
use kubewright::apiserver::ApiServer;
use kubewright::client::config::{LoadingRules, Overrides};
use kubewright::options::{DeleteOptions, Patch};
use kubewright::{Api, Client, Config, Object, json};

/// The binary of an example, which cargo builds with this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let target = test.ancestors().nth(2).expect("tests lie in a folder of the target folder");
    target.join("examples").join(name)
}

fn run(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(example(name))
        .arg("--embedded")
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap_or_else(|error| panic!("{name} does not start (cargo test without --test builds it): {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn says(name: &str, arguments: &[&str], lines: &[&str]) {
    let said = run(name, arguments);
    for line in lines {
        assert!(said.contains(line), "{name} does not say {line:?} but:\n{said}");
    }
}

#[test]
fn clients() {
    says("rest_client", &[], &["namespace: kube-system, name: dns", "gitVersion"]);
    says(
        "typed_client",
        &[],
        &["found pod example-xxxxx in default", "there are 2 pods in the cluster, 0 of them running", "node node-1"],
    );
    says("dynamic_client", &[], &["default/example-xxxxx"]);
    says("discovery_client", &[], &["deployments", "deploy means"]);
}

#[test]
fn configurations() {
    let found = ["There are 2 pods in the cluster", "Found example-xxxxx pod in default namespace"];
    says("out_of_cluster", &["--rounds", "1"], &found);
    says("in_cluster", &[], &["this is no pod", found[0]]);
}

#[test]
fn the_life_of_a_deployment() {
    for name in ["create_update_delete_deployment", "dynamic_create_update_delete_deployment"] {
        let steps = [
            "Created deployment \"demo-deployment\".",
            "Updated deployment...",
            " * demo-deployment (1 replicas)",
            "Deleted deployment.",
        ];
        says(name, &[], &steps);
    }
}

#[test]
fn watching() {
    says("list_and_watch", &["--rounds", "1"], &["LISTED   default/example-xxxxx", "ADDED    default/watched"]);
    let story = ["pod added: default/example-xxxxx", "pod updated:", "pod deleted: default/example-xxxxx"];
    says("informer", &["--rounds", "4"], &story);
}

#[test]
fn the_work_queue_controller_gives_up_after_five_retries() {
    let said = run("workqueue_controller", &["--rounds", "1"]);
    assert_eq!(said.matches("Error syncing pod default/broken: it is broken").count(), 5, "{said}");
    assert_eq!(said.matches("Dropping pod default/broken out of the queue").count(), 1, "{said}");
    assert!(said.contains("Sync/Add/Update for Pod example-xxxxx"), "{said}");
    assert!(said.contains("Pod default/example-xxxxx does not exist anymore"), "{said}");
}

#[test]
fn without_a_server_an_example_reports_the_missing_configuration() {
    let output = Command::new(example("typed_client")).args(["--kubeconfig", "/nowhere/config"]).output();
    let output = output.expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/config"));
}

/// A candidate for leadership, with its output by line.
struct Candidate {
    process: Child,
    lines: mpsc::Receiver<String>,
    /// Output lines that were read but not yet matched. Callbacks run concurrently, as in Go.
    heard: Vec<String>,
}

impl Candidate {
    fn start(kubeconfig: &str, id: &str) -> Self {
        let mut process = Command::new(example("leader_election"))
            .args(["--kubeconfig", kubeconfig, "--id", id, "--lease", "4"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(process.stdout.take().expect("piped"));
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Candidate { process, lines, heard: Vec::new() }
    }

    fn says(&mut self, wanted: &str) {
        loop {
            if let Some(at) = self.heard.iter().position(|line| line == wanted) {
                self.heard.remove(at);
                return;
            }
            let line = self.lines.recv_timeout(Duration::from_secs(30));
            self.heard.push(line.unwrap_or_else(|_| panic!("it never says {wanted:?}, but {:?}", self.heard)));
        }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_leads_when_the_leader_is_killed() {
    let server = ApiServer::in_memory().listen("127.0.0.1:0".parse().expect("an address")).start().await;
    let server = server.expect("a port is free");
    let file = std::env::temp_dir().join(format!("kubewright-election-{}", std::process::id()));
    std::fs::write(&file, server.kubeconfig()).expect("a file of our own");
    let path = file.to_str().expect("a plain path").to_owned();
    tokio::task::spawn_blocking(move || {
        let mut one = Candidate::start(&path, "one");
        one.says("I am the leader: one");
        one.says("Controller loop...");
        let mut two = Candidate::start(&path, "two");
        two.says("new leader elected: one");
        // The lease is not released, so the other candidate waits for its expiry.
        drop(one);
        two.says("I am the leader: two");
        two.says("Controller loop...");
    })
    .await
    .expect("both play their part");
    let _ = std::fs::remove_file(&file);
}

/// Runs an example on a real server; `None` if the server lacks its resources.
#[allow(clippy::print_stderr)]
fn run_on(kubeconfig: &str, name: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(example(name));
    command.args(["--kubeconfig", kubeconfig]).args(arguments).stdin(Stdio::null());
    let output = command.env_remove("KUBERNETES_SERVICE_HOST").output().expect("it starts");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && errors.contains("could not find the requested resource") {
        eprintln!("SKIPPED: {name}, because the server lacks resources: {errors}");
        return None;
    }
    assert!(output.status.success(), "{name}: {said}{errors}");
    Some(said.into_owned())
}

/// Creates the objects that the embedded server starts with, if the server lacks them.
async fn prepare(client: &Client) {
    for name in ["default", "kube-system"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.into());
        let made = Api::<Namespace>::all(client).create(&namespace).await;
        assert!(made.as_ref().is_ok() || made.as_ref().is_err_and(|error| error.is_already_exists()), "{made:?}");
    }
    for name in ["example-xxxxx", "broken"] {
        let pods = Api::<Pod>::namespaced(client, "default");
        // Left over from an earlier run of this test.
        if let Some(left) = pods.get_opt(name).await.expect("it answers") {
            assert_eq!(left.labels().get("made-by"), Some("kubewright-examples"), "somebody else uses the pod {name}");
            let options = DeleteOptions::default().grace_period_seconds(0).uid(left.uid());
            pods.delete_with(name, &options).await.expect("it is there");
        }
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.into());
        pod.metadata.labels.insert("made-by", "kubewright-examples".into());
        let main = Container { name: "main".into(), image: Some("nginx:1.27".into()), ..Default::default() };
        pod.spec.get_or_insert_default().containers = [main].into();
        if name == "broken" {
            pod.metadata.labels.insert("broken", "yes".into());
        }
        pods.create(&pod).await.expect("it is new");
    }
}

/// Deletes the deployment of the examples like the garbage collector, if the server has none.
///
/// A deployment of that name without a deletion timestamp is in use by others.
async fn collect(client: &Client) {
    let deployments = Api::<Deployment>::namespaced(client, "default");
    while let Some(found) = deployments.get_opt("demo-deployment").await.expect("it answers") {
        assert!(found.is_being_deleted(), "somebody else uses the deployment demo-deployment on this server");
        let patch = Patch::merge(json!({"metadata": {"finalizers": null, "uid": found.uid()}}));
        match deployments.patch(found.name(), patch).await {
            Err(error) if !error.is_not_found() && !error.is_invalid() && !error.is_conflict() => panic!("{error}"),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn examples_run_on_a_real_server_too() {
    let Ok(kubeconfig) = std::env::var("KUBEWRIGHT_TEST_KUBECONFIG") else {
        eprintln!("SKIPPED: examples on a real server, because KUBEWRIGHT_TEST_KUBECONFIG names none");
        return;
    };
    let file = LoadingRules::explicit(&kubeconfig).load().expect("a kubeconfig");
    let config = Config::from_kubeconfig(&file, &Overrides::default()).expect("a whole one");
    let client = Client::try_from(config).expect("a usable one");
    prepare(&client).await;
    collect(&client).await;
    let (collector, runtime) = (client.clone(), tokio::runtime::Handle::current());
    // Creates events for the watching examples.
    let busy = tokio::spawn(async move {
        let pods = Api::<Pod>::namespaced(&client, "default");
        for number in 0.. {
            let patch = format!(r#"{{"metadata":{{"labels":{{"seen":"{number}"}}}}}}"#);
            let _ = pods.patch("example-xxxxx", Patch::Merge(patch.into_bytes())).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    tokio::task::spawn_blocking(move || {
        let says = |name: &str, arguments: &[&str], lines: &[&str]| {
            let Some(said) = run_on(&kubeconfig, name, arguments) else { return };
            for line in lines {
                assert!(said.contains(line), "{name} does not say {line:?} but:\n{said}");
            }
        };
        says("rest_client", &[], &["gitVersion"]);
        says("typed_client", &[], &["found pod example-xxxxx in default"]);
        says("dynamic_client", &[], &["default/example-xxxxx"]);
        says("discovery_client", &[], &["deployments"]);
        says("out_of_cluster", &["--rounds", "1"], &["Found example-xxxxx pod in default namespace"]);
        says("create_update_delete_deployment", &[], &["Deleted deployment."]);
        runtime.block_on(collect(&collector));
        says("dynamic_create_update_delete_deployment", &[], &["Deleted deployment."]);
        runtime.block_on(collect(&collector));
        says("list_and_watch", &["--rounds", "1"], &["LISTED   default/example-xxxxx"]);
        says("informer", &["--rounds", "3"], &["pod added: default/example-xxxxx", "pod updated:"]);
        says("workqueue_controller", &["--rounds", "1"], &["Dropping pod default/broken out of the queue"]);
        let mut one = Candidate::start(&kubeconfig, "one");
        one.says("I am the leader: one");
    })
    .await
    .expect("all play their part");
    busy.abort();
}
