//! Projects on a server: their manifests, their chart, their build, and `dev`.

use std::fs;
use std::process::{Command, Output};

use kubewright_core::Value;
use kubewright_yaml as yaml;

use crate::process::{Cluster, PATIENCE, Serving, text};
use crate::project::{ROOT, done, run, shop};

fn kubectl(cluster: &Cluster, folder: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(cluster.kubeconfig.path()).args(arguments).current_dir(folder);
    command.output().expect("it was there before")
}

fn kubectl_says(cluster: &Cluster, folder: &str, arguments: &[&str]) -> String {
    let output = kubectl(cluster, folder, arguments);
    assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn kubectl_applies_the_manifests_of_a_new_project_at_once() {
    if !crate::kubectl::is_there() {
        return;
    }
    let (_scratch, folder) = shop();
    let cluster = Cluster::start(&["apiserver"]);
    let said = kubectl_says(&cluster, &folder, &["apply", "-f", "manifests/"]);
    for part in ["namespace/shop-system created", "orders.shop.example.org created", "deployment.apps/shop created"] {
        assert!(said.contains(part), "{said}");
    }
    // kustomize has the same objects.
    let said = kubectl_says(&cluster, &folder, &["apply", "-k", "."]);
    assert!(!said.contains("created") && said.contains("deployment.apps/shop "), "{said}");
    kubectl_says(&cluster, &folder, &["wait", "--for=condition=Established", "crd/orders.shop.example.org"]);
    kubectl_says(&cluster, &folder, &["apply", "-f", "samples/"]);
    let table = kubectl_says(&cluster, &folder, &["get", "orders"]);
    let heading: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(heading, ["NAME", "WANTED", "AVAILABLE", "AGE"], "{table}");
    // The program may do what its role says, and no more.
    let can = |verb: &str, resource: &str| {
        let account = "--as=system:serviceaccount:shop-system:shop";
        text(&kubectl(&cluster, &folder, &["auth", "can-i", verb, resource, account, "-n", "default"]).stdout)
    };
    assert_eq!(can("create", "deployments.apps").trim(), "yes");
    assert_eq!(can("delete", "deployments.apps").trim(), "no");
    assert_eq!(can("get", "secrets").trim(), "no");
}

/// Helm itself cannot be installed where this was written. The engine is the same: text/template.
#[test]
#[allow(clippy::print_stderr)]
fn the_chart_has_the_objects_of_the_manifests() {
    if Command::new("go").arg("version").output().is_err() || !crate::kubectl::is_there() {
        eprintln!("SKIPPED: the chart, because Go or kubectl is not on this machine");
        return;
    }
    let (_scratch, folder) = shop();
    let values = fs::read_to_string(format!("{folder}/chart/values.yaml")).expect("it is there");
    let values = yaml::parse(&values).expect("it is YAML").value.to_string();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/helm/render.go");
    let mut go = Command::new("go");
    go.args(["run", program, &format!("{folder}/chart"), &values]);
    go.env("GOCACHE", format!("{}/go-cache", env!("CARGO_TARGET_TMPDIR"))).env("GO111MODULE", "off");
    let output = go.output().expect("it was there before");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rendered = text(&output.stdout);
    fs::write(format!("{folder}/rendered.yaml"), &rendered).expect("the folder is ours");

    let objects = |text: &str| -> Vec<(String, String)> {
        let objects = yaml::objects(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let name = |object: &kubewright_core::DynamicObject| {
            (object.kind.to_string(), kubewright_core::Object::name(object).to_owned())
        };
        let mut names: Vec<_> = objects.iter().map(name).filter(|(kind, _)| kind != "Namespace").collect();
        names.sort();
        names
    };
    let manifests: String = fs::read_dir(format!("{folder}/manifests"))
        .expect("it is a folder")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("it is text") + "\n---\n")
        .collect();
    assert_eq!(objects(&rendered), objects(&manifests));
    assert!(!rendered.contains("shop-system") && rendered.contains("helm.sh/resource-policy: keep"), "{rendered}");

    let cluster = Cluster::start(&["apiserver"]);
    kubectl_says(&cluster, &folder, &["create", "namespace", "elsewhere"]);
    kubectl_says(&cluster, &folder, &["apply", "-f", "rendered.yaml"]);
    let image =
        ["get", "deployment", "shop", "-n", "elsewhere", "-o", "jsonpath={.spec.template.spec.containers[0].image}"];
    assert_eq!(kubectl_says(&cluster, &folder, &image), "shop:0.1.0");
}

#[test]
fn ci_and_image_are_written_for_the_project() {
    let (_scratch, folder) = shop();
    let read =
        |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_else(|error| panic!("{file}: {error}"));
    for file in [".github/workflows/ci.yaml", ".gitlab-ci.yml", "kustomization.yaml", "chart/Chart.yaml"] {
        let tree = yaml::parse(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}")).value;
        assert!(matches!(tree, Value::Object(_)), "{file}");
    }
    let image = read("Dockerfile");
    for part in ["gcr.io/distroless/static:nonroot", "USER 65532:65532", "ENTRYPOINT [\"/shop\"]"] {
        assert!(image.contains(part), "{image}");
    }
}

/// A cargo command in a project, with the locked versions and the build of this workspace.
fn cargo(folder: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.current_dir(folder).args(arguments).envs(environment());
    let output = command.output().expect("cargo runs the tests already");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {said}");
    said
}

fn environment() -> [(&'static str, &'static str); 2] {
    [("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/..")), ("CARGO_NET_OFFLINE", "true")]
}

fn kubewright(folder: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    let output = command.current_dir(folder).args(arguments).envs(environment()).output().expect("it was built");
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The template itself is tested on every run, as the example `scaffold`; this tests other names,
/// more kinds, versions and webhooks, and the commands that build a project.
#[test]
#[ignore = "builds the whole library once more, with the features that a project asks for: minutes"]
fn a_project_with_everything_passes_its_tests_and_runs() {
    let (_scratch, folder) = shop();
    fs::copy(format!("{ROOT}/Cargo.lock"), format!("{folder}/Cargo.lock")).expect("there is one");
    for arguments in [
        &["create", "api", "--version", "v1beta1", "--kind", "Order"][..],
        &["create", "api", "--version", "v1", "--kind", "Option"],
        &["create", "api", "--version", "v1", "--kind", "Self", "--plural", "selves"],
        &["create", "api", "--group", "pay.example.org", "--version", "v1", "--kind", "Type"],
        &["create", "api", "--group", "pay.example.org", "--version", "v2", "--kind", "Type"],
        &["create", "api", "--group", "pay.example.org", "--version", "v1", "--kind", "Order"],
        &[
            "create",
            "api",
            "--group",
            "pay.example.org",
            "--version",
            "v1",
            "--kind",
            "Zone",
            "--no-controller",
            "--cluster-scoped",
        ],
    ] {
        done(&folder, arguments);
    }
    let order = ["create", "webhook", "--group", "shop.example.org", "--version", "v1alpha1", "--kind", "Order"];
    done(&folder, &[&order[..], &["--defaulting", "--validating", "--conversion"]].concat());

    cargo(&folder, &["run", "-q", "--", "manifests"]);
    cargo(&folder, &["fmt", "--check"]);
    let said = cargo(&folder, &["test"]);
    assert!(said.contains("21 passed") && !said.contains("warning:"), "{said}");

    // The role: as declared, as used, and too small.
    let (code, said) = kubewright(&folder, &["rbac"]);
    assert!(code == Some(0) && said.contains("apps deployments: get, list, watch, create, update"), "{said}");
    let (code, said) = kubewright(&folder, &["rbac", "--from-test", "--check"]);
    assert!(code == Some(0) && said.contains("the role grants what the tests use"), "{said}");
    let (code, said) = kubewright(&folder, &["rbac", "--from-test"]);
    assert!(code == Some(0) && said.contains("apps deployments: list, watch, create, update"), "{said}");
    let role = format!("{folder}/manifests/20-role.yaml");
    let least = fs::read_to_string(&role).expect("it is there");
    cargo(&folder, &["test"]);
    fs::write(&role, least.replace("  - create\n", "")).expect("it is writable");
    let (code, said) = kubewright(&folder, &["rbac", "--from-test", "--check"]);
    assert!(code == Some(1) && said.contains("apps deployments: create"), "{said}");
    fs::write(&role, "# mine\n".to_owned() + &least).expect("it is writable");
    let (code, said) = kubewright(&folder, &["rbac"]);
    assert!(code == Some(1) && said.contains("was edited"), "{said}");
    fs::write(&role, &least).expect("it is writable");
    let said = cargo(&folder, &["clippy", "-q", "--all-targets", "--", "-D", "warnings"]);
    assert!(!said.contains("warning"), "{said}");
}

/// Three commands lead to a reconcile: `new`, `cd`, and this one.
#[test]
#[ignore = "builds the whole library once more, with the features that a project asks for: minutes"]
fn dev_runs_the_operator_and_starts_it_again_after_a_change() {
    let (_scratch, folder) = shop();
    fs::copy(format!("{ROOT}/Cargo.lock"), format!("{folder}/Cargo.lock")).expect("there is one");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    command.current_dir(&folder).envs(environment());
    let dev = Serving::spawn(command, &["dev"]);
    let kubeconfig = format!("{folder}/.kubewright/kubeconfig");
    let available = |wanted: &str| {
        let begun = std::time::Instant::now();
        loop {
            let (_, table) = run(&folder, &["get", "orders", "--kubeconfig", &kubeconfig]);
            let line = table.lines().find(|line| line.starts_with("first")).unwrap_or_default();
            if line.split_whitespace().nth(2) == Some(wanted) {
                return;
            }
            assert!(begun.elapsed() < 5 * PATIENCE, "{table}");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    };
    // The sample wants two; the Deployment runs on simulated nodes.
    available("2");
    let controller = format!("{folder}/src/kinds/order/controller.rs");
    let code = fs::read_to_string(&controller).expect("it is there");
    let changed =
        code.replace("spec.replicas = Some(object.spec.replicas);", "spec.replicas = Some(object.spec.replicas + 1);");
    assert_ne!(changed, code);
    fs::write(&controller, changed).expect("it is writable");
    available("3");
    assert!(dev.stop().0.success(), "it stops in order");
}
