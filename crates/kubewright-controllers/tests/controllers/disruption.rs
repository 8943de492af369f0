//! Disruption budgets.

use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, StatefulSet, StatefulSetSpec};
use kubewright_api::core::v1::{ConfigMap, Event, Pod, ReplicationController, ReplicationControllerSpec};
use kubewright_api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{GroupVersionKind, IntOrString, Time, owner};

use tokio::time::{Instant, sleep};

use crate::support::{Cluster, deployment, is_rolled_out, labels, template};

fn budget(app: &str, min_available: Option<IntOrString>, max_unavailable: Option<IntOrString>) -> PodDisruptionBudget {
    let selector = LabelSelector { match_labels: labels(app), ..Default::default() };
    let mut budget = PodDisruptionBudget::default();
    budget.metadata.name = Some(app.into());
    budget.spec = Some(PodDisruptionBudgetSpec {
        min_available,
        max_unavailable,
        selector: Some(selector.into()),
        ..Default::default()
    });
    budget
}

/// Three pods with the label `app` and this controller.
async fn pods(
    cluster: &Cluster,
    app: &str,
    controller: Option<(&kubewright_core::meta::v1::ObjectMeta, [&'static str; 3])>,
) {
    for number in 0..3 {
        let mut pod = Pod { spec: template(app, "one:1").spec, ..Default::default() };
        pod.metadata.name = Some(format!("{app}-{number}").into());
        pod.metadata.labels = labels(app);
        if let Some((meta, [group, version, kind])) = controller {
            let kind = GroupVersionKind::from_static(group, version, kind);
            pod.metadata.owner_references = [owner::new_controller_ref(meta, &kind)].into();
        }
        cluster.create(&pod).await;
    }
}

/// Expected, desired healthy and evictable pods of a budget, once three are healthy; and the
/// reason.
async fn account(cluster: &Cluster, name: &str) -> ((i32, i32, i32), String) {
    let status = cluster
        .until::<PodDisruptionBudget>(name, |budget| {
            budget.status.as_ref().is_some_and(|status| status.current_healthy == Some(3))
        })
        .await
        .status
        .unwrap();
    let counts = [status.expected_pods, status.desired_healthy, status.disruptions_allowed];
    let [expected, desired, allowed] = counts.map(Option::unwrap_or_default);
    ((expected, desired, allowed), status.conditions[0].reason.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_disruptions_of_surplus_healthy_pods() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&deployment("web", 4)).await;
    for (name, min_available, max_unavailable) in [
        ("number", Some(3.into()), None),
        ("share", Some(IntOrString::from("50%")), None),
        ("missing", None, Some(IntOrString::from(3))),
        ("all", Some("100%".into()), None),
    ] {
        let mut budget = budget("web", min_available, max_unavailable);
        budget.metadata.name = Some(name.into());
        cluster.create(&budget).await;
    }
    cluster.until::<Deployment>("web", is_rolled_out).await;
    for (name, allowed, desired) in [("number", 1, 3), ("share", 2, 2), ("missing", 3, 1), ("all", 0, 4)] {
        let budget = cluster
            .until::<PodDisruptionBudget>(name, |budget| {
                budget.status.as_ref().is_some_and(|status| status.current_healthy == Some(4))
            })
            .await;
        let status = budget.status.unwrap();
        let got = (status.disruptions_allowed.unwrap_or_default(), status.desired_healthy.unwrap_or_default());
        assert_eq!(got, (allowed, desired), "{name}");
        assert_eq!(status.expected_pods, Some(4), "{name}");
        let want = if allowed > 0 { "True" } else { "False" };
        assert_eq!(status.conditions[0].status, want, "{name}");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_controller_are_not_expected() {
    let cluster = Cluster::with_nodes(1).await;
    pods(&cluster, "bare", None).await;
    cluster.create(&budget("bare", None, Some(1.into()))).await;
    assert_eq!(account(&cluster, "bare").await, ((0, 0, 0), "InsufficientPods".to_owned()));
    // An absolute number of available pods needs no controller.
    let mut number = budget("bare", Some(2.into()), None);
    number.metadata.name = Some("number".into());
    cluster.create(&number).await;
    assert_eq!(account(&cluster, "number").await, ((3, 2, 1), "SufficientPods".to_owned()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn any_scalable_controller_determines_the_expected_pods() {
    let cluster = Cluster::with_nodes(1).await;
    let selector = LabelSelector { match_labels: labels("db"), ..Default::default() };
    let mut set = StatefulSet::default();
    set.metadata.name = Some("db".into());
    set.spec =
        Some(StatefulSetSpec { replicas: Some(4), selector, template: template("db", "one:1"), ..Default::default() });
    let set = cluster.create(&set).await;
    pods(&cluster, "db", Some((&set.metadata, ["apps", "v1", "StatefulSet"]))).await;
    cluster.create(&budget("db", None, Some(2.into()))).await;
    assert_eq!(account(&cluster, "db").await, ((4, 2, 1), "SufficientPods".to_owned()));

    let mut old = ReplicationController::default();
    old.metadata.name = Some("old".into());
    old.spec = Some(ReplicationControllerSpec {
        replicas: Some(3),
        selector: labels("old"),
        template: Some(template("old", "one:1").into()),
        ..Default::default()
    });
    let old = cluster.create(&old).await;
    pods(&cluster, "old", Some((&old.metadata, ["", "v1", "ReplicationController"]))).await;
    cluster.create(&budget("old", Some("50%".into()), None)).await;
    assert_eq!(account(&cluster, "old").await, ((3, 2, 1), "SufficientPods".to_owned()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_eviction_is_allowed_while_a_scale_cannot_be_read() {
    let cluster = Cluster::with_nodes(1).await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("odd".into());
    let map = cluster.create(&map).await;
    pods(&cluster, "odd", Some((&map.metadata, ["", "v1", "ConfigMap"]))).await;
    cluster.create(&budget("odd", None, Some(2.into()))).await;
    let condition = |budget: &PodDisruptionBudget| budget.status.as_ref()?.conditions.first().cloned();
    let failed = cluster
        .until::<PodDisruptionBudget>("odd", |budget| {
            condition(budget).is_some_and(|condition| condition.reason == "SyncFailed")
        })
        .await;
    assert_eq!(failed.status.as_ref().unwrap().disruptions_allowed, None);
    let condition = condition(&failed).unwrap();
    let told = (condition.status.as_str(), condition.message.as_str());
    assert_eq!(told, ("False", "the server could not find the requested resource"));
    // An absolute number needs no scale.
    cluster.patch::<PodDisruptionBudget>("odd", r#"{"spec":{"maxUnavailable":null,"minAvailable":2}}"#).await;
    assert_eq!(account(&cluster, "odd").await, ((3, 2, 1), "SufficientPods".to_owned()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn problems_of_a_budget_are_recorded_as_events() {
    let cluster = Cluster::with_nodes(1).await;
    pods(&cluster, "bare", None).await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("odd".into());
    let map = cluster.create(&map).await;
    pods(&cluster, "odd", Some((&map.metadata, ["", "v1", "ConfigMap"]))).await;
    for app in ["none", "bare", "odd"] {
        cluster.create(&budget(app, None, Some(1.into()))).await;
    }
    let told = |events: &[Event], budget: &str, reason: &str| {
        events.iter().any(|event| {
            event.involved_object.name.as_deref() == Some(budget)
                && event.involved_object.kind.as_deref() == Some("PodDisruptionBudget")
                && event.reason.as_deref() == Some(reason)
        })
    };
    let start = Instant::now();
    for (budget, reason) in [("none", "NoPods"), ("bare", "UnmanagedPods"), ("odd", "CalculateExpectedPodCountFailed")]
    {
        while !told(&cluster.list::<Event>().await, budget, reason) {
            assert!(start.elapsed() < Duration::from_secs(600), "{budget} {reason}");
            sleep(Duration::from_millis(100)).await;
        }
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_limits_allows_no_disruption() {
    let cluster = Cluster::with_nodes(1).await;
    pods(&cluster, "web", None).await;
    cluster.create(&budget("web", None, None)).await;
    assert_eq!(account(&cluster, "web").await, ((0, 0, 0), "InsufficientPods".to_owned()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_without_deletion_expires_and_is_reported() {
    let cluster = Cluster::with_nodes(1).await;
    pods(&cluster, "web", None).await;
    cluster.create(&budget("web", Some(2.into()), None)).await;
    account(&cluster, "web").await;
    let api = cluster.api::<PodDisruptionBudget>();
    let mut evicting = api.get("web").await.unwrap();
    evicting.status.get_or_insert_default().disrupted_pods.insert("web-0", Time::now());
    api.update_status(&evicting).await.unwrap();
    let healthy = |count: i32| {
        move |budget: &PodDisruptionBudget| budget.status.as_ref().is_some_and(|one| one.current_healthy == Some(count))
    };
    cluster.until::<PodDisruptionBudget>("web", healthy(2)).await;
    let after = cluster.until::<PodDisruptionBudget>("web", healthy(3)).await;
    assert!(after.status.unwrap().disrupted_pods.is_empty());
    let event = cluster.until_told("Pod", "NotDeleted").await;
    let message = "Pod was expected by PDB default/web to be deleted but it wasn't";
    assert_eq!((event.involved_object.name.as_deref(), event.message.as_deref()), (Some("web-0"), Some(message)));
    cluster.stop().await;
}
