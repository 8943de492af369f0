//! Linearizability: what several clients saw through several servers is what one server could have
//! answered.
//!
//! Clients create, read, replace and delete a few objects through three servers over three members
//! of etcd. Meanwhile members are killed and paused, one at a time, connections to servers stall,
//! servers are replaced, and etcd is compacted to its newest revision. Each object is a register
//! with compare-and-swap. The checker looks for an order of its operations that agrees with all
//! answers, and in which an operation that had ended before another began comes first. An operation
//! without an answer may have happened at any time after it began, or never.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubewright_apiserver::RunningServer;
use kubewright_etcd::{Client as EtcdClient, RangeRequest};
use kubewright_testing::EtcdCluster;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;

use crate::client::{CONFIG_MAPS, Client, text};
use crate::{options, start};

/// The time of a history.
const DURATION: Duration = Duration::from_secs(24);
const CLIENTS: u64 = 6;
const OBJECTS: u64 = 3;

/// The value of a register: none if the object does not exist.
type Register = Option<u64>;

/// An operation with its answer.
#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: Kind,
    began: Duration,
    /// The end of time if there was no answer.
    ended: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A read that saw this value.
    Read(Register),
    /// Replaced the first value by the second. Creations replace none, deletions replace by none.
    Swap(Register, Register),
    /// Like `Swap`, without an answer.
    Unknown(Register, Register),
}

impl Operation {
    /// The value after the operation, or `None` if it cannot happen now.
    fn apply(&self, value: Register) -> Option<Register> {
        match self.kind {
            Kind::Read(seen) => (seen == value).then_some(value),
            Kind::Swap(from, to) | Kind::Unknown(from, to) => (from == value).then_some(to),
        }
    }

    fn is_optional(&self) -> bool {
        matches!(self.kind, Kind::Unknown(..))
    }
}

/// Whether some order of the operations explains all answers.
///
/// Depth-first search over the operations that could be next: those that began before the first
/// end among the others. States that were seen before are not searched again (Wing and Gong, with
/// the memory of Lowe).
fn is_linearizable(mut operations: Vec<Operation>) -> bool {
    operations.sort_by_key(|operation| operation.began);
    let mut seen = HashSet::new();
    let mut stack = vec![(vec![false; operations.len()], None::<u64>)];
    while let Some((done, value)) = stack.pop() {
        let open = || operations.iter().enumerate().filter(|(index, _)| !done[*index]);
        if open().all(|(_, operation)| operation.is_optional()) {
            return true;
        }
        let horizon = open().map(|(_, operation)| operation.ended).min().unwrap_or(Duration::MAX);
        for (index, operation) in open().take_while(|(_, operation)| operation.began <= horizon) {
            if let Some(next) = operation.apply(value) {
                let mut done = done.clone();
                done[index] = true;
                if seen.insert((done.clone(), next)) {
                    stack.push((done, next));
                }
            }
        }
    }
    false
}

#[test]
fn the_checker_finds_lost_and_stale_values() {
    let at = |kind, began, ended| Operation {
        kind,
        began: Duration::from_millis(began),
        ended: Duration::from_millis(ended),
    };
    let made = at(Kind::Swap(None, Some(1)), 0, 10);
    let changed = at(Kind::Swap(Some(1), Some(2)), 20, 30);
    assert!(is_linearizable(vec![made, changed, at(Kind::Read(Some(2)), 40, 50)]));
    // While the change runs, a read may see either value.
    assert!(is_linearizable(vec![made, changed, at(Kind::Read(Some(1)), 22, 50)]));
    // A stale read, a lost update, and two updates of one value.
    assert!(!is_linearizable(vec![made, changed, at(Kind::Read(Some(1)), 40, 50)]));
    assert!(!is_linearizable(vec![made, at(Kind::Read(None), 40, 50)]));
    assert!(!is_linearizable(vec![made, changed, at(Kind::Swap(Some(1), Some(3)), 20, 30)]));
    // An unanswered write may have happened, late or never, but not twice.
    let unknown = at(Kind::Unknown(Some(2), Some(3)), 35, u64::MAX);
    for last in [Some(2), Some(3)] {
        assert!(is_linearizable(vec![made, changed, unknown, at(Kind::Read(last), 60, 70)]));
    }
    let back = at(Kind::Swap(Some(3), Some(2)), 80, 90);
    let again = at(Kind::Read(Some(3)), 100, 110);
    assert!(!is_linearizable(vec![made, changed, unknown, back, again]));
}

/// A server that may be replaced, and whose connections may stall.
struct ServerPlace {
    server: tokio::sync::Mutex<Option<RunningServer>>,
    is_stalled: watch::Sender<bool>,
}

impl ServerPlace {
    /// Opens a connection that stalls with the others. `None` while the server is replaced.
    async fn connect(&self) -> Option<DuplexStream> {
        let theirs = self.server.lock().await.as_ref()?.connect();
        let (ours, relay) = tokio::io::duplex(16 << 10);
        let (from_server, to_server) = tokio::io::split(theirs);
        let (from_client, to_client) = tokio::io::split(relay);
        tokio::spawn(forward(from_server, to_client, self.is_stalled.subscribe()));
        tokio::spawn(forward(from_client, to_server, self.is_stalled.subscribe()));
        Some(ours)
    }
}

/// Copies bytes, but none while the gate is closed.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_stalled: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 4 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let goes_on = is_stalled.wait_for(|is_stalled| !is_stalled).await.is_ok();
        if !goes_on || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
    // The other side may be gone.
    let _ = to.shutdown().await;
}

/// A failure of a member or a server.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A member is killed, and starts again half a second later.
    Kill,
    /// A member is paused for longer than the others wait before they elect another leader.
    Pause,
    /// The connections to a server stall.
    Stall,
    /// A server goes without its clients' knowledge, and another one takes its place.
    Replace,
}

/// Kills and pauses hit each member, and stalls each server.
const FAULTS: [Fault; 4] = [Fault::Kill, Fault::Stall, Fault::Pause, Fault::Replace];

/// Discards all values but the newest, while a member is away.
async fn compact(etcd: &EtcdClient) {
    let now = etcd.range(&RangeRequest { count_only: true, ..RangeRequest::key("a") }).await;
    if let Ok(now) = now {
        // Without a leader this fails, as any other call.
        let _ = etcd.compact(now.revision).await;
    }
}

/// One client: its connection, which may break, and what it saw last.
struct Worker {
    servers: Arc<Vec<ServerPlace>>,
    random: fastrand::Rng,
    begin: Instant,
    values: Arc<AtomicU64>,
    histories: Vec<Vec<Operation>>,
}

impl Worker {
    async fn run(mut self) -> Vec<Vec<Operation>> {
        while self.begin.elapsed() < DURATION {
            let server = self.random.usize(..self.servers.len());
            let Some(stream) = self.servers[server].connect().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let mut client = Client::over(stream).await;
            for _ in 0..self.random.usize(1..4) {
                if !self.step(&mut client).await {
                    break;
                }
            }
        }
        self.histories
    }

    /// Reads an object, and then changes what it read. Returns whether the server still answers.
    async fn step(&mut self, client: &mut Client) -> bool {
        let object = self.random.usize(..self.histories.len());
        let path = format!("{CONFIG_MAPS}/register-{object}");
        let began = self.begin.elapsed();
        let Some((code, found)) = client.try_call("GET", &path, "").await else { return false };
        let ended = self.begin.elapsed();
        let seen: Register = match code {
            200 => Some(text(&found, "data/value").parse().expect("it is a number")),
            404 => None,
            _ => return false,
        };
        self.histories[object].push(Operation { kind: Kind::Read(seen), began, ended });
        let value = self.values.fetch_add(1, Ordering::Relaxed);
        let version = text(&found, "metadata/resourceVersion");
        let (next, began) =
            (if seen.is_some() && self.random.u8(..5) == 0 { None } else { Some(value) }, self.begin.elapsed());
        let body = |version: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"register-{object}"{version}}},
                "data":{{"value":"{value}"}}}}"#
            )
        };
        let answer = match (seen, next) {
            (None, _) => client.try_call("POST", CONFIG_MAPS, &body("")).await,
            (Some(_), Some(_)) => {
                client.try_call("PUT", &path, &body(&format!(r#","resourceVersion":"{version}""#))).await
            }
            (Some(_), None) => {
                let options = format!(r#"{{"preconditions":{{"resourceVersion":"{version}"}}}}"#);
                client.try_call("DELETE", &path, &options).await
            }
        };
        let ended = self.begin.elapsed();
        let kind = match answer {
            Some((200 | 201, _)) => Kind::Swap(seen, next),
            // Rejected: nothing happened.
            Some((404 | 409, _)) => return true,
            None | Some((500 | 504, _)) => Kind::Unknown(seen, next),
            Some((code, answer)) => panic!("{code}: {answer}"),
        };
        let ended = if matches!(kind, Kind::Unknown(..)) { Duration::MAX } else { ended };
        self.histories[object].push(Operation { kind, began, ended });
        matches!(kind, Kind::Swap(..))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable_while_members_and_servers_fail() {
    let Some(mut cluster) = EtcdCluster::start(3) else { return };
    let mut servers = Vec::new();
    for _ in 0..3 {
        let server = tokio::sync::Mutex::new(Some(start(&cluster).await.0));
        servers.push(ServerPlace { server, is_stalled: watch::Sender::new(false) });
    }
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    let (servers, values, begin) = (Arc::new(servers), Arc::<AtomicU64>::default(), Instant::now());
    let seed = std::env::var("KUBEWRIGHT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let workers = (0..CLIENTS).map(|worker| {
        let worker = Worker {
            servers: Arc::clone(&servers),
            random: fastrand::Rng::with_seed(seed + worker),
            begin,
            values: Arc::clone(&values),
            histories: (0..OBJECTS).map(|_| Vec::new()).collect(),
        };
        tokio::spawn(worker.run())
    });
    let workers: Vec<_> = workers.collect();
    let mut faults = 0;
    while begin.elapsed() < DURATION {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let place = &servers[faults % servers.len()];
        // Three is no divisor of four, so each fault comes to each member.
        let member = faults % 3;
        match FAULTS[faults % FAULTS.len()] {
            Fault::Kill => {
                cluster.kill(member);
                compact(&etcd).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
                // It starts on a thread that may block.
                let restart = move || {
                    cluster.restart(member);
                    cluster
                };
                cluster = tokio::task::spawn_blocking(restart).await.expect("etcd starts again");
            }
            Fault::Pause => {
                cluster.pause(member);
                tokio::time::sleep(Duration::from_millis(1800)).await;
                compact(&etcd).await;
                cluster.resume(member);
            }
            Fault::Stall => {
                place.is_stalled.send_replace(true);
                tokio::time::sleep(Duration::from_millis(800)).await;
                place.is_stalled.send_replace(false);
            }
            Fault::Replace => {
                drop(place.server.lock().await.take());
                *place.server.lock().await = Some(start(&cluster).await.0);
            }
        }
        faults += 1;
    }
    let mut histories: Vec<Vec<Operation>> = (0..OBJECTS).map(|_| Vec::new()).collect();
    for worker in workers {
        for (history, part) in histories.iter_mut().zip(worker.await.expect("no client fails")) {
            history.extend(part);
        }
    }
    let operations: usize = histories.iter().map(Vec::len).sum();
    let writes = histories.iter().flatten().filter(|operation| matches!(operation.kind, Kind::Swap(..))).count();
    let unknown = histories.iter().flatten().filter(|operation| operation.is_optional()).count();
    let summary =
        format!("{operations} operations, {writes} writes, {unknown} unanswered, {faults} faults, seed {seed}");
    assert!(writes > 20 && faults >= FAULTS.len(), "{summary}");
    for history in histories {
        assert!(is_linearizable(history.clone()), "{summary}: {history:#?}");
    }
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{summary}\n").as_bytes());
}
