//! Limits open connections, and evicts idle ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// Default limit of open connections.
pub(crate) const MAX_CONNECTIONS: usize = 4096;

/// The connections of a listener. Clones share the limit.
///
/// A new connection beyond the limit evicts the one that has been idle for the longest time. If
/// none is idle, the new one is rejected. A client without credentials can only hold idle
/// connections, so it cannot keep others out.
#[derive(Clone)]
pub(crate) struct ConnectionLimit {
    max: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Arc<TrackedConnection>>,
    next: u64,
}

struct TrackedConnection {
    /// Number of requests without a complete response, including watches.
    requests: AtomicUsize,
    /// The end of the last request, or the start of the connection.
    idle_since: Mutex<Instant>,
    evicted: Notify,
}

/// The slot of a connection, released on drop.
pub(crate) struct ConnectionSlot {
    number: u64,
    connection: Arc<TrackedConnection>,
    open: Arc<Mutex<Open>>,
}

/// Marks its connection as active until it is dropped.
pub(crate) struct ActiveRequest(Arc<TrackedConnection>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionLimit {
    pub(crate) fn new(max: usize) -> Self {
        ConnectionLimit { max, open: Arc::default() }
    }

    /// A slot for a new connection. `None` if the limit is reached and none is idle.
    pub(crate) fn admit(&self) -> Option<ConnectionSlot> {
        let mut open = lock(&self.open);
        if open.connections.len() >= self.max {
            let idle = open.connections.iter().filter(|(_, connection)| connection.is_idle());
            let (&number, _) = idle.min_by_key(|(_, connection)| *lock(&connection.idle_since))?;
            open.connections.remove(&number).inspect(|connection| connection.evicted.notify_one());
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(TrackedConnection {
            requests: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            evicted: Notify::new(),
        });
        open.connections.insert(number, Arc::clone(&connection));
        Some(ConnectionSlot { number, connection, open: Arc::clone(&self.open) })
    }
}

impl TrackedConnection {
    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Acquire) == 0
    }
}

impl ConnectionSlot {
    /// Waits until a new connection evicts this one.
    pub(crate) async fn evicted(&self) {
        self.connection.evicted.notified().await;
    }

    /// Marks the start of a request.
    pub(crate) fn begin_request(&self) -> ActiveRequest {
        self.connection.requests.fetch_add(1, Ordering::AcqRel);
        ActiveRequest(Arc::clone(&self.connection))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        lock(&self.open).connections.remove(&self.number);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        *lock(&self.0.idle_since) = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_for_the_longest_time_is_closed_for_a_new_one() {
        let limit = ConnectionLimit::new(3);
        let mut slots = Vec::new();
        for _ in 0..3 {
            slots.push(limit.admit().expect("there is room"));
            advance(Duration::from_secs(1)).await;
        }
        let watch = slots[0].begin_request();
        drop(slots[1].begin_request());
        let fourth = limit.admit().expect("one of the others is idle");
        slots[2].evicted().await;
        let short = Duration::from_secs(1);
        assert!(timeout(short, slots[0].evicted()).await.is_err(), "it has a request");
        assert!(timeout(short, slots[1].evicted()).await.is_err(), "it had one later");
        let _requests = [fourth.begin_request(), slots[1].begin_request()];
        assert!(limit.admit().is_none(), "none is idle");
        drop(watch);
        assert!(limit.admit().is_some());
    }
}
