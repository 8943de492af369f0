//! The first minute with `up`: objects are applied, scaled, edited and deleted without kubectl.

use std::path::Path;
use std::process::{Command, Output};

use crate::process::{Scratch, Serving, text};

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'nginx:1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
";

/// A kubeconfig of the user's, and a folder of manifests.
struct Home {
    kubeconfig: Scratch,
    manifests: Scratch,
}

impl Home {
    fn new() -> Self {
        let home = Home { kubeconfig: Scratch::new("user-config"), manifests: Scratch::new("manifests") };
        std::fs::write(&home.kubeconfig.0, "{current-context: work, contexts: [], clusters: [], users: []}").unwrap();
        std::fs::create_dir_all(&home.manifests.0).unwrap();
        std::fs::write(home.manifests.0.join("web.yaml"), WEB).unwrap();
        std::fs::write(home.manifests.0.join("notes.txt"), "no manifest").unwrap();
        home
    }

    fn kubeconfig(&self) -> String {
        std::fs::read_to_string(&self.kubeconfig.0).unwrap()
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig.0).env_remove("EDITOR").env_remove("KUBE_EDITOR");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(Path::new(env!("CARGO_BIN_EXE_kubewright")), arguments).output().expect("the command was built")
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn edit(&self, editor: &str, object: &str) -> Output {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_kubewright")), &["edit", object]);
        command.env("KUBE_EDITOR", editor).output().expect("the command was built")
    }
}

#[test]
fn a_tour_needs_no_kubectl_and_leaves_the_kubeconfig_as_it_was() {
    let home = Home::new();
    let before = home.kubeconfig();
    let mut command = home.command(Path::new(env!("CARGO_BIN_EXE_kubewright")), &[]);
    command.args(["up", "--listen", "127.0.0.1:0", "--apply", home.manifests.path(), "--quiet"]);
    let serving = Serving::start_command(command);
    assert!(serving.line.starts_with("ready https://127.0.0.1:"), "{}", serving.line);

    // The objects of --apply are there when the cluster is ready.
    assert_eq!(home.says(&["get", "deployment,service", "web", "-o", "name"]), "deployment.apps/web\nservice/web\n");
    let again = home.says(&["apply", "-f", home.manifests.path()]);
    assert_eq!(again, "deployment.apps/web unchanged\nservice/web unchanged\n");

    assert_eq!(home.says(&["scale", "deployment/web", "--replicas", "3"]), "deployment.apps/web scaled\n");
    let replicas = || home.says(&["get", "deployment", "web", "-o", "yaml"]).contains("\n  replicas: 3\n");
    assert!(replicas());
    let refused = home.fails(&["scale", "deployment", "web", "--replicas", "9", "--current-replicas", "5"]);
    assert_eq!(refused, "error: web has 3 replicas, and not 5\n");
    assert!(replicas());
    assert!(home.fails(&["scale", "service/web", "--replicas", "1"]).starts_with("error: "));

    // The scale has another manager, which an apply does not overrule unasked.
    let conflict = home.fails(&["apply", "-f", home.manifests.path()]);
    assert!(conflict.contains("deployment.apps/web: ") && conflict.contains(".spec.replicas"), "{conflict}");
    let forced = home.says(&["apply", "--force-conflicts", "-f", home.manifests.path()]);
    assert_eq!(forced, "deployment.apps/web configured\nservice/web unchanged\n");

    // The manifest of the README.
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/web.yaml");
    let dry_run = home.says(&["apply", "--dry-run", "--force-conflicts", "-f", example]);
    assert_eq!(dry_run, "deployment.apps/web configured (server dry run)\n");

    edits(&home);

    assert!(home.fails(&["delete", "deployments"]).contains("--all"));
    assert_eq!(home.says(&["delete", "deployment/web"]), "deployment.apps \"web\" deleted\n");
    assert!(home.fails(&["delete", "deployment", "web"]).contains("not found"));
    let rest = home.says(&["delete", "-f", home.manifests.path(), "--ignore-not-found"]);
    assert_eq!(rest, "service \"web\" deleted\n");
    assert_eq!(home.says(&["delete", "pods", "-l", "app=nothing"]), "No resources found\n");

    let (status, _) = serving.stop();
    assert!(status.success());
    let names = |kubeconfig: &str| kubewright_client::config::Kubeconfig::parse(kubeconfig, None).unwrap();
    assert_eq!(names(&home.kubeconfig()).contexts, names(&before).contexts);
    assert!(!home.kubeconfig().contains("127.0.0.1"), "{}", home.kubeconfig());
}

fn edits(home: &Home) {
    let edited = home.edit("sed -i s/nginx:1/nginx:2/", "deployment/web");
    assert_eq!(text(&edited.stdout), "deployment.apps/web edited\n", "{}", text(&edited.stderr));
    assert!(home.says(&["get", "deployment", "web", "-o", "yaml"]).contains("image: nginx:2"));
    let same = home.edit("true", "deployment/web");
    assert_eq!(text(&same.stdout), "deployment.apps/web is not changed\n");

    // The server's reason is in the file that the editor opens next.
    let seen = Scratch::new("seen");
    let script = format!("cp \"$0\" {} 2>/dev/null; sed -i 's/replicas: 2/replicas: -2/'", seen.path());
    let refused = home.edit(&script, "deployment/web");
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    assert!(error.contains("must be greater than or equal to 0"), "{error}");
    assert!(std::fs::read_to_string(&seen.0).unwrap().contains("must be greater than or equal to 0"));
    let draft = error.split_whitespace().find(|word| word.contains("kubewright-edit-")).expect("it names the file");
    let draft = Path::new(draft.trim_end_matches(':'));
    assert!(std::fs::read_to_string(draft).unwrap().contains("replicas: -2"));
    std::fs::remove_file(draft).unwrap();

    let failed = home.edit("false", "deployment/web");
    assert!(text(&failed.stderr).contains("$KUBE_EDITOR"), "{}", text(&failed.stderr));
}

#[test]
fn a_kubeconfig_of_another_cluster_is_not_touched() {
    let home = Home::new();
    let foreign = "{contexts: [{name: kubewright, context: {cluster: kubewright, user: u}}], users: [],
        clusters: [{name: kubewright, cluster: {server: 'https://example.com'}}]}";
    for (text, option) in [(foreign, None), ("{contexts: []}", Some("--no-context"))] {
        std::fs::write(&home.kubeconfig.0, text).unwrap();
        let mut command = home.command(Path::new(env!("CARGO_BIN_EXE_kubewright")), &["up", "--nodes", "0"]);
        command.args(["--listen", "127.0.0.1:0"]).args(option);
        let serving = Serving::start_command(command);
        if option.is_none() {
            serving.until_it_says("--write-kubeconfig FILE, or --no-context");
        }
        assert_eq!(home.kubeconfig(), text);
        assert!(serving.stop().0.success());
        assert_eq!(home.kubeconfig(), text);
    }
}

#[test]
fn a_manifest_that_cannot_be_applied_ends_up() {
    let home = Home::new();
    std::fs::write(home.manifests.0.join("bad.yaml"), "{apiVersion: v1, kind: Pod, metadata: {name: x}}").unwrap();
    let error = home.fails(&["up", "--listen", "127.0.0.1:0", "--quiet", "--apply", home.manifests.path()]);
    assert!(error.starts_with("error: cannot apply pod/x: "), "{error}");
    let missing = home.fails(&["up", "--listen", "127.0.0.1:0", "--quiet", "--apply", "/nowhere"]);
    assert!(missing.contains("/nowhere"), "{missing}");
    assert!(!home.kubeconfig().contains("kubewright"));
}
