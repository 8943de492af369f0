//! Callbacks and the end of `LeaderElector::run`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_apiserver::Fault;
use kubewright_runtime::election::{LeaderCallbacks, LeadershipLost};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::election::{elector, lease, put};
use crate::support::{eventually, seconds, server};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Callbacks that log; the work needs `wind_down` to end.
    fn callbacks(&self, wind_down: Duration) -> LeaderCallbacks {
        let [started, stopped, new] = [self.clone(), self.clone(), self.clone()];
        LeaderCallbacks::new(
            move |stop| async move {
                started.add("started");
                stop.cancelled().await;
                sleep(wind_down).await;
                started.add("ended");
            },
            move || stopped.add("stopped"),
        )
        .on_new_leader(move |leader| new.add(format!("leader {leader}")))
    }
}

#[tokio::test(start_paused = true)]
async fn callbacks_report_start_stop_and_each_new_leader() {
    // LE-8, LE-9
    let server = server().await;
    let (log, stop) = (Log::default(), CancellationToken::new());
    let running = tokio::spawn({
        let (elector, callbacks, stop) = (elector(&server.client(), "a"), log.callbacks(seconds(3.0)), stop.clone());
        async move { elector.run(callbacks, &stop).await }
    });
    let other = Log::default();
    let never = CancellationToken::new();
    let waiting = tokio::spawn({
        let client = server.client();
        let (callbacks, stop) = (other.callbacks(Duration::ZERO), never.clone());
        async move {
            sleep(seconds(1.0)).await;
            elector(&client, "b").run(callbacks, &stop).await
        }
    });
    sleep(seconds(30.0)).await;
    assert_eq!(log.lines(), ["leader a", "started"]);
    assert_eq!(other.lines(), ["leader a"]);
    stop.cancel();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!(log.lines(), ["leader a", "started", "ended", "stopped"]);
    // The lease is released after the work has ended, and acquired at the next attempt.
    eventually("b leads", async || other.lines() == ["leader a", "leader b", "started"]).await;
    never.cancel();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_never_led_gets_the_stop_callback() {
    // LE-9
    let server = server().await;
    put(&server, "other", 3600, 0).await;
    let (log, stop) = (Log::default(), CancellationToken::new());
    tokio::spawn({
        let stop = stop.clone();
        async move {
            sleep(seconds(10.0)).await;
            stop.cancel();
        }
    });
    elector(&server.client(), "a").run(log.callbacks(Duration::ZERO), &stop).await.unwrap();
    assert_eq!(log.lines(), ["leader other", "stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_leaders_work_releases_the_lease_and_is_reported() {
    // LE-9: a Go process exits. Here the work would not be done while the lease is renewed.
    let server = server().await;
    for is_late in [false, true] {
        let (log, stop) = (Log::default(), CancellationToken::new());
        let stopped = log.clone();
        let work = move |stop: CancellationToken| async move {
            sleep(seconds(5.0)).await;
            if is_late {
                stop.cancelled().await;
            }
            panic!("as it may");
        };
        let callbacks = LeaderCallbacks::new(work, move || stopped.add("stopped"));
        let (elector, stopping) = (elector(&server.client(), "a"), stop.clone());
        let running = tokio::spawn(async move { elector.run(callbacks, &stopping).await });
        sleep(seconds(10.0)).await;
        stop.cancel();
        let ended = timeout(seconds(60.0), running).await.expect("it ends").expect_err("it panics");
        assert!(ended.is_panic());
        assert_eq!(log.lines(), ["stopped"]);
        assert_eq!(lease(&server).await.holder_identity.as_deref().unwrap_or_default(), "");
    }
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_ends_the_run_with_an_error() {
    // LE-9, LE-10
    let server = server().await;
    let log = Log::default();
    let faults = server.faults().clone();
    tokio::spawn(async move {
        sleep(seconds(20.0)).await;
        faults.inject(Fault::drop_request().resource("leases"));
    });
    let stop = CancellationToken::new();
    let end = elector(&server.client(), "a").run(log.callbacks(Duration::ZERO), &stop).await;
    assert_eq!(end, Err(LeadershipLost));
    assert_eq!(log.lines().last().map(String::as_str), Some("stopped"));
}
