//! Limits concurrent requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::Str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use kubewright_auth::{MASTERS, User};

/// Default limit of concurrent requests of each kind.
pub(crate) const MAX_IN_FLIGHT: usize = 1000;
/// Default limit of watches. A watch whose client does not read holds up to about 100 KiB.
pub(crate) const MAX_WATCHES: usize = 20_000;
/// Default limit of the watches of one user.
pub(crate) const MAX_WATCHES_PER_USER: usize = 1000;

/// Limits requests in flight. Reads, writes and watches have separate limits.
///
/// kube-apiserver limits only how many watches start at a time. A watch there may still fill the
/// memory, so watches have limits of their own here. Members of `system:masters` share the limit of
/// the server, but have none of their own.
#[derive(Debug)]
pub(crate) struct InFlight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    watching: Arc<Semaphore>,
    max_per_user: usize,
    watches_of: Arc<WatchCounts>,
}

/// The number of watches of each user that has any.
#[derive(Debug, Default)]
struct WatchCounts(Mutex<HashMap<Str, usize>>);

impl WatchCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Str, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of a request, released on drop.
#[derive(Debug, Default)]
pub(crate) struct InFlightPermit {
    _permit: Option<OwnedSemaphorePermit>,
    _watch: Option<WatchPermit>,
}

/// A watch that counts for its user.
#[derive(Debug)]
struct WatchPermit {
    user: Str,
    watches_of: Arc<WatchCounts>,
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        let mut watches_of = self.watches_of.lock();
        if let Some(count) = watches_of.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                watches_of.remove(&self.user);
            }
        }
    }
}

impl InFlight {
    /// Limits reads and writes to `max` each, and watches of all users and of each user.
    pub(crate) fn new(max: usize, max_watches: usize, max_watches_per_user: usize) -> Self {
        let semaphore = |max: usize| Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        InFlight {
            reading: semaphore(max),
            writing: semaphore(max),
            watching: semaphore(max_watches),
            max_per_user: max_watches_per_user,
            watches_of: Arc::default(),
        }
    }

    /// A permit for a request. `None` if the limit is reached.
    pub(crate) fn enter(&self, verb: &str, user: &User) -> Option<InFlightPermit> {
        let room = match verb {
            "watch" => &self.watching,
            "get" | "list" | "head" | "options" => &self.reading,
            _ => &self.writing,
        };
        let permit = Arc::clone(room).try_acquire_owned().ok()?;
        let is_counted = verb == "watch" && !user.is_in(MASTERS);
        let watch = if is_counted { Some(self.count_watch(user)?) } else { None };
        Some(InFlightPermit { _permit: Some(permit), _watch: watch })
    }

    fn count_watch(&self, user: &User) -> Option<WatchPermit> {
        let mut watches_of = self.watches_of.lock();
        let count = watches_of.get(&user.name).copied().unwrap_or_default();
        if count >= self.max_per_user {
            return None;
        }
        watches_of.insert(user.name.clone(), count + 1);
        Some(WatchPermit { user: user.name.clone(), watches_of: Arc::clone(&self.watches_of) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_limited_for_each_user_and_for_all() {
        let in_flight = InFlight::new(1, 4, 2);
        let [jane, joe] = ["jane", "joe"].map(|name| User::authenticated(name, "", vec![]));
        let admin = User::admin();
        let watch = |user: &User| in_flight.enter("watch", user);
        let of_jane = [watch(&jane), watch(&jane)];
        assert!(of_jane.iter().all(Option::is_some) && watch(&jane).is_none());
        let others = [watch(&joe), watch(&admin)];
        assert!(others.iter().all(Option::is_some) && watch(&admin).is_none() && watch(&joe).is_none());
        let read = in_flight.enter("list", &jane);
        assert!(read.is_some() && in_flight.enter("get", &joe).is_none());
        drop(of_jane);
        assert!(watch(&jane).is_some());
        drop((others, watch(&joe)));
        assert!(in_flight.watches_of.lock().is_empty());
        assert!([watch(&admin), watch(&admin), watch(&admin)].iter().all(Option::is_some));
    }
}
