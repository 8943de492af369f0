//! Never two leaders: many candidates, a bad network and suspended processes, with simulated time.
//!
//! `KUBEWRIGHT_ELECTION_RUNS` sets the number of runs, `KUBEWRIGHT_ELECTION_SEED` the first seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_apiserver::{Fault, RunningServer};
use kubewright_client::Client;
use kubewright_client::transport::ResponseFuture;
use kubewright_runtime::LeaderElector;
use kubewright_runtime::election::LeaderElectionOptions;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::faulty_lock::{FaultRates, FaultyLock, SharedRecord};
use crate::frozen::Freezer;
use crate::support::server;

const SIMULATED: Duration = Duration::from_secs(300);

/// Random numbers of reproducible runs.
pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(fastrand::Rng::with_seed(seed))
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0.u64(..below)
    }

    pub fn milliseconds(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.roll(below))
    }
}

/// Until when each candidate believes that it leads, which a suspended candidate cannot retract.
#[derive(Clone)]
struct Beliefs {
    seed: u64,
    until: Arc<Mutex<BTreeMap<usize, Instant>>>,
    leaders: Arc<Mutex<Vec<usize>>>,
}

impl Beliefs {
    fn new(seed: u64) -> Self {
        Beliefs { seed, until: Arc::default(), leaders: Arc::default() }
    }

    /// Records that a candidate believes that it leads until then, and checks for overlaps with
    /// others.
    fn believe(&self, candidate: usize, until: Instant) {
        let (now, mut beliefs) = (Instant::now(), self.until.lock().unwrap());
        beliefs.insert(candidate, until);
        let leading: Vec<usize> =
            beliefs.iter().filter(|(_, until)| **until > now).map(|(number, _)| *number).collect();
        assert!(leading.len() <= 1, "seed {}: {leading:?} lead at the same time", self.seed);
        let mut leaders = self.leaders.lock().unwrap();
        if leaders.last() != Some(&candidate) {
            leaders.push(candidate);
        }
    }

    fn end(&self, candidate: usize) {
        self.until.lock().unwrap().remove(&candidate);
    }

    /// Number of leadership changes. Also reports a panic of a candidate.
    fn leaderships(&self) -> usize {
        drop(self.until.lock().expect("two led at the same time"));
        self.leaders.lock().unwrap().len()
    }
}

/// A candidate that leads when it can, and steps down now and then.
async fn live(
    stand: impl FnOnce(String, LeaderElectionOptions) -> LeaderElector,
    number: usize,
    seed: u64,
    beliefs: Beliefs,
) {
    let mut dice = Dice::new(seed ^ (number as u64) << 32);
    // With a slow clock, a candidate holds on for longer than its durations.
    let slow = 1.0 + dice.roll(40) as f64 / 100.0;
    let options = LeaderElectionOptions::default()
        .renew_deadline(Duration::from_secs(10).mul_f64(slow))
        .retry_period(Duration::from_secs(2).mul_f64(slow))
        .seed(seed + number as u64);
    let mut elector = stand(format!("candidate-{number}"), options);
    let stop = CancellationToken::new();
    while let Some(leadership) = elector.acquire(&stop).await {
        let until = Instant::now() + dice.milliseconds(120_000);
        while leadership.is_leading() && Instant::now() < until {
            beliefs.believe(number, leadership.valid_until());
            let pause = dice.milliseconds(500);
            leadership.while_leading(sleep(pause)).await;
        }
        // The work has ended: from here on this candidate does not act as leader.
        beliefs.end(number);
        if dice.roll(2) == 0 {
            leadership.release().await;
        }
        sleep(dice.milliseconds(5_000)).await;
    }
}

/// Injects faults: delayed, lost, half-answered or rejected requests; a silent server; suspended
/// processes.
async fn trouble(server: Arc<RunningServer>, freezers: Vec<Freezer>, seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(31));
    let faults = server.faults();
    faults.seed(seed + 1);
    loop {
        faults.clear();
        freezers.iter().for_each(|freezer| freezer.set(false));
        for _ in 0..dice.roll(4) {
            let fault = match dice.roll(5) {
                0 => Fault::delay(dice.milliseconds(20_000)),
                1 => Fault::drop_request(),
                2 => Fault::cut_after(dice.roll(40) as usize),
                3 => Fault::answer(500),
                _ => Fault::answer(409),
            };
            faults.inject(fault.resource("leases").probability(dice.roll(100) as f64 / 100.0));
        }
        if dice.roll(6) == 0 {
            faults.freeze();
        }
        if dice.roll(2) == 0 {
            let one = dice.roll(freezers.len() as u64) as usize;
            freezers[one].set(true);
        }
        sleep(dice.milliseconds(25_000)).await;
    }
}

/// Plays one run on the embedded server, and returns the number of leaderships.
async fn play(seed: u64) -> usize {
    let server = Arc::new(server().await);
    let beliefs = Beliefs::new(seed);
    let freezers: Vec<Freezer> = (0..candidates(seed)).map(|_| Freezer::new()).collect();
    let mut tasks = JoinSet::new();
    for (number, freezer) in freezers.iter().enumerate() {
        // Requests of a frozen process continue, but it receives the responses only after it is
        // thawed.
        let (freezer, client) = (freezer.clone(), server.client());
        let network = freezer.clone();
        let client = Client::over(move |request| -> ResponseFuture {
            let answer = tokio::spawn(client.transport().send(request));
            Box::pin(network.hold(async { answer.await.expect("the server does not panic") }))
        });
        let stand = move |identity, options| {
            LeaderElector::new(&client, "default", "lock", identity, options).expect("it is right")
        };
        tasks.spawn(freezer.hold(live(stand, number, seed, beliefs.clone())));
    }
    tasks.spawn(trouble(server.clone(), freezers, seed));
    sleep(SIMULATED).await;
    beliefs.leaderships()
}

/// Plays one run over a record in memory, with a network in between that is as bad, but costs next
/// to nothing.
async fn play_in_memory(seed: u64) -> usize {
    let beliefs = Beliefs::new(seed);
    let freezers: Vec<Freezer> = (0..candidates(seed)).map(|_| Freezer::new()).collect();
    let (shelf, weather) = (SharedRecord::default(), Arc::new(Mutex::new(FaultRates::default())));
    let mut tasks = JoinSet::new();
    for (number, freezer) in freezers.iter().enumerate() {
        let wire = FaultyLock::new(&shelf, &weather, freezer, seed.wrapping_mul(97) + number as u64);
        let stand = |identity, options| LeaderElector::over(wire, identity, options).expect("it is right");
        tasks.spawn(freezer.hold(live(stand, number, seed, beliefs.clone())));
    }
    tasks.spawn(async move {
        let mut dice = Dice::new(seed.wrapping_mul(31));
        loop {
            *weather.lock().unwrap() = FaultRates::roll(&mut dice);
            freezers.iter().for_each(|freezer| freezer.set(false));
            if dice.roll(2) == 0 {
                freezers[dice.roll(freezers.len() as u64) as usize].set(true);
            }
            sleep(dice.milliseconds(25_000)).await;
        }
    });
    sleep(SIMULATED).await;
    beliefs.leaderships()
}

fn candidates(seed: u64) -> usize {
    2 + (seed % 4) as usize
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Plays all runs, each with its own simulated time.
fn play_all(runs: u64, play: impl AsyncFn(u64) -> usize) {
    let first = number("KUBEWRIGHT_ELECTION_SEED", 1);
    let mut leaderships = 0;
    for seed in first..first + runs {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        leaderships += runtime.block_on(play(seed));
    }
    assert!(leaderships as u64 > runs, "hardly anybody ever led: {leaderships}");
}

#[test]
fn there_are_never_two_leaders() {
    // LE-2, LE-6, LE-8, LE-10
    play_all(number("KUBEWRIGHT_ELECTION_RUNS", 12), play);
}

#[test]
fn there_are_never_two_leaders_in_a_thousand_runs() {
    // LE-2, LE-6, LE-8, LE-10
    play_all(number("KUBEWRIGHT_ELECTION_RUNS", 1000), play_in_memory);
}
