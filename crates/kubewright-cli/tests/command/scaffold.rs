//! `new`: creates, builds and tests a project.

use std::process::Command;

use kubewright_client::{Api, Scope};
use kubewright_core::{DynamicObject, Object};
use kubewright_yaml as yaml;

use crate::process::{Cluster, Scratch, text};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn new(folder: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    let output = command.arg("new").arg(folder).args(arguments).output().expect("the command was built");
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The template itself is tested on every run, as the example `scaffold`; this tests other names.
#[test]
#[ignore = "builds the whole library once more, with the features that a project asks for: minutes"]
fn a_project_passes_its_own_tests() {
    let scratch = Scratch::new("projects");
    let folder = format!("{}/box-operator", scratch.path());
    // An irregular plural, and a kind with the name of an import of the template.
    let arguments = ["--group", "things.example.org", "--kind", "Box", "--path", ROOT];
    let (code, said) = new(&folder, &arguments);
    assert!(code == Some(0) && said.contains("a controller of Box objects (boxes.things.example.org)"), "{said}");
    // The locked versions of this workspace, which are available offline.
    std::fs::copy(format!("{ROOT}/Cargo.lock"), format!("{folder}/Cargo.lock")).expect("there is one");
    // Shares the target directory of this test, to avoid rebuilding.
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/..");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut tests = Command::new(cargo);
    tests.current_dir(&folder).args(["test", "--offline", "--target-dir", target]);
    let output = tests.output().expect("cargo runs the tests already");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("4 passed") && !said.contains("warning:"), "{said}");

    let (code, said) = new(&folder, &arguments);
    assert!(code == Some(1) && said.contains("exists already, and is left as it is"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_the_manifests_of_a_project() {
    let scratch = Scratch::new("projects");
    let folder = format!("{}/policy", scratch.path());
    let (code, said) = new(&folder, &[]);
    assert!(code == Some(0), "{said}");
    let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).expect("it is there");
    let version = format!("kubewright = {{ version = \"{}\", features", env!("CARGO_PKG_VERSION"));
    assert!(manifest.contains(&version), "{manifest}");

    let cluster = Cluster::start(&["apiserver"]);
    let client = cluster.client();
    for file in ["crd", "rbac", "deployment", "example"] {
        let read = std::fs::read_to_string(format!("{folder}/manifests/{file}.yaml")).expect("it is there");
        for document in yaml::parse_all(&read).expect("it is YAML") {
            let object: DynamicObject = document.value.to_string().parse().expect("it is an object");
            let kind = object.group_version_kind();
            let mapping = loop {
                // A definition takes a moment to be served.
                match client.rest_mapper().kind(&kind.group_kind(), &[]).await {
                    Ok(mapping) => break mapping,
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                }
            };
            let api = Api::<DynamicObject>::new(&client, mapping.resource, Scope::Cluster);
            let api = if mapping.namespaced { api.namespace("default") } else { api };
            api.create(&object).await.unwrap_or_else(|error| panic!("{file}: {kind}: {error}"));
        }
    }
}

#[test]
fn names_that_are_none_are_refused() {
    let scratch = Scratch::new("projects");
    let folder = format!("{}/shop", scratch.path());
    for (arguments, told) in [
        (&["--group", "shop"][..], "is no group"),
        (&["--kind", "order"], "is no kind"),
        (&["--path", "/nowhere"], "is no checkout of kubewright"),
    ] {
        let (code, said) = new(&folder, arguments);
        assert!(code == Some(1) && said.contains(told), "{said}");
    }
    assert!(!std::path::Path::new(&folder).exists());
}
