//! Assertions that wait, and print the history of the object when they fail.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use kubewright_client::{Api, Scope};
use kubewright_core::{GroupVersionResource, Kind};
use tokio::time::{Instant, sleep};

use super::TestCluster;

/// Time between two looks at an object.
const PERIOD: Duration = Duration::from_millis(10);

/// The most looks at an object. Over long times they are less frequent, because with a paused clock
/// nothing else slows a test down.
const MAX_LOOKS: u32 = 6000;

impl TestCluster {
    /// Waits until an object satisfies a condition, and returns it. The namespace of a
    /// cluster-scoped object is empty.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_runtime::testing::TestCluster;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kubewright_client::Api;
    /// # use kubewright_core::Object;
    /// let cluster = TestCluster::start().await?;
    /// let mut map = ConfigMap::default();
    /// map.set_name("a");
    /// map.data.insert("colour", "red".into());
    /// Api::<ConfigMap>::namespaced(&cluster.client(), "default").create(&map).await?;
    /// let map: ConfigMap = cluster.eventually("default", "a", |map: &ConfigMap| map.data.contains_key("colour")).await;
    /// assert_eq!(map.name(), "a");
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If the object does not satisfy it within the [patience](Self::patience) of this cluster. The
    /// message has all versions of the object as differences, who wrote them, and its events.
    #[doc(alias = "Eventually")]
    #[doc(alias = "komega")]
    #[track_caller]
    pub fn eventually<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        holds: impl Fn(&K) -> bool,
    ) -> impl Future<Output = K> {
        let location = Location::caller();
        async move {
            let found = self.look_for(namespace, name, |object: Option<&K>| object.is_some_and(&holds)).await;
            match found {
                Some(Some(object)) => object,
                _ => self.fail::<K>(location, "does not satisfy the condition", namespace, name).await,
            }
        }
    }

    /// Waits until an object does not exist.
    ///
    /// # Panics
    /// As [`eventually`](Self::eventually).
    #[track_caller]
    pub fn eventually_gone<K: Kind>(&self, namespace: &str, name: &str) -> impl Future<Output = ()> {
        let location = Location::caller();
        async move {
            if self.look_for(namespace, name, |object: Option<&K>| object.is_none()).await.is_none() {
                self.fail::<K>(location, "still exists", namespace, name).await;
            }
        }
    }

    /// Checks that a condition holds for some time: of the object, or of its absence.
    ///
    /// # Panics
    /// If it does not, with a message as that of [`eventually`](Self::eventually).
    #[doc(alias = "Consistently")]
    #[track_caller]
    pub fn consistently<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        time: Duration,
        holds: impl Fn(Option<&K>) -> bool,
    ) -> impl Future<Output = ()> {
        let location = Location::caller();
        async move {
            let violated = self.look_within(time, namespace, name, |object: Option<&K>| !holds(object)).await;
            if violated.is_some() {
                self.fail::<K>(location, "no longer satisfies the condition", namespace, name).await;
            }
        }
    }

    /// The object, or its absence, as soon as it satisfies `holds`.
    async fn look_for<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        holds: impl Fn(Option<&K>) -> bool,
    ) -> Option<Option<K>> {
        self.look_within(self.patience, namespace, name, holds).await
    }

    async fn look_within<K: Kind>(
        &self,
        time: Duration,
        namespace: &str,
        name: &str,
        holds: impl Fn(Option<&K>) -> bool,
    ) -> Option<Option<K>> {
        let kind = &K::RESOURCE.kind;
        let resource = GroupVersionResource::new(kind.group, kind.version, K::RESOURCE.plural);
        let scope = if K::RESOURCE.namespaced { Scope::Namespace(namespace.into()) } else { Scope::Cluster };
        let objects = Api::<K>::new(&self.client(), resource, scope);
        let (began, period) = (Instant::now(), PERIOD.max(time / MAX_LOOKS));
        loop {
            // A failed request, such as an injected fault, says nothing about the object.
            if let Ok(object) = objects.get_opt(name).await
                && holds(object.as_ref())
            {
                return Some(object);
            }
            if began.elapsed() >= time {
                return None;
            }
            sleep(period).await;
        }
    }

    async fn fail<K: Kind>(&self, location: &Location<'_>, what: &str, namespace: &str, name: &str) -> ! {
        let history = self.history::<K>(namespace, name).await;
        panic!("{} {what}, at {location}\n{history}", history.object)
    }
}
