//! A queue that can delay adds.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::time::Duration;

use crate::options::QueueOptions;
use crate::queue::WorkQueue;

/// A [`WorkQueue`] that also adds keys after a delay.
///
/// It dereferences to the inner [`WorkQueue`]. Clones are handles to the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # tokio::time::pause();
/// use std::time::Duration;
/// use kubewright_workqueue::{DelayingQueue, QueueOptions};
///
/// let queue = DelayingQueue::new(QueueOptions::new());
/// queue.add_after("late", Duration::from_secs(60));
/// queue.add_after("soon", Duration::from_secs(1));
/// assert!(queue.is_empty());
/// assert_eq!(*queue.get().await.unwrap(), "soon");
/// # }
/// ```
#[doc(alias = "TypedDelayingInterface")]
pub struct DelayingQueue<T> {
    queue: WorkQueue<T>,
}

impl<T: Clone + Eq + Hash + Send + 'static> DelayingQueue<T> {
    /// An empty queue.
    #[doc(alias = "NewTypedDelayingQueue")]
    #[doc(alias = "NewTypedDelayingQueueWithConfig")]
    #[must_use]
    pub fn new(options: QueueOptions<T>) -> Self {
        Self { queue: WorkQueue::new(options) }
    }

    /// Adds `key` after `delay`, or at an earlier deadline that the key already has.
    ///
    /// Never waits. A delay is independent of plain adds: a key that is added during its delay is
    /// processed right away and once more when the delay ends. Ignored once the queue is shutting
    /// down; pending delays are dropped then. Counts as a retry in metrics, even with a zero delay.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.queue.add_after_with_priority(key, delay, 0);
    }
}

impl<T> Deref for DelayingQueue<T> {
    type Target = WorkQueue<T>;

    fn deref(&self) -> &WorkQueue<T> {
        &self.queue
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Default for DelayingQueue<T> {
    fn default() -> Self {
        Self::new(QueueOptions::default())
    }
}

impl<T> Clone for DelayingQueue<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<T> fmt::Debug for DelayingQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DelayingQueue").field(&self.queue).finish()
    }
}
