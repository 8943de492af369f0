//! Batched requests.

use std::future::Future;

use kubewright_net::observation;
use tokio::task::JoinSet;

/// Sends `count` requests in batches of 1, 2, 4 and so on, until a batch fails; the rest is not
/// attempted.
///
/// An exhausted quota or an invalid template then costs one request instead of hundreds.
#[doc(alias = "slowStartBatch")]
pub(crate) async fn slow_start<T, E, F>(count: usize, request: impl Fn() -> F) -> (Vec<T>, Option<E>)
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut done = Vec::with_capacity(count);
    let mut batch = 1;
    let mut left = count;
    while left > 0 {
        let size = batch.min(left);
        let mut first_error = None;
        for answer in all_at_once((0..size).map(|_| request())).await {
            match answer {
                Ok(answer) => done.push(answer),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if first_error.is_some() {
            return (done, first_error);
        }
        left -= size;
        batch *= 2;
    }
    (done, None)
}

/// Runs all futures concurrently.
pub(crate) async fn all_at_once<T, F>(requests: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for request in requests {
        tasks.spawn(observation::carried(request));
    }
    tasks.join_all().await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_failing_batch_is_the_last_one() {
        // RS-1
        for (count, fails_from, tries, done) in
            [(0, 9, 0, 0), (1, 9, 1, 1), (10, 99, 10, 10), (10, 0, 1, 0), (10, 2, 3, 2), (10, 4, 7, 4), (5, 4, 5, 4)]
        {
            let tried = Arc::new(AtomicUsize::new(0));
            let (succeeded, failed) = slow_start(count, || {
                let tried = tried.clone();
                async move {
                    let number = tried.fetch_add(1, Ordering::Relaxed);
                    if number < fails_from { Ok(number) } else { Err(number) }
                }
            })
            .await;
            let tried = tried.load(Ordering::Relaxed);
            assert_eq!((tried, succeeded.len(), failed.is_some()), (tries, done, done < count), "{count} {fails_from}");
        }
    }
}
