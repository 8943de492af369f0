//! Tasks of a manager that start and stop together.

use std::collections::HashMap;
use std::future::Future;

use kubewright_core::Str;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::ManagerError;
use crate::error::BoxError;

/// NamedInformer tasks with a common stop token. Dropping the group aborts running tasks.
#[derive(Default)]
pub(super) struct TaskGroup {
    running: JoinSet<Result<(), BoxError>>,
    name_of: HashMap<Id, Str>,
    stop: CancellationToken,
}

impl TaskGroup {
    /// Starts a task with the group's stop token.
    #[inline]
    pub(super) fn spawn<F: Future<Output = Result<(), BoxError>> + Send>(
        &mut self,
        name: Str,
        task: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) {
        let stop = self.stop.clone();
        // Called within the task, so that a panic of the function is one of the task.
        let running = self.running.spawn(async move { task(stop).await });
        self.name_of.insert(running.id(), name);
    }

    /// Resolves when a task fails or panics; never if none does. Cancel safe.
    #[inline]
    pub(super) async fn first_failure(&mut self) -> ManagerError {
        while let Some(ended) = self.running.join_next_with_id().await {
            if let Err(error) = self.judge(ended) {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Stops all tasks and waits for them.
    ///
    /// # Errors
    /// The first failure.
    #[inline]
    pub(super) async fn end(&mut self) -> Result<(), ManagerError> {
        self.stop.cancel();
        let mut result = Ok(());
        while let Some(ended) = self.running.join_next_with_id().await {
            result = result.and(self.judge(ended));
        }
        result
    }

    #[inline]
    fn judge(&mut self, ended: Result<(Id, Result<(), BoxError>), JoinError>) -> Result<(), ManagerError> {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(error.into())),
        };
        let name = self.name_of.remove(&id).unwrap_or_default();
        match result {
            Ok(()) => {
                if !self.stop.is_cancelled() {
                    tracing::debug!(%name, "task has ended before the shutdown");
                }
                Ok(())
            }
            Err(source) => {
                tracing::error!(%name, error = &*source, "failed");
                Err(ManagerError::Failed { name, source })
            }
        }
    }
}
