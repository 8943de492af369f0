//! Errors that decide about their retry, the error policy, and priorities of requeues.

use std::time::Duration;

use kubewright_runtime::controller::ErrorAction;
use kubewright_runtime::{BoxError, Context, Outcome, ReconcileError, ResultExt};
use tokio::time::{Instant, sleep};

use crate::support::{Journal, Running, config_map, config_maps, controller, key, seconds, server, touch};

#[derive(Debug, thiserror::Error)]
enum ProviderError {
    #[error("the provider has no quota left")]
    Quota,
    #[error("the provider does not know the zone")]
    Zone,
    #[error("cannot call the provider")]
    Call(#[source] ReconcileError),
}

/// The action of the reconciler below for a value of its config map.
fn act(value: &str) -> Result<Outcome, BoxError> {
    match value {
        "terminal" => "many".parse::<u32>().map(|_| Outcome::Done).terminal().map_err(Into::into),
        "later" => {
            Err::<(), _>(ProviderError::Quota).retry_after(seconds(7.0))?;
            Ok(Outcome::Done)
        }
        // The decision is deep in the chain.
        "nested" => Err(ProviderError::Call(ReconcileError::retry_after(seconds(3.0), ProviderError::Quota)).into()),
        "policy" => Err(ProviderError::Quota.into()),
        "hopeless" => Err(ProviderError::Zone.into()),
        // The error decides before the policy.
        "back-off" => Ok(Err::<Outcome, _>(ProviderError::Zone).back_off()?),
        "panicking policy" => Err("no policy is made for this".into()),
        _ => Ok(Outcome::Done),
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_or_the_policy_says_when_a_key_is_retried() {
    let (server, journal, start) = (server().await, Journal::default(), Instant::now());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let built = controller(&server).error_policy(|error, context| {
        assert_eq!(context.key(), &key("a"));
        match error.downcast_ref::<ProviderError>() {
            Some(ProviderError::Quota) => ErrorAction::RetryAfter(seconds(11.0)),
            Some(_) => ErrorAction::Terminal,
            None => panic!("as it may"),
        }
    });
    let running = Running::start(built.reconciling_with(journal.clone(), move |map, _, journal| async move {
        journal.note(start.elapsed().as_millis().to_string());
        act(map.data.get("value").map(|value| &**value).unwrap_or_default())
    }));
    let running = running.working().await;
    running.idle().await;
    journal.take();
    for (value, waits, given_up) in [
        ("terminal", vec![], Some("invalid digit found in string")),
        ("later", vec![7000, 7000, 7000, 7000], None),
        ("nested", vec![3000, 3000, 3000], None),
        ("policy", vec![11000, 11000], None),
        ("hopeless", vec![], Some("the provider does not know the zone")),
        ("back-off", vec![5, 10, 20, 40], None),
        ("panicking policy", vec![5, 10, 20, 40], None),
    ] {
        // Until no retry of the previous value is due.
        touch(&server, "a", "fine").await;
        sleep(seconds(20.0)).await;
        journal.take();
        touch(&server, "a", value).await;
        sleep(seconds(30.0)).await;
        let times: Vec<i64> = journal.take().iter().map(|line| line.parse().unwrap()).collect();
        let waited: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waited.len() >= waits.len(), "{value}: {waited:?}");
        if waits.is_empty() {
            assert!(waited.is_empty(), "{value}: {waited:?}");
        }
        for (waited, wanted) in waited.iter().zip(waits) {
            assert!((waited - wanted).abs() <= 2, "{value}: {waited} instead of {wanted}");
        }
        let health = running.handle.health();
        assert_eq!(health.given_up.first().map(|one| one.reason.as_str()), given_up, "{value}");
        assert_eq!(health.failing.len(), usize::from(given_up.is_none()), "{value}");
    }
    touch(&server, "a", "fine").await;
    running.idle().await;
    assert!(running.handle.health().failing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_requeue_keeps_its_priority_or_takes_that_of_the_outcome() {
    let server = server().await;
    let running = Running::start(controller(&server).reconciling_keys(|context: Context| async move {
        Ok(match context.key().name().as_str() {
            "hold" => {
                sleep(seconds(100.0)).await;
                Outcome::Done
            }
            "kept" => Outcome::requeue_after(seconds(10.0)),
            "raised" => Outcome::requeue_after(seconds(10.0)).priority(7),
            "limited" if context.attempt() == 1 => Outcome::requeue().priority(-7),
            _ => Outcome::Done.priority(7),
        })
    }));
    let running = running.working().await;
    for name in ["kept", "raised", "done"] {
        running.handle.request(key(name), "test");
    }
    sleep(seconds(1.0)).await;
    running.handle.request(key("limited"), "test");
    running.handle.request(key("hold"), "test");
    sleep(seconds(20.0)).await;
    let mut waiting: Vec<(String, i32)> =
        running.handle.queue(10).waiting.iter().map(|one| (one.key.name().to_string(), one.priority)).collect();
    waiting.sort();
    let expected = [("kept", 0), ("limited", -7), ("raised", 7)];
    assert_eq!(waiting, expected.map(|(name, priority)| (name.to_owned(), priority)));
}

#[tokio::test(start_paused = true)]
async fn results_are_streamed_with_their_reasons() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let running = Running::start(controller(&server).reconciling(|map, context: Context| async move {
        sleep(Duration::from_millis(20)).await;
        match (map.data.get("value").map(|value| &**value), context.attempt()) {
            (Some("broken"), 1) => Err("broken".into()),
            (Some("hopeless"), _) => Err(ReconcileError::terminal("hopeless").into()),
            _ => Ok(Outcome::Done),
        }
    }));
    let mut results = running.handle.results();
    let mut unread = running.handle.results();
    let running = running.working().await;
    running.idle().await;
    touch(&server, "a", "broken").await;
    running.idle().await;
    touch(&server, "a", "hopeless").await;
    running.idle().await;
    let mut next = async || {
        let result = results.next().await.unwrap();
        assert!(
            result.key == key("a") && result.elapsed >= Duration::from_millis(20) && !result.reconcile_id.is_empty()
        );
        let ended = result.result.map_err(|failed| (failed.error, failed.action));
        (result.reasons.to_string(), result.attempt, ended)
    };
    let updated = || "configmaps default/a updated".to_owned();
    assert_eq!(next().await, ("configmaps default/a listed".to_owned(), 1, Ok(Outcome::Done)));
    assert_eq!(next().await, (updated(), 1, Err(("broken".to_owned(), ErrorAction::BackOff))));
    assert_eq!(next().await, ("reconcile retried".to_owned(), 2, Ok(Outcome::Done)));
    assert_eq!(next().await, (updated(), 1, Err(("hopeless".to_owned(), ErrorAction::Terminal))));
    // A reader that is behind misses results, and does not stop the controller.
    for number in 0..2000 {
        running.handle.request(key("a"), number.to_string());
        running.idle().await;
        results.next().await.unwrap();
    }
    running.stopped().await.unwrap();
    assert!(results.next().await.is_none(), "the stream ends with the controller");
    assert!(unread.missed() > 900 && results.missed() == 0);
    assert!(unread.next().await.is_some());
}
