//! Outages of any duration and kind: how soon a cache recovers, and at what cost to the server.

use std::collections::BTreeMap;
use std::time::Duration;

use kubewright_cache::{HealthState, Reflector, ReflectorOptions, Store};
use kubewright_client::Error;
use kubewright_client::transport::{TransportError, TransportErrorKind};
use kubewright_core::StatusReason;
use kubewright_core::meta::v1::Status;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::mutable_server::Live;
use crate::script::{Script, errs, listed, refused, watch_fails};
use crate::support::named;

fn reset() -> Error {
    TransportError::new(TransportErrorKind::Disconnected, "reset").into()
}

fn timed_out() -> Error {
    TransportError::new(TransportErrorKind::Timeout, "too slow").into()
}

fn internal() -> Error {
    Status::failure(StatusReason::InternalError, "etcd").into()
}

fn unavailable() -> Error {
    Status::service_unavailable("starting").into()
}

fn forbidden() -> Error {
    Status::failure(StatusReason::Forbidden, "no").into()
}

/// Reflectors over one server, which stop with it.
struct Reflecting {
    stores: Vec<Store<kubewright_core::DynamicObject>>,
    reflectors: Vec<Reflector<kubewright_core::DynamicObject>>,
    stop: CancellationToken,
}

impl Reflecting {
    fn start(server: &Live, count: usize) -> Self {
        let stop = CancellationToken::new();
        let (mut stores, mut reflectors) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let store = Store::default();
            let reflector = Reflector::new(server.clone(), store.clone(), ReflectorOptions::default());
            let (running, stop) = (reflector.clone(), stop.clone());
            tokio::spawn(async move { running.run(&stop).await });
            stores.push(store);
            reflectors.push(reflector);
        }
        Reflecting { stores, reflectors, stop }
    }

    fn are_fresh(&self, server: &Live) -> bool {
        let contents = server.contents();
        self.stores.iter().all(|store| named(&store.snapshot()) == contents)
    }
}

impl Drop for Reflecting {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// The guarantee: after any outages, a cache is fresh within five seconds of the server being ready.
#[tokio::test(start_paused = true)]
async fn a_cache_is_fresh_within_five_seconds_of_the_server() {
    for streams in [false, true] {
        for fault in [refused, reset, timed_out, internal, unavailable] {
            let server = if streams { Live::streaming() } else { Live::new() };
            server.put("a");
            let caches = Reflecting::start(&server, 1);
            for outage in [1, 10, 2, 60, 5, 1, 1, 300, 3600, 1] {
                sleep(Duration::from_secs(1)).await;
                server.refuse(u32::MAX, fault);
                sleep(Duration::from_secs(outage)).await;
                // After some outages the server has compacted the version.
                if outage % 2 == 0 {
                    server.forget();
                }
                server.put("a");
                server.recover();
                sleep(Duration::from_secs(5)).await;
                assert!(caches.are_fresh(&server), "{} after {outage} s, streams: {streams}", fault());
                assert_eq!(caches.reflectors[0].health().state, HealthState::Watching);
            }
        }
    }
}

// Earlier failures of another kind do not lengthen the back-off.
#[tokio::test(start_paused = true)]
async fn a_long_refusal_before_an_outage_does_not_lengthen_it() {
    let server = Live::new();
    server.put("a");
    let caches = Reflecting::start(&server, 1);
    sleep(Duration::from_secs(1)).await;
    server.refuse(u32::MAX, forbidden);
    sleep(Duration::from_secs(3600)).await;
    server.refuse(u32::MAX, refused);
    // The delay of the rejection has not elapsed.
    sleep(Duration::from_secs(60)).await;
    server.put("a");
    server.recover();
    sleep(Duration::from_secs(5)).await;
    assert!(caches.are_fresh(&server));
}

// RE-9: an expired version leads to a list without back-off.
#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_an_immediate_relist() {
    for streams in [false, true] {
        let server = if streams { Live::streaming() } else { Live::new() };
        let caches = Reflecting::start(&server, 1);
        for _ in 0..10 {
            sleep(Duration::from_secs(2)).await;
            server.put("a");
            server.forget();
            sleep(Duration::from_millis(1)).await;
            assert!(caches.are_fresh(&server));
        }
    }
}

// A server whose watches always expire is not polled in a hot loop.
#[tokio::test(start_paused = true)]
async fn a_server_that_always_expires_is_backed_off_from() {
    let expired = || Status::expired("too old");
    for script in [
        Script::new((0..1000).flat_map(|_| [listed("10", "a@1"), watch_fails(expired())])),
        Script::new((0..1000).flat_map(|_| [listed("10", "a@1"), errs("+b@11", expired())])),
    ] {
        let reflector = Reflector::new(script.clone(), Store::default(), ReflectorOptions::default());
        let _ = tokio::time::timeout(Duration::from_secs(60), reflector.run(&CancellationToken::new())).await;
        let lists = script.requests().iter().filter(|request| request.starts_with("list")).count();
        assert!((4..=9).contains(&lists), "{lists}");
    }
}

// Retry-After takes precedence over a shorter back-off.
#[tokio::test(start_paused = true)]
async fn a_longer_retry_after_is_honoured() {
    let server = Live::new();
    let caches = Reflecting::start(&server, 1);
    sleep(Duration::from_secs(1)).await;
    server.refuse(u32::MAX, || Status::service_unavailable("later").with_retry_after_seconds(120).into());
    sleep(Duration::from_secs(1)).await;
    server.requests();
    sleep(Duration::from_secs(110)).await;
    assert_eq!(server.requests().len(), 0);
    drop(caches);
}

/// Requests in each second from `start` on.
fn per_second(requests: &[Instant], start: Instant) -> Vec<usize> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for at in requests {
        *counts.entry(at.saturating_duration_since(start).as_secs()).or_default() += 1;
    }
    (0..=counts.keys().last().copied().unwrap_or(0)).map(|second| counts.get(&second).copied().unwrap_or(0)).collect()
}

// A thousand caches over one server do not return at the same moment.
#[tokio::test(start_paused = true)]
async fn a_thousand_caches_spread_their_requests() {
    for streams in [false, true] {
        let server = if streams { Live::streaming() } else { Live::new() };
        server.put("a");
        let caches = Reflecting::start(&server, 1000);
        sleep(Duration::from_secs(30)).await;
        server.requests();
        server.refuse(u32::MAX, refused);
        let start = Instant::now();
        sleep(Duration::from_secs(60)).await;
        let outage = per_second(&server.requests(), start);
        server.put("a");
        server.forget();
        server.recover();
        let start = Instant::now();
        sleep(Duration::from_secs(5)).await;
        assert!(caches.are_fresh(&server));
        sleep(Duration::from_secs(5)).await;
        let after = per_second(&server.requests(), start);
        assert!(outage[5..].iter().all(|&count| count < 500), "{outage:?}");
        // Each cache needs a watch that expires, and then a streaming list, or a list and a watch.
        let each = if streams { 2 } else { 3 };
        assert_eq!(after.iter().sum::<usize>(), 1000 * each);
        assert!(after.iter().all(|&count| count < 400 * each), "{after:?}");
    }
}
