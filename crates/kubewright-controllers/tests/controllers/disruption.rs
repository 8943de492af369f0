//! Disruption budgets.

use kubewright_api::apps::v1::Deployment;
use kubewright_api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use kubewright_core::IntOrString;
use kubewright_core::meta::v1::LabelSelector;

use crate::support::{Cluster, deployment, is_rolled_out, labels};

#[tokio::test(start_paused = true)]
async fn a_budget_allows_what_is_healthy_beyond_what_has_to_be() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&deployment("web", 4)).await;
    for (name, min_available, max_unavailable) in [
        ("number", Some(3.into()), None),
        ("share", Some(IntOrString::from("50%")), None),
        ("missing", None, Some(IntOrString::from(3))),
        ("all", Some("100%".into()), None),
    ] {
        let mut budget = PodDisruptionBudget::default();
        budget.metadata.name = Some(name.into());
        let selector = LabelSelector { match_labels: labels("web"), ..Default::default() };
        budget.spec = Some(PodDisruptionBudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(selector.into()),
            ..Default::default()
        });
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
