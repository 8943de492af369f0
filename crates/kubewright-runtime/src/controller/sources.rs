//! Sources of reconciles other than watches: streams, channels, files, timers and tasks.
//!
//! A source names either keys or all objects of the main kind. "All" are the objects that pass the
//! filters as listed objects, of all watched kinds if there is no main kind; their keys are added
//! with the start-up priority, so that live changes go first. A source that ends requests no more
//! reconciles. One that panics is reported in the [health](super::ControllerHealth::broken_feeds)
//! of the controller, which continues.

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_core::Stream;
use kubewright_core::Str;
use kubewright_workqueue::{AddOptions, LOW_PRIORITY};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use super::reason::{Reason, ReasonKind};
use super::relation::AllKeys;
use super::{Controller, ControllerHandle, Subject};

/// A task that requests reconciles. Gets the function that lists all keys.
pub(super) type SourceTask = Box<dyn FnOnce(ControllerHandle, AllKeys) -> FeedFuture + Send>;

type FeedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<T: Subject> Controller<T> {
    /// Reconciles the keys of a stream. Its items are taken while the controller works.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_core::ObjectKey;
    /// # use kubewright_runtime::Controller;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
    /// let renewals = futures_util::stream::iter([ObjectKey::namespaced("default", "certificate")]);
    /// let controller = Controller::<ConfigMap>::new("renewals", &factory).reconcile_on("renewals", renewals);
    /// # drop(controller);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "source.TypedSource")]
    #[must_use]
    pub fn reconcile_on(self, name: impl Into<Str>, keys: impl Stream<Item = T::Key> + Send + 'static) -> Self {
        let name = name.into();
        let source = name.clone();
        self.feed(name, move |handle| async move {
            let mut keys = pin!(keys);
            while let Some(key) = poll_fn(|context| keys.as_mut().poll_next(context)).await {
                handle.request(key, source.clone());
            }
        })
    }

    /// Reconciles all objects of the main kind for each item of a stream, such as a change of the
    /// configuration.
    #[must_use]
    pub fn reconcile_all_on(self, name: impl Into<Str>, signals: impl Stream<Item = ()> + Send + 'static) -> Self {
        let name = name.into();
        let source = name.clone();
        self.feed_all(name, move |handle, all_keys| async move {
            let mut signals = pin!(signals);
            while let Some(()) = poll_fn(|context| signals.as_mut().poll_next(context)).await {
                handle.request_all(&all_keys, &source);
            }
        })
    }

    /// Reconciles all objects of the main kind when the content of a file changes.
    ///
    /// The file is read once per `period`, also through the symbolic links of a mounted ConfigMap
    /// or Secret. A file that appears or disappears has changed. A period of zero makes the start
    /// fail.
    #[must_use]
    pub fn reconcile_all_on_file(mut self, path: impl Into<PathBuf>, period: Duration) -> Self {
        let path = path.into();
        self.settings.has_zero_period |= period.is_zero();
        let source = Str::from(path.display().to_string());
        self.feed_all(source.clone(), move |handle, all_keys| async move {
            let mut content = content_of(&path).await;
            loop {
                sleep(period).await;
                let now = content_of(&path).await;
                if now != content {
                    content = now;
                    handle.request_all(&all_keys, &source);
                }
            }
        })
    }

    /// Reconciles keys from a channel. Its bound applies backpressure to senders.
    #[doc(alias = "Channel")]
    #[must_use]
    pub fn channel(self, name: impl Into<Str>, mut keys: mpsc::Receiver<T::Key>) -> Self {
        let name = name.into();
        let source = name.clone();
        self.feed(name, move |handle| async move {
            while let Some(key) = keys.recv().await {
                handle.request(key, source.clone());
            }
        })
    }

    /// Reconciles all objects of the main kind once per `period`, if they pass the filter as listed
    /// objects.
    ///
    /// The keys are spread over the period with jitter, and added at low priority. A period of zero
    /// makes the start fail.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.settings.has_zero_period |= period.is_zero();
        self.feed_all(Str::from_static("timer"), move |handle, all_keys| spread(handle, all_keys, period))
    }

    /// Runs a task next to the workers that may request reconciles. Dropped when the controller
    /// stops.
    #[doc(alias = "source.Func")]
    #[must_use]
    pub fn feed<F: Future<Output = ()> + Send + 'static>(
        self,
        name: impl Into<Str>,
        task: impl FnOnce(ControllerHandle) -> F + Send + 'static,
    ) -> Self {
        self.feed_all(name.into(), |handle, _| task(handle))
    }

    fn feed_all<F: Future<Output = ()> + Send + 'static>(
        mut self,
        name: Str,
        task: impl FnOnce(ControllerHandle, AllKeys) -> F + Send + 'static,
    ) -> Self {
        self.settings.feeds.push((name, Box::new(|handle, all_keys| Box::pin(task(handle, all_keys)))));
        self
    }
}

impl ControllerHandle {
    /// Requests reconciles of all objects, with the start-up priority.
    fn request_all(&self, all_keys: &AllKeys, source: &Str) {
        for key in all_keys() {
            let reason = Reason { source: source.clone(), object: None, kind: ReasonKind::Requested };
            self.shared.enqueue(key, reason, self.shared.urgency(ReasonKind::Resynced, None));
        }
    }
}

/// The content of a file; `None` if it cannot be read.
async fn content_of(path: &Path) -> Option<Vec<u8>> {
    let path = path.to_owned();
    spawn_blocking(move || std::fs::read(path).ok()).await.ok().flatten()
}

/// Requests all keys once per `period`, at low priority.
///
/// Each key is added at a random moment of its slice of the period: otherwise all keys, and those
/// of several replicas or controllers, would be queued at the same time.
async fn spread(handle: ControllerHandle, all_keys: AllKeys, period: Duration) {
    let mut round = Instant::now();
    loop {
        let keys = all_keys();
        let share = period.div_f64(keys.len().max(1) as f64);
        for (index, key) in keys.into_iter().enumerate() {
            let moment = share.mul_f64(index as f64 + handle.shared.random.unit());
            sleep_until(round + moment.min(period)).await;
            let reason = Reason { source: Str::from_static("timer"), object: None, kind: ReasonKind::Requested };
            handle.shared.enqueue(key, reason, AddOptions::new().priority(LOW_PRIORITY));
        }
        round += period;
        sleep_until(round).await;
    }
}
