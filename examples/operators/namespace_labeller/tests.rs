//! Two namespaces that the operator serves, and one that it must not touch.

use std::time::Duration;

use kubewright::api::core::v1::{Namespace, NamespaceApply};
use kubewright::condition;
use kubewright::options::ApplyOptions;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{Api, Object};

use super::{FINALIZER, NamespaceLabels, NamespaceLabelsSpec, manager};
use crate::support::{Audit, assert_written, cluster, operator};

const RBAC: &str = include_str!("rbac.yaml");

async fn start() -> (TestCluster, RunningManager, Audit) {
    let other = "{apiVersion: v1, kind: Namespace, metadata: {name: other}}";
    let cluster = cluster(&[RBAC, include_str!("crd.yaml"), other]).await;
    let (client, audit) = operator(&cluster, "namespace-labeller");
    let manager = manager(&client, &["team-a".to_owned(), "team-b".to_owned()]).expect("valid options");
    let running = cluster.run(manager);
    (cluster, running, audit)
}

fn labels<const N: usize>(name: &str, labels: [(&str, &str); N]) -> NamespaceLabels {
    let labels = labels.map(|(name, value)| (format!("team.example.com/{name}"), value.to_owned()));
    NamespaceLabels::new(name, NamespaceLabelsSpec { labels: labels.into() })
}

fn has(name: &str, value: Option<&str>) -> impl Fn(&Namespace) -> bool {
    let name = format!("team.example.com/{name}");
    move |namespace| namespace.labels().get(&name) == value
}

fn is_applied(status: &str) -> impl Fn(&NamespaceLabels) -> bool {
    move |object| {
        let conditions = object.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        condition::is_present_and_equal(conditions, "Applied", status)
    }
}

#[test]
fn the_manifest_is_the_definition_of_the_type() {
    assert_written("namespace_labeller/crd.yaml", include_str!("crd.yaml"), &NamespaceLabels::definition());
}

#[tokio::test(start_paused = true)]
async fn labels_are_set_changed_and_removed_with_exactly_these_permissions() {
    let (cluster, running, audit) = start().await;
    for team in ["team-a", "team-b"] {
        let objects = Api::<NamespaceLabels>::namespaced(&cluster.client(), team);
        objects.create(&labels("ours", [("tier", "web"), ("cost", "7")])).await.expect("it is valid");
        cluster.eventually("", team, has("tier", Some("web"))).await;
        let mut object = cluster.eventually(team, "ours", is_applied("True")).await;

        object.spec.labels = labels("", [("tier", "db")]).spec.labels;
        objects.update(&object).await.expect("nobody else writes it");
        let namespace = cluster.eventually("", team, has("tier", Some("db"))).await;
        assert!(has("cost", None)(&namespace));

        objects.delete("ours").await.expect("it is there");
        cluster.eventually_gone::<NamespaceLabels>(team, "ours").await;
        let namespace: Namespace = cluster.eventually("", team, has("tier", None)).await;
        // Labels of others are still there.
        assert_eq!(namespace.labels().get("kubernetes.io/metadata.name"), Some(team));
    }
    running.stop().await.expect("it stops in order");
    audit.assert_exact(RBAC);
}

#[tokio::test(start_paused = true)]
async fn other_namespaces_are_not_touched() {
    let (cluster, running, audit) = start().await;
    let foreign = Api::<NamespaceLabels>::namespaced(&cluster.client(), "other");
    foreign.create(&labels("ours", [("tier", "web")])).await.expect("it is valid");
    let served = Api::<NamespaceLabels>::namespaced(&cluster.client(), "team-a");
    served.create(&labels("ours", [("tier", "web")])).await.expect("it is valid");
    cluster.eventually("", "team-a", has("tier", Some("web"))).await;
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert!(foreign.get("ours").await.expect("it is there").finalizers().is_empty());
    cluster.eventually("", "other", has("tier", None)).await;
    assert!(served.get("ours").await.expect("it is there").finalizers().iter().any(|name| *name == *FINALIZER));
    running.stop().await.expect("it stops in order");
    let namespaces = audit.namespaces();
    assert_eq!(namespaces.iter().map(String::as_str).collect::<Vec<_>>(), ["namespace-labeller", "team-a", "team-b"]);
}

#[tokio::test(start_paused = true)]
async fn a_label_of_somebody_else_is_kept_and_reported() {
    let (cluster, running, _) = start().await;
    let namespaces = Api::<Namespace>::all(&cluster.client());
    let of_admin = NamespaceApply::new("team-a").labels([("team.example.com/tier", "admin")]);
    let admin = ApplyOptions::new("admin");
    namespaces.apply_configuration(&of_admin, &admin).await.expect("it is valid");
    let objects = Api::<NamespaceLabels>::namespaced(&cluster.client(), "team-a");
    objects.create(&labels("ours", [("tier", "web")])).await.expect("it is valid");
    let object = cluster.eventually("team-a", "ours", is_applied("False")).await;
    let message = object.status.expect("it has conditions").conditions[0].message.clone();
    assert!(message.contains("conflict") && message.contains("admin"), "{message}");
    cluster.eventually("", "team-a", has("tier", Some("admin"))).await;

    namespaces.apply_configuration(&NamespaceApply::new("team-a"), &admin).await.expect("it is valid");
    let cluster = cluster.patience(Duration::from_secs(300));
    cluster.eventually("", "team-a", has("tier", Some("web"))).await;
    cluster.eventually("team-a", "ours", is_applied("True")).await;

    // The operator cannot watch namespaces, but it looks at them from time to time.
    let removed = kubewright::json!({"metadata": {"labels": {"team.example.com/tier": null}}});
    namespaces.patch("team-a", kubewright::options::Patch::merge(removed)).await.expect("it is valid");
    let cluster = cluster.patience(Duration::from_secs(1300));
    cluster.eventually("", "team-a", has("tier", Some("web"))).await;
    running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn teams_cannot_set_labels_outside_of_their_prefix() {
    let (cluster, _running, _) = start().await;
    let objects = Api::<NamespaceLabels>::namespaced(&cluster.client(), "team-a");
    let label = ("pod-security.kubernetes.io/enforce".to_owned(), "privileged".to_owned());
    let object = NamespaceLabels::new("ours", NamespaceLabelsSpec { labels: [label].into() });
    let error = objects.create(&object).await.expect_err("the definition has a rule");
    assert!(error.to_string().contains("labels must start with team.example.com/"), "{error}");
}
