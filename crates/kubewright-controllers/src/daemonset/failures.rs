//! How long a pod that has failed is left before another takes its place: longer each time on the same node, since a node that
//! refuses a pod would refuse the next one as quickly. One that has succeeded is replaced at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_api::apps::v1::DaemonSet;
use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, ObjectKey, Str};
use tokio::time::Instant;

/// The first wait, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15 * 60));

/// The pods of daemon sets that have failed, by the key of the set, which one worker has in hand at a time: who finds that it is gone
/// forgets it.
#[derive(Debug, Default)]
#[doc(alias = "failedPodsBackoff")]
pub(super) struct Failures {
    records: Mutex<HashMap<ObjectKey, Record>>,
}

#[derive(Debug, Default)]
struct Record {
    /// That of the set: another of its name begins anew.
    uid: Str,
    last_of_node: HashMap<String, Failure>,
}

#[derive(Debug)]
struct Failure {
    pod: Str,
    at: Instant,
    wait: Duration,
}

impl Failures {
    /// How long a pod that has failed is still to be left; nothing when it is to go.
    pub(super) fn wait(&self, set: &DaemonSet, node: &str, pod: &Pod) -> Option<Duration> {
        let (mut records, now) = (self.lock(), Instant::now());
        let record = records.entry(set.key()).or_default();
        if record.uid != set.uid() {
            *record = Record { uid: set.uid().into(), ..Record::default() };
        }
        // A node that was fine for twice as long as the longest wait begins anew.
        let before =
            record.last_of_node.get(node).filter(|failure| now.duration_since(failure.at) < failure.wait + 2 * WAITS.1);
        let failure = match before {
            Some(failure) if failure.pod == pod.uid() => Failure { pod: failure.pod.clone(), ..*failure },
            before => {
                let wait = before.map_or(WAITS.0, |failure| (2 * failure.wait).min(WAITS.1));
                Failure { pod: pod.uid().into(), at: now, wait }
            }
        };
        let left = (failure.at + failure.wait).saturating_duration_since(now);
        record.last_of_node.insert(node.to_owned(), failure);
        (!left.is_zero()).then_some(left)
    }

    /// Forgets a set that is gone.
    pub(super) fn forget(&self, set: &ObjectKey) {
        self.lock().remove(set);
    }

    /// Whether nothing is remembered of a set.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self, set: &ObjectKey) -> bool {
        !self.lock().contains_key(set)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_pod_of_a_node_that_fails_is_left_for_longer() {
        let failures = Failures::default();
        let mut set = DaemonSet::default();
        let pod = |uid: &str| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some(uid.into());
            pod
        };
        let seconds = Duration::from_secs;
        assert_eq!(failures.wait(&set, "node", &pod("a")), Some(seconds(1)));
        tokio::time::sleep(seconds(1)).await;
        assert_eq!(failures.wait(&set, "node", &pod("a")), None);
        assert_eq!(failures.wait(&set, "node", &pod("b")), Some(seconds(2)));
        assert_eq!(failures.wait(&set, "other", &pod("c")), Some(seconds(1)));
        for number in 0..20 {
            failures.wait(&set, "node", &pod(&number.to_string()));
        }
        assert_eq!(failures.wait(&set, "node", &pod("d")), Some(WAITS.1));
        tokio::time::sleep(4 * WAITS.1).await;
        assert_eq!(failures.wait(&set, "node", &pod("e")), Some(seconds(1)));
        failures.wait(&set, "node", &pod("f"));
        set.metadata.uid = Some("another".into());
        assert_eq!(failures.wait(&set, "node", &pod("g")), Some(seconds(1)), "one that was deleted had its name");
        failures.wait(&set, "node", &pod("h"));
        failures.forget(&set.key());
        assert_eq!(failures.wait(&set, "node", &pod("i")), Some(seconds(1)));
    }
}
