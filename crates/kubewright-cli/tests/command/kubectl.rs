//! The life of deployments, stateful sets, daemon sets and replication controllers, as kubectl sees
//! it.

use std::process::{Command, Output};
use std::time::Duration;

use crate::process::{Cluster, Scratch, text};

struct Kubectl<'a> {
    cluster: &'a Cluster,
}

impl Kubectl<'_> {
    fn run(&self, arguments: &str) -> Output {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig.path()).args(arguments.split_whitespace());
        command.output().expect("it was there before")
    }

    /// Its output on success.
    fn says(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "kubectl {arguments}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }
}

/// Whether kubectl is installed; prints a note if not.
#[allow(clippy::print_stderr)]
pub fn is_there() -> bool {
    let asked = Command::new("kubectl").args(["version", "--client"]).output();
    let is_there = asked.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: a test with kubectl, because there is no kubectl on this machine");
    }
    is_there
}

#[test]
fn a_deployment_of_eight_lives_as_on_a_cluster() {
    if !is_there() {
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

    // A terminating pod no longer counts for the deployment, and may run a moment longer.
    let before = (0..100)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            pods()
        })
        .find(|pods| pods.len() == 8)
        .expect("eight pods are left");
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

const SETS: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, annotations: {kubernetes.io/change-cause: first}}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "one:1"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, annotations: {kubernetes.io/change-cause: first}}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: "one:1"}]}
"#;

#[test]
fn stateful_and_daemon_sets_roll_forth_and_back() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(&["up", "--quiet"]);
    let kubectl = Kubectl { cluster: &cluster };
    let manifest = Scratch::new("sets");
    std::fs::write(&manifest.0, SETS).expect("a file that can be written");
    kubectl.says(&format!("apply -f {}", manifest.path()));
    for set in ["statefulset/db", "daemonset/agent"] {
        let image = |image: &str| {
            kubectl.says(&format!("rollout status {set} --timeout=120s"));
            let app = set.split('/').next_back().unwrap_or_default();
            let template = "-o jsonpath={.items[*].spec.containers[0].image}";
            assert_eq!(kubectl.says(&format!("get pods -l app={app} {template}")), [image; 3].join(" "), "{set}");
        };
        image("one:1");
        kubectl.says(&format!("set image {set} main=two:2"));
        kubectl.says(&format!("annotate {set} kubernetes.io/change-cause=second --overwrite"));
        image("two:2");
        let history = kubectl.says(&format!("rollout history {set}"));
        assert!(history.contains("1         first"), "{history}");
        kubectl.says(&format!("rollout undo {set}"));
        image("one:1");
    }
    assert_eq!(kubectl.says("get pods -l app=db -o name"), "pod/db-0\npod/db-1\npod/db-2");
    let line = kubectl.says("get daemonset agent --no-headers");
    assert!(line.split_whitespace().collect::<Vec<_>>().starts_with(&["agent", "3", "3", "3", "3", "3"]), "{line}");
    kubectl.says("scale statefulset/db --replicas=1");
    kubectl.says("wait --for=delete pod/db-1 --timeout=120s");
    kubectl.says("delete statefulset/db daemonset/agent --cascade=foreground --timeout=120s");
    assert_eq!(kubectl.says("get pods,controllerrevisions -o name"), "");
    assert_eq!(kubectl.says("get pvc -o name").lines().count(), 3, "storage stays");
}

const REPLICATION_CONTROLLER: &str = r#"
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: main, image: "one:1"}]}
"#;

#[test]
fn a_replication_controller_leaves_its_pods_to_the_next_one() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(&["up", "--quiet"]);
    let kubectl = Kubectl { cluster: &cluster };
    let manifest = Scratch::new("rc");
    std::fs::write(&manifest.0, REPLICATION_CONTROLLER).expect("a file that can be written");
    kubectl.says(&format!("create -f {}", manifest.path()));
    kubectl.says("wait --for=jsonpath={.status.readyReplicas}=2 rc/old --timeout=120s");
    kubectl.says("scale rc/old --replicas=3");
    kubectl.says("wait --for=jsonpath={.status.readyReplicas}=3 rc/old --timeout=120s");
    let line = kubectl.says("get rc old --no-headers");
    assert!(line.split_whitespace().collect::<Vec<_>>().starts_with(&["old", "3", "3", "3"]), "{line}");
    let described = kubectl.says("describe rc old");
    assert!(described.contains("3 Running / 0 Waiting / 0 Succeeded / 0 Failed"), "{described}");
    assert!(described.contains("replication-controller  Created pod: old-"), "{described}");

    let pods = || kubectl.says("get pods -l app=old -o name --sort-by=.metadata.name");
    let before = pods();
    kubectl.says("delete rc old --cascade=orphan");
    assert_eq!(pods(), before);
    kubectl.says(&format!("create -f {}", manifest.path()));
    kubectl.says("wait --for=jsonpath={.status.readyReplicas}=2 rc/old --timeout=120s");
    assert!(pods().lines().all(|pod| before.contains(pod)), "{before}");
    kubectl.says("delete rc old --cascade=foreground --timeout=120s");
    assert_eq!(pods(), "");
}
