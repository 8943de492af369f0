//! Random histories with the embedded server, real caches and a real operator of two replicas, with
//! simulated time. After each quiet period the operator's view and actions agree with the server.
//!
//! `KUBEWRIGHT_HISTORIES` sets the number of histories (1,000 by default), and `KUBEWRIGHT_SEED`
//! the first seed: a failure prints the seed and the steps of its history. `KUBEWRIGHT_LOG` also
//! prints logs.

mod check;
mod network;
mod process;
mod truth;
mod view;
mod widget;
mod world;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

use truth::Truth;
use widget::ON_PURPOSE;
use world::World;

/// Number of quiet periods per history.
const PARTS: usize = 3;

/// Maximum time from the end of an outage until every cache is fresh.
const FRESH: Duration = Duration::from_secs(5);

/// Maximum time until everything has settled after any fault: a rejected request is retried within
/// a minute, and a lost lease takes a quarter of one.
const SETTLED: Duration = Duration::from_secs(180);

async fn play(seed: u64, truth: &Truth) {
    let mut world = World::new(seed, truth).await;
    for _ in 0..PARTS {
        world.begin();
        for _ in 0..5 + seed % 20 {
            world.step().await;
        }
        world.heal().await;
        if !world.may_wait_long {
            sleep(FRESH).await;
            let problems = check::caches(&world).await;
            assert!(problems.is_empty(), "not fresh after {FRESH:?}: {problems:#?}");
        }
        let mut problems = check::everything(&world).await;
        for _ in 0..SETTLED.as_secs() / 5 {
            if problems.is_empty() {
                break;
            }
            sleep(Duration::from_secs(5)).await;
            problems = check::everything(&world).await;
        }
        assert!(problems.is_empty(), "not settled after {SETTLED:?}: {problems:#?}");
        truth.trace("quiet, and all is well".to_owned());
    }
    for replica in world.replicas.drain(..) {
        replica.end().await;
    }
    let violations = truth.violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Suppresses the output of intended panics.
fn hide_panics_on_purpose() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_on_purpose = panic.payload().downcast_ref::<String>().is_some_and(|text| text == ON_PURPOSE)
            || panic.payload().downcast_ref::<&str>() == Some(&ON_PURPOSE);
        if !is_on_purpose {
            shown(panic);
        }
    }));
}

// SI-4, SI-11, RE-9, RE-12, RE-15, LE-8, LE-10
#[test]
fn caches_handlers_and_controllers_agree_with_the_server_after_every_history() {
    hide_panics_on_purpose();
    if std::env::var_os("KUBEWRIGHT_LOG").is_some() {
        tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(std::io::stdout).init();
    }
    let first = number("KUBEWRIGHT_SEED", 1);
    let end = first + number("KUBEWRIGHT_HISTORIES", 1000);
    let next = AtomicU64::new(first);
    let has_failed = AtomicBool::new(false);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
                for seed in seeds.take_while(|seed| *seed < end && !has_failed.load(Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(|| play_alone(seed)) {
                        has_failed.store(true, Ordering::Relaxed);
                        resume_unwind(panic);
                    }
                }
            });
        }
    });
}

/// Plays one history in its own simulated time.
fn play_alone(seed: u64) {
    // The source of jitter of caches and electors.
    fastrand::seed(seed);
    let truth = Truth::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(seed, &truth))));
    if let Err(panic) = played {
        println!("KUBEWRIGHT_SEED={seed} KUBEWRIGHT_HISTORIES=1 fails after\n{}", truth.story());
        resume_unwind(panic);
    }
}
