//! Every example runs with no cluster and says what its article says.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The example's binary, which cargo builds beside this test.
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
        .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
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
fn without_a_server_an_example_says_what_is_missing() {
    let output = Command::new(example("typed_client")).args(["--kubeconfig", "/nowhere/config"]).output();
    let output = output.expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/config"));
}
