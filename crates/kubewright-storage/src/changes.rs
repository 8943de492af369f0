//! Notifies waiting tasks of changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A change counter that wakes the tasks waiting for the next change.
///
/// Many watches of one task cost one wake-up. A listener without a new change takes no lock, and
/// its task is registered once.
#[derive(Default)]
pub(crate) struct Changes {
    count: AtomicU64,
    waiting: Mutex<Vec<WaitingTask>>,
}

/// A waiting task, and the number of its listeners. A task may have several entries.
struct WaitingTask {
    task: Waker,
    listeners: usize,
}

impl Changes {
    /// Counts a change, and wakes the waiting tasks.
    pub(crate) fn notify(&self) {
        let mut waiting = self.lock();
        // Under the lock, so that a task that registers after this change is woken by the next one.
        self.count.fetch_add(1, Ordering::AcqRel);
        let waiting_now = std::mem::take(&mut *waiting);
        // Outside the lock: a woken task may lock it immediately.
        drop(waiting);
        waiting_now.into_iter().for_each(|waiting| waiting.task.wake());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WaitingTask>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens for changes.
pub(crate) struct ChangeListener {
    changes: Arc<Changes>,
    /// The count of changes that the listener has seen.
    seen: u64,
    /// The registered task, and the count at its registration. It is registered until the next
    /// change.
    waits: Option<(u64, Waker)>,
}

impl ChangeListener {
    /// Listens for changes from now on.
    pub(crate) fn new(changes: &Arc<Changes>) -> Self {
        ChangeListener { changes: Arc::clone(changes), seen: changes.count.load(Ordering::Acquire), waits: None }
    }

    /// Whether there was a change that the listener has not seen.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes.count.load(Ordering::Acquire) != self.seen
    }

    /// Marks all changes so far as seen.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.changes.count.load(Ordering::Acquire);
    }

    /// Waits for a change that the listener has not seen.
    pub(crate) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_changed() {
            return Poll::Ready(());
        }
        let (seen, task) = (self.seen, context.waker());
        if matches!(&self.waits, Some((since, known)) if *since == seen && known.will_wake(task)) {
            return Poll::Pending;
        }
        self.unregister();
        let mut waiting = self.changes.lock();
        // Under the lock, so that a later change finds the waiting task.
        if self.has_changed() {
            return Poll::Ready(());
        }
        match waiting.last_mut().filter(|last| last.task.will_wake(task)) {
            Some(last) => last.listeners += 1,
            None => waiting.push(WaitingTask { task: task.clone(), listeners: 1 }),
        }
        drop(waiting);
        match &mut self.waits {
            Some((since, known)) if known.will_wake(task) => *since = seen,
            waits => *waits = Some((seen, task.clone())),
        }
        Poll::Pending
    }

    /// Unregisters the task, unless a change has already done so.
    fn unregister(&mut self) {
        let Some((_, task)) = self.waits.as_ref().filter(|(since, _)| *since == self.seen) else { return };
        let mut waiting = self.changes.lock();
        if self.has_changed() {
            return;
        }
        let Some(at) = waiting.iter().rposition(|waiting| waiting.task.will_wake(task)) else { return };
        waiting[at].listeners -= 1;
        if waiting[at].listeners == 0 {
            waiting.swap_remove(at);
        }
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        self.unregister();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_for_all_that_listen_in_it() {
        let (woken, changes) = (Arc::new(Count::default()), Arc::new(Changes::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut listeners: Vec<_> = (0..3).map(|_| ChangeListener::new(&changes)).collect();
        for _ in 0..2 {
            assert!(listeners.iter_mut().all(|listener| listener.poll_changed(&mut context).is_pending()));
        }
        changes.notify();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        for listener in &mut listeners {
            assert!(listener.poll_changed(&mut context).is_ready());
            listener.mark_seen();
            assert!(listener.poll_changed(&mut context).is_pending());
        }
        changes.notify();
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_last_registered_waker_is_woken_and_dropped_waiters_are_removed() {
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let changes = Arc::new(Changes::default());
        let (mut listener, mut other) = (ChangeListener::new(&changes), ChangeListener::new(&changes));
        let (one, two) = (Waker::from(Arc::clone(&first)), Waker::from(Arc::clone(&second)));
        assert!(listener.poll_changed(&mut Context::from_waker(&one)).is_pending());
        assert!(other.poll_changed(&mut Context::from_waker(&one)).is_pending());
        assert!(listener.poll_changed(&mut Context::from_waker(&two)).is_pending());
        drop(other);
        assert_eq!(changes.lock().len(), 1);
        changes.notify();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    }
}
