//! Retries after expected errors.

use std::time::Duration;

use crate::error::{Error, Result};

/// Number and delays of attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(alias = "wait.Backoff")]
pub struct RetryPolicy {
    /// Total number of attempts.
    pub steps: u32,
    /// The first delay.
    pub pause: Duration,
    /// Factor between consecutive delays.
    pub factor: f64,
    /// Maximum jitter, as a fraction of the delay.
    pub jitter: f64,
}

impl RetryPolicy {
    /// For conflicts with occasional writers: 5 attempts, 10 ms apart.
    #[doc(alias = "DefaultRetry")]
    pub const CONFLICT: Self = RetryPolicy { steps: 5, pause: Duration::from_millis(10), factor: 1.0, jitter: 0.1 };

    /// For conflicts with a controller that is working on the object: 4 attempts, 10, 50 and 250 ms
    /// apart.
    #[doc(alias = "DefaultBackoff")]
    pub const BUSY: Self = RetryPolicy { steps: 4, pause: Duration::from_millis(10), factor: 5.0, jitter: 0.1 };
}

/// Retries after conflicts.
///
/// `attempt` must read the object again each time, or the conflict repeats.
///
/// ```
/// # use kubewright_client::{Api, Result, RetryPolicy, retry_on_conflict};
/// # use kubewright_core::DynamicObject;
/// # async fn example(widgets: Api<DynamicObject>) -> Result<()> {
/// retry_on_conflict(RetryPolicy::CONFLICT, async || {
///     let mut widget = widgets.get("big").await?;
///     widget.metadata.labels.insert("seen", "yes".into());
///     widgets.update(&widget).await
/// })
/// .await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Any other error immediately, and the last conflict after the last attempt.
#[doc(alias = "RetryOnConflict")]
pub async fn retry_on_conflict<T, F: Future<Output = Result<T>>>(
    policy: RetryPolicy,
    attempt: impl FnMut() -> F,
) -> Result<T> {
    retry_on(policy, Error::is_conflict, attempt).await
}

/// Retries after errors for which `may_pass` returns true.
///
/// # Errors
/// Any other error immediately, and the last one after the last attempt.
#[doc(alias = "OnError")]
pub async fn retry_on<T, E, F: Future<Output = Result<T, E>>>(
    policy: RetryPolicy,
    may_pass: impl Fn(&E) -> bool,
    // Not `AsyncFnMut`, whose futures cannot yet be proven `Send`.
    mut attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let mut pause = policy.pause;
    for left in (0..policy.steps.max(1)).rev() {
        match attempt().await {
            Err(error) if left > 0 && may_pass(&error) => {}
            done => return done,
        }
        tokio::time::sleep(pause.mul_f64(1.0 + policy.jitter * fastrand::f64())).await;
        pause = pause.mul_f64(policy.factor);
    }
    unreachable!("the last try returns whatever it gave")
}

#[cfg(test)]
mod tests {
    use kubewright_core::GroupResource;
    use kubewright_core::meta::v1::Status;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_conflicts_are_retried_and_the_last_one_is_returned() {
        // RT-1
        let pods = GroupResource::from_static("", "pods");
        for (conflicts, then_fails, tries, ok) in
            [(0, false, 1, true), (4, false, 5, true), (5, false, 5, false), (2, true, 3, false)]
        {
            let mut tried = 0;
            let result = retry_on_conflict(RetryPolicy::CONFLICT, || {
                tried += 1;
                std::future::ready(match tried {
                    tried if tried <= conflicts => Err(Status::conflict(&pods, "web", tried).into()),
                    _ if then_fails => Err(Status::not_found(&pods, "web").into()),
                    _ => Ok(()),
                })
            })
            .await;
            assert_eq!((tried, result.is_ok()), (tries, ok));
            if let Err(error) = result {
                assert_eq!(error.is_conflict(), !then_fails);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_by_their_factor() {
        // RT-1
        let start = Instant::now();
        let failed: Result<()> =
            retry_on(RetryPolicy::BUSY, |_| true, async || Err(Status::internal("x").into())).await;
        assert!(failed.is_err());
        let pauses = start.elapsed().as_millis();
        assert!((310..=345).contains(&pauses), "{pauses} ms");
    }
}
