//! The files of running containers that commands may have changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubewright_api::core::v1::{Container, ContainerStatus, Pod};
use kubewright_core::{Object, ObjectKey, Str};
use kubewright_net::clock;
use tokio::sync::Notify;

use crate::files::Files;
use crate::plan::Plan;

/// Maximum number of containers whose files are kept.
const CONTAINERS_MAX: usize = 1024;

/// A run of a container: the UID of its pod, its name, and its restarts.
type ContainerKey = (Str, Str, i32);

/// The files of containers in which `exec` or `attach` has run commands.
///
/// A container that nobody has entered has the files of its image and its program, which follow
/// from its [`Plan`].
#[derive(Debug, Default)]
pub struct ContainerFiles {
    files_of: Mutex<HashMap<ContainerKey, Arc<Mutex<Files>>>>,
    entered: Mutex<BTreeSet<ObjectKey>>,
    has_entered: Notify,
}

impl ContainerFiles {
    /// The files of a container that a command is about to enter. They are lost when it restarts.
    pub(crate) fn enter(&self, pod: &Pod, container: &Container, status: &ContainerStatus) -> Arc<Mutex<Files>> {
        let files = self.get(pod, container, status).unwrap_or_else(|| {
            let files = Arc::new(Mutex::new(program_files(pod, container, status).0));
            let mut files_of = self.files_of.lock().unwrap_or_else(PoisonError::into_inner);
            let key = key(pod, container, status);
            // Earlier runs of the container, and the containers of pods that are gone.
            files_of.retain(|(uid, name, _), _| *uid != key.0 || *name != key.1);
            if files_of.len() >= CONTAINERS_MAX {
                files_of.retain(|_, files| Arc::strong_count(files) > 1);
            }
            Arc::clone(files_of.entry(key).or_insert(files))
        });
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        // Without nodes in this process nobody takes the pods.
        if entered.len() < CONTAINERS_MAX {
            entered.insert(pod.key());
        }
        self.has_entered.notify_one();
        files
    }

    /// The files of a container that commands have entered since its start.
    pub(crate) fn get(&self, pod: &Pod, container: &Container, status: &ContainerStatus) -> Option<Arc<Mutex<Files>>> {
        let files_of = self.files_of.lock().unwrap_or_else(PoisonError::into_inner);
        files_of.get(&key(pod, container, status)).cloned()
    }

    /// Waits until commands enter containers. Returns their pods.
    pub async fn next_entered(&self) -> Vec<ObjectKey> {
        loop {
            let pods = std::mem::take(&mut *self.entered.lock().unwrap_or_else(PoisonError::into_inner));
            if !pods.is_empty() {
                return pods.into_iter().collect();
            }
            self.has_entered.notified().await;
        }
    }
}

/// The files that the program of a container has by now, and whether the program is known.
pub(crate) fn program_files(pod: &Pod, container: &Container, status: &ContainerStatus) -> (Files, bool) {
    Plan::new(pod, container, u32::try_from(status.restart_count).unwrap_or_default()).files(time_since_start(status))
}

/// How long a container has been running.
pub(crate) fn time_since_start(status: &ContainerStatus) -> Duration {
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let started = running.and_then(|running| running.started_at);
    started.map_or(Duration::ZERO, |started| clock::now().duration_since(started).unwrap_or_default())
}

fn key(pod: &Pod, container: &Container, status: &ContainerStatus) -> ContainerKey {
    (pod.uid().into(), container.name.clone(), status.restart_count)
}
