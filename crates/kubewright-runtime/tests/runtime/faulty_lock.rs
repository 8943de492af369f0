//! A lock over a faulty network: requests are delayed, lost, rejected, or executed without a
//! response.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_client::Error;
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, ResourceVersion};
use kubewright_runtime::election::{LeaderElectionRecord, ResourceLock};
use tokio::time::{sleep, timeout};

use crate::election_simulation::Dice;
use crate::frozen::Freezer;

/// The default timeout of lease requests.
const TIMEOUT: Duration = Duration::from_secs(5);

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The stored record with its version.
pub type SharedRecord = Arc<Mutex<(u64, Option<LeaderElectionRecord>)>>;

/// The current fault rates of the network, in percent.
#[derive(Default, Clone, Copy)]
pub struct FaultRates {
    longest_delay: u64,
    lost_requests: u64,
    lost_answers: u64,
    refusals: u64,
}

impl FaultRates {
    pub fn roll(dice: &mut Dice) -> Self {
        let mut weather = FaultRates::default();
        for _ in 0..dice.roll(4) {
            match dice.roll(4) {
                0 => weather.longest_delay = dice.roll(20_000),
                1 => weather.lost_requests = dice.roll(101),
                2 => weather.lost_answers = dice.roll(101),
                _ => weather.refusals = dice.roll(101),
            }
        }
        weather
    }
}

/// A candidate's connection to the store.
pub struct FaultyLock {
    shelf: SharedRecord,
    weather: Arc<Mutex<FaultRates>>,
    freezer: Freezer,
    dice: Dice,
    /// The version that was last read or written.
    seen: u64,
}

impl FaultyLock {
    pub fn new(shelf: &SharedRecord, weather: &Arc<Mutex<FaultRates>>, freezer: &Freezer, seed: u64) -> Self {
        let (shelf, weather, freezer) = (shelf.clone(), weather.clone(), freezer.clone());
        FaultyLock { shelf, weather, freezer, dice: Dice::new(seed), seen: 0 }
    }

    /// Runs an operation on the store after a delay, and returns its result if it arrives in time.
    fn call<T, F>(&mut self, act: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut (u64, Option<LeaderElectionRecord>)) -> Result<T, Error> + Send + 'static,
    {
        let (weather, dice, shelf) = (*self.weather.lock().unwrap(), &mut self.dice, self.shelf.clone());
        let [there, back] = [0, 0].map(|_: u64| dice.milliseconds(weather.longest_delay.max(5)));
        let [lost, unheard, refused] =
            [weather.lost_requests, weather.lost_answers, weather.refusals].map(|chance| dice.roll(100) < chance);
        // An operation in transit continues, whether the caller waits or not.
        let travelling = tokio::spawn(async move {
            sleep(there).await;
            if lost {
                return std::future::pending().await;
            }
            if refused {
                return Err(Status::internal("a bad day").into());
            }
            let result = act(&mut shelf.lock().unwrap());
            sleep(back).await;
            if unheard { std::future::pending().await } else { result }
        });
        // A suspended process neither receives the response nor times out.
        self.freezer.hold(async move {
            match timeout(TIMEOUT, travelling).await {
                Ok(answer) => answer.expect("nothing panics on the way"),
                Err(_) => Err(Status::timeout("no answer", 0).into()),
            }
        })
    }

    fn write(
        &mut self,
        expected: u64,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        let record = record.clone();
        self.call(move |(version, kept)| {
            if *version != expected {
                return Err(Status::conflict(&GroupResource::from_static("", "leases"), "lock", "changed").into());
            }
            *version += 1;
            *kept = Some(record);
            Ok(*version)
        })
    }
}

impl ResourceLock for FaultyLock {
    fn get(&mut self) -> Answer<'_, Option<LeaderElectionRecord>> {
        Box::pin(async {
            let (version, record) = self.call(|(version, kept)| Ok((*version, kept.clone()))).await?;
            self.seen = version;
            Ok(record)
        })
    }

    fn create<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> Answer<'a, ()> {
        Box::pin(async {
            self.seen = self.write(0, record).await?;
            Ok(())
        })
    }

    fn update<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> Answer<'a, ()> {
        Box::pin(async {
            self.seen = self.write(self.seen, record).await?;
            Ok(())
        })
    }

    fn version(&self) -> ResourceVersion {
        self.seen.to_string().as_str().into()
    }

    fn describe(&self) -> String {
        "wire".to_owned()
    }
}
