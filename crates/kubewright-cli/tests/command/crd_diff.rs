//! `kubewright crd diff`: what it prints, and its exit code.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::process::{Cluster, Scratch, kubewright, text};

/// A definition of widgets with this specification.
fn definition(spec: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: widgets.example.com}}
spec:
  group: example.com
  scope: Namespaced
  names: {{plural: widgets, kind: Widget}}
{spec}"
    )
}

/// The only version, with this schema of `spec`.
fn version(spec: &str) -> String {
    definition(&format!(
        "  versions:
  - name: v1
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {spec}}}}}}}
"
    ))
}

fn loose() -> String {
    version("{type: object, properties: {size: {type: integer}, color: {type: string}}}")
}

fn strict() -> String {
    version("{type: object, required: [size], properties: {size: {type: integer, maximum: 3}}}")
}

fn file(content: &str) -> Scratch {
    let file = Scratch::new("definition");
    std::fs::write(&file.0, content).expect("a file of our own");
    file
}

fn diff(old: &str, new: &str) -> Output {
    let (old, new) = (file(old), file(new));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    command.args(["crd", "diff", old.path(), new.path()]).output().expect("the command was built")
}

#[test]
fn an_incompatible_change_names_version_and_field() {
    let output = diff(&loose(), &strict());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        "widgets.example.com: version v1: spec.color is removed, and pruned from objects\n\
         widgets.example.com: version v1: spec.size has a new maximum, 3\n\
         widgets.example.com: version v1: spec.size is required now, and has no default\n"
    );
    assert_eq!(text(&output.stderr), "error: the change is incompatible: 3 problems\n");
}

#[test]
fn a_compatible_change_succeeds() {
    let old = version("{type: object, properties: {size: {type: integer, maximum: 3}}}");
    let output = diff(&old, &loose());
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "compatible\n"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn versions_subresources_and_selectable_fields_are_compared() {
    let schema = "schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}";
    let old = definition(&format!(
        "  versions:
  - {{name: v1, served: true, storage: true, {schema}, subresources: {{status: {{}}}}, selectableFields: [{{jsonPath: .spec.a}}]}}
  - {{name: v1beta1, served: true, storage: false, {schema}}}
  - {{name: v1alpha1, served: true, storage: false, {schema}}}
"
    ));
    let new = definition(&format!(
        "  versions:
  - {{name: v1, served: true, storage: false, {schema}}}
  - {{name: v1beta1, served: false, storage: false, {schema}}}
  - {{name: v2, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}
"
    ));
    let output = diff(&old, &new);
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.lines().map(|line| line.trim_start_matches("widgets.example.com: ")).collect();
    assert_eq!(
        lines,
        [
            "version v1: the subresource status is removed",
            "version v1: spec.a is no longer selectable",
            "version v1beta1: is no longer served",
            "version v1alpha1: is removed",
            "version v2: is stored instead of v1 without conversion: spec is removed, and pruned from objects",
        ]
    );
    let unstored = new.replace("- {name: v1,", "- {name: v3,");
    let lost = "widgets.example.com: version v1: is removed while objects may be stored in it\n";
    assert!(text(&diff(&old, &unstored).stdout).starts_with(lost));
    let renamed = old.replace("kind: Widget", "kind: Gadget");
    let output = diff(&old, &renamed);
    let changed = "widgets.example.com: the kind changes from \"Widget\" to \"Gadget\", which no server allows\n";
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), changed));
}

#[test]
fn one_file_can_be_standard_input() {
    let new = file(&strict());
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubewright"))
        .args(["crd", "diff", "-", new.path()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command was built");
    child.stdin.take().expect("it is piped").write_all(loose().as_bytes()).expect("it reads its input");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(1), 3));
    let both = Command::new(env!("CARGO_BIN_EXE_kubewright")).args(["crd", "diff", "-", "-"]).output();
    assert_eq!(both.expect("the command was built").status.code(), Some(1));
}

#[test]
fn a_file_without_definitions_is_an_error() {
    let output = diff("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", &strict());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no CustomResourceDefinition in it"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn stored_objects_that_become_invalid_are_named() {
    let cluster = Cluster::start(&["apiserver", "--quiet"]);
    let manifest = file(&format!(
        "{}---
{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: big, namespace: default}}, spec: {{size: 5}}}}
---
{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: red, namespace: default}}, spec: {{size: 1, color: red}}}}
---
{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: small, namespace: default}}, spec: {{size: 1}}}}
",
        loose()
    ));
    let output = kubewright(&cluster.kubeconfig.0, &["import", manifest.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (old, new) = (file(&loose()), file(&strict()));
    let output = kubewright(&cluster.kubeconfig.0, &["crd", "diff", old.path(), new.path()]);
    let printed = text(&output.stdout);
    let objects: Vec<&str> = printed.lines().filter(|line| line.contains("Widget ")).collect();
    assert_eq!(
        objects,
        [
            "widgets.example.com: Widget default/big in version v1: spec.size: Invalid value: 5: \
             spec.size in body should be less than or equal to 3",
            "widgets.example.com: Widget default/red in version v1: spec.color would be removed",
        ]
    );
    assert_eq!(text(&output.stderr), "error: the change is incompatible: 5 problems\n");
}
