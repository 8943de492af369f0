//! State that all reconciles share: fields of a type, or a value passed to a closure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubewright_api::core::v1::ConfigMap;
use kubewright_core::Object;
use kubewright_runtime::{BoxError, Context, Freshness, Outcome, Reconciler};

use crate::support::{Journal, Running, config_map, config_maps, controller, server, touch};

/// Notes each object with the number of reconciles so far.
struct Counter {
    journal: Journal,
    count: AtomicUsize,
}

impl Counter {
    async fn note(&self, map: &ConfigMap, context: &Context) -> Result<(), BoxError> {
        // Borrows state and argument across an await.
        let found = context.api::<ConfigMap>(map.namespace()).get(map.name(), Freshness::Live).await?;
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.journal.note(format!("{} {count} {}", map.name(), found.is_some()));
        Ok(())
    }
}

impl Reconciler<ConfigMap> for Counter {
    async fn reconcile(&self, map: Arc<ConfigMap>, context: Context) -> Result<Outcome, BoxError> {
        self.note(&map, &context).await?;
        Ok(Outcome::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn the_fields_of_a_reconciler_are_shared_by_all_reconciles() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let counter = Counter { journal: journal.clone(), count: AtomicUsize::new(0) };
    let running = Running::start(controller(&server).workers(2).reconciled_by(counter)).working().await;
    running.idle().await;
    touch(&server, "a", 1).await;
    running.idle().await;
    assert_eq!(journal.take(), ["a 0 true", "a 1 true"]);
}

#[tokio::test(start_paused = true)]
async fn a_closure_gets_the_shared_state_without_clones_of_its_own() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let state = Counter { journal: journal.clone(), count: AtomicUsize::new(10) };
    let built = controller(&server).reconciling_with(state, |map, context, state| async move {
        state.note(&map, &context).await?;
        Ok(Outcome::Done)
    });
    let running = Running::start(built).working().await;
    running.idle().await;
    assert_eq!(journal.take(), ["a 10 true"]);
}
