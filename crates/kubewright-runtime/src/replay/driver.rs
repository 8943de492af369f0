//! Goes through a recording, and compares the writes of the replayed controllers with it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kubewright_core::ObjectKey;
use kubewright_recording::{Began, Entry, Outcome, Request, Response};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ReplayOutcome;
use super::difference::{Difference, DifferenceKind, ReplayedWrite};
use super::inputs::RecordedInputs;
use super::server::{PendingRequest, ReplayServer, first_reconcile};
use super::simulated::SimulatedObjects;
use crate::controller::{ReplayedController, ReplayedStart};

/// A paused clock runs on only when all tasks wait. Sleeping therefore means that everything has
/// settled.
const STEP: Duration = Duration::from_millis(1);

/// How long, in replayed time, a reconcile may sleep before its next recorded request or its end.
const MAX_SLEEP: Duration = Duration::from_secs(600);

/// The state of a replay.
pub(super) struct Driver<'a> {
    entries: &'a [Entry],
    controllers: &'a [ReplayedController],
    server: &'a ReplayServer,
    inputs: RecordedInputs,
    requests: RecordedRequests<'a>,
    running: HashMap<u64, RunningReconcile<'a>>,
    /// Pending requests whose recorded twin is known, by its number.
    matched: HashMap<u64, PendingRequest>,
    /// `Some` if the replay goes on after a difference.
    simulated: Option<SimulatedObjects>,
    outcome: ReplayOutcome,
}

struct RunningReconcile<'a> {
    began: &'a Began,
    task: JoinHandle<Result<(), String>>,
}

/// The requests of the recording, and which of them the replay has made.
struct RecordedRequests<'a> {
    /// By reconcile, in order.
    of_reconcile: HashMap<Option<u64>, Vec<&'a Request>>,
    response_of: HashMap<u64, &'a Response>,
    made: HashSet<u64>,
}

/// Ends a replay.
struct Stop(Box<Difference>);

impl<'a> RecordedRequests<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let mut requests =
            RecordedRequests { of_reconcile: HashMap::new(), response_of: HashMap::new(), made: HashSet::new() };
        for entry in entries {
            match entry {
                Entry::Request(request) => requests.of_reconcile.entry(request.reconcile).or_default().push(request),
                Entry::Response(response) => {
                    requests.response_of.insert(response.request, response);
                }
                _ => {}
            }
        }
        requests
    }

    /// The requests of a reconcile that were not made yet.
    fn open(&self, reconcile: Option<u64>) -> impl Iterator<Item = &'a Request> {
        let requests = self.of_reconcile.get(&reconcile).into_iter().flatten().copied();
        requests.filter(|request| !self.made.contains(&request.request))
    }

    /// The response to the same read that was recorded last before `at`, or first after it.
    fn answer_of_other(&self, path: &str, at: i64) -> Option<&'a Response> {
        let all = self.of_reconcile.values().flatten();
        let same = all.filter(|request| !request.is_write() && request.path == path);
        let answered = same.filter_map(|request| Some((request.at, *self.response_of.get(&request.request)?)));
        answered.min_by_key(|(sent, _)| (*sent > at, sent.abs_diff(at))).map(|(_, response)| response)
    }
}

impl<'a> Driver<'a> {
    /// With `goes_on`, requests that were not recorded are answered as a server would.
    pub(super) fn new(
        entries: &'a [Entry],
        controllers: &'a [ReplayedController],
        server: &'a ReplayServer,
        goes_on: bool,
    ) -> Self {
        Driver {
            entries,
            controllers,
            server,
            inputs: RecordedInputs::of(entries),
            requests: RecordedRequests::of(entries),
            running: HashMap::new(),
            matched: HashMap::new(),
            simulated: goes_on.then(SimulatedObjects::default),
            outcome: ReplayOutcome::default(),
        }
    }

    /// Notes a difference, and ends the replay unless it goes on.
    fn differ(&mut self, difference: Difference) -> Result<(), Stop> {
        if self.simulated.is_none() {
            return Err(Stop(Box::new(difference)));
        }
        self.outcome.difference.get_or_insert(difference);
        Ok(())
    }

    pub(super) async fn run(mut self) -> ReplayOutcome {
        let first = first_reconcile(self.entries);
        for place in first..self.entries.len() {
            if let Err(Stop(difference)) = self.step(place).await {
                self.outcome.difference = Some(*difference);
                break;
            }
        }
        for (_, reconcile) in self.running.drain() {
            reconcile.task.abort();
        }
        self.outcome
    }

    async fn step(&mut self, place: usize) -> Result<(), Stop> {
        match &self.entries[place] {
            Entry::Applied(_) => self.server.catch_up(place),
            Entry::Began(began) => self.begin(began).await,
            Entry::Request(request) => match request.reconcile {
                Some(reconcile) if self.running.contains_key(&reconcile) => {
                    self.await_request(reconcile, request).await?;
                }
                _ => {}
            },
            Entry::Response(response) => {
                if let Some(pending) = self.matched.remove(&response.request) {
                    pending.answer(response.clone());
                    self.settle().await;
                }
            }
            Entry::Ended(ended) if self.running.contains_key(&ended.reconcile) => {
                self.await_end(ended.reconcile, &ended.outcome).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn begin(&mut self, began: &'a Began) {
        let Some(controller) = self.controllers.iter().find(|controller| controller.name() == began.controller) else {
            return;
        };
        let key = |text: &str| text.parse::<ObjectKey>().ok();
        let reasons = began.reasons.iter();
        let start = ReplayedStart {
            key: key(&began.key).unwrap_or_else(|| ObjectKey::cluster(began.key.as_str())),
            reasons: reasons
                .map(|reason| (reason.source.clone(), reason.object.as_deref().and_then(key), reason.kind.clone()))
                .collect(),
            attempt: began.attempt,
            id: began.id,
        };
        let task = controller.start(start, self.inputs.take(began, self.server));
        self.running.insert(began.reconcile, RunningReconcile { began, task });
        self.outcome.reconciles += 1;
        self.settle().await;
    }

    /// Waits until the reconcile makes this request.
    async fn await_request(&mut self, reconcile: u64, request: &'a Request) -> Result<(), Stop> {
        if self.requests.made.contains(&request.request) {
            return Ok(());
        }
        let began = self.running[&reconcile].began;
        let recorded = ReplayedWrite::recorded(began, request);
        let mut slept = Duration::ZERO;
        loop {
            self.settle().await;
            let is_it = |pending: &PendingRequest| {
                pending.reconcile == Some(reconcile) && write_of(began, pending).is_equal(&recorded)
            };
            if let Some(pending) = self.server.take(is_it) {
                self.requests.made.insert(request.request);
                if pending.is_write() {
                    let response = self.requests.response_of.get(&request.request);
                    let status = response.map_or(0, |response| response.status);
                    self.outcome.writes.push(ReplayedWrite { status, ..recorded });
                }
                self.matched.insert(request.request, pending);
                return Ok(());
            }
            if self.answer_others(reconcile, Some(request)).await? {
                continue;
            }
            if self.running[&reconcile].task.is_finished() || slept >= MAX_SLEEP {
                break;
            }
            slept += self.pass_time(slept).await;
        }
        self.requests.made.insert(request.request);
        if request.is_write() {
            self.differ(difference(began, Some(recorded), None, DifferenceKind::Write))?;
        }
        // A read that is no longer made changes nothing.
        Ok(())
    }

    /// Treats the pending requests of a reconcile that the recording does not have. Returns whether
    /// one was answered.
    async fn answer_others(&mut self, reconcile: u64, next: Option<&'a Request>) -> Result<bool, Stop> {
        let began = self.running[&reconcile].began;
        let open: Vec<ReplayedWrite> =
            self.requests.open(Some(reconcile)).map(|request| ReplayedWrite::recorded(began, request)).collect();
        let is_other = |pending: &PendingRequest| {
            pending.reconcile == Some(reconcile)
                && !open.iter().any(|recorded| recorded.is_equal(&write_of(began, pending)))
        };
        let Some(pending) = self.server.take(is_other) else { return Ok(false) };
        let mut replayed = write_of(began, &pending);
        if pending.is_write() {
            let later = || self.requests.open(Some(reconcile)).find(|request| request.is_write());
            let recorded = next.filter(|request| request.is_write()).or_else(later);
            let recorded = recorded.map(|request| ReplayedWrite::recorded(began, request));
            let found = difference(began, recorded, Some(replayed.clone()), DifferenceKind::Write);
            let response = self.simulated.as_mut().map(|simulated| simulated.answer(self.server, &pending));
            replayed.status = response.as_ref().map_or(0, |response| response.status);
            self.outcome.writes.push(replayed);
            self.differ(found)?;
            pending.answer(response.unwrap_or_else(not_recorded));
        } else if let Some(response) = self.requests.answer_of_other(&pending.path, began.at) {
            pending.answer(response.clone());
        } else {
            let response = self.simulated.as_mut().map(|simulated| simulated.answer(self.server, &pending));
            self.differ(difference(began, None, Some(replayed), DifferenceKind::UnrecordedRead))?;
            pending.answer(response.unwrap_or_else(not_recorded));
        }
        self.settle().await;
        Ok(true)
    }

    /// Waits until the reconcile has ended.
    async fn await_end(&mut self, reconcile: u64, outcome: &Outcome) -> Result<(), Stop> {
        let mut slept = Duration::ZERO;
        loop {
            self.settle().await;
            if self.running[&reconcile].task.is_finished() {
                break;
            }
            if self.answer_others(reconcile, None).await? {
                continue;
            }
            // A recorded request without a response was cancelled by a timeout.
            if matches!(outcome, Outcome::Failed(_) | Outcome::Dropped) || slept >= MAX_SLEEP {
                break;
            }
            slept += self.pass_time(slept).await;
        }
        let Some(RunningReconcile { began, task }) = self.running.remove(&reconcile) else { return Ok(()) };
        let has_ended = task.is_finished();
        task.abort();
        if !has_ended && matches!(outcome, Outcome::Done | Outcome::Requeue(_)) {
            self.differ(difference(began, None, None, DifferenceKind::Unfinished))?;
        }
        Ok(())
    }

    /// Lets all tasks run until they wait, and answers requests that no reconcile has made.
    async fn settle(&mut self) {
        loop {
            sleep(STEP).await;
            let Some(pending) = self.server.take(|pending| pending.reconcile.is_none()) else { return };
            let is_same = |request: &&Request| request.method == pending.method && request.path == pending.path;
            let number = self.requests.open(None).find(is_same).map(|request| request.request);
            self.requests.made.extend(number);
            let response = number.and_then(|number| self.requests.response_of.get(&number).copied());
            pending.answer(response.cloned().unwrap_or_else(not_recorded));
        }
    }

    /// Lets time pass, longer with each call. Returns how long.
    async fn pass_time(&self, slept: Duration) -> Duration {
        let step = (slept / 2).clamp(STEP, Duration::from_secs(10));
        sleep(step).await;
        step
    }
}

/// The answer to a request that was not recorded, and belongs to no reconcile.
fn not_recorded() -> Response {
    Response {
        at: 0,
        request: 0,
        status: 0,
        content_type: None,
        retry_after: None,
        body: None,
        error: Some("the recording has no such request".to_owned()),
    }
}

fn write_of(began: &Began, pending: &PendingRequest) -> ReplayedWrite {
    ReplayedWrite::new(began, &pending.method, &pending.path, pending.body.clone())
}

fn difference(
    began: &Began,
    recorded: Option<ReplayedWrite>,
    replayed: Option<ReplayedWrite>,
    kind: DifferenceKind,
) -> Difference {
    Difference { reconcile: began.clone(), recorded, replayed, kind }
}
