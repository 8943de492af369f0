//! The life of a deployment, as kubectl sees it.

use std::process::{Command, Output};

use crate::process::{Cluster, text};

struct Kubectl<'a> {
    cluster: &'a Cluster,
}

impl Kubectl<'_> {
    fn run(&self, arguments: &str) -> Output {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig.path()).args(arguments.split_whitespace());
        command.output().expect("it was there before")
    }

    /// What it prints when all goes well.
    fn says(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "kubectl {arguments}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }
}

#[test]
#[allow(clippy::print_stderr)]
fn a_deployment_of_eight_lives_as_on_a_cluster() {
    let is_there =
        Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: a deployment by kubectl, because there is no kubectl on this machine");
        return;
    }
    let cluster = Cluster::start(&["up", "--quiet"]);
    let kubectl = Kubectl { cluster: &cluster };
    let rolled_out = r#"deployment "web" successfully rolled out"#;
    let pods = || {
        let names = kubectl.says("get pods -l app=web -o name --field-selector=status.phase=Running");
        names.lines().map(str::to_owned).collect::<Vec<_>>()
    };

    assert_eq!(kubectl.says("get nodes -o name").lines().count(), 3);
    kubectl.says("create deployment web --image=nginx:1.27 --replicas=8");
    assert!(kubectl.says("rollout status deployment/web --timeout=120s").ends_with(rolled_out));
    kubectl.says("wait --for=condition=Available deployment/web --timeout=120s");
    let line = kubectl.says("get deployment web --no-headers");
    assert!(line.split_whitespace().collect::<Vec<_>>().starts_with(&["web", "8/8", "8", "8"]), "{line}");

    kubectl.says("scale deployment/web --replicas=5");
    kubectl.says("wait --for=jsonpath={.status.replicas}=5 deployment/web --timeout=120s");
    kubectl.says("scale deployment/web --replicas=8");
    assert!(kubectl.says("rollout status deployment/web --timeout=120s").ends_with(rolled_out));

    kubectl.says("set image deployment/web nginx=nginx:1.28");
    assert!(kubectl.says("rollout status deployment/web --timeout=120s").ends_with(rolled_out));
    let history = kubectl.says("rollout history deployment/web");
    assert!(history.lines().filter(|line| line.starts_with(['1', '2'])).count() == 2, "{history}");
    assert_eq!(kubectl.says("rollout undo deployment/web"), "deployment.apps/web rolled back");
    assert!(kubectl.says("rollout status deployment/web --timeout=120s").ends_with(rolled_out));
    let image = kubectl.says("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}");
    assert_eq!(image, "nginx:1.27");

    let before = pods();
    assert_eq!(before.len(), 8, "{before:?}");
    kubectl.says(&format!("delete {} --timeout=120s", before[0]));
    kubectl.says("wait --for=jsonpath={.status.readyReplicas}=8 deployment/web --timeout=120s");
    assert!(kubectl.says("rollout status deployment/web --timeout=120s").ends_with(rolled_out));
    assert!(!pods().contains(&before[0]), "another one came in its place");
    let described = kubectl.says("describe deployment web");
    assert!(described.contains("8 desired | 8 updated | 8 total | 8 available | 0 unavailable"), "{described}");
    assert!(described.contains("ScalingReplicaSet"), "{described}");

    kubectl.says("delete deployment web --cascade=foreground --timeout=120s");
    assert_eq!(kubectl.says("get deployments,replicasets,pods -l app=web -o name"), "");
}
