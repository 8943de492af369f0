//! The example of leader election as processes, of which one is killed.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kubewright_api::coordination::v1::Lease;
use kubewright_apiserver::ApiServer;
use kubewright_client::Api;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Cargo builds examples along with tests, into the folder beside that of tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(|folder| folder.parent()).unwrap().join("examples").join("leader_election")
}

struct Candidate {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Candidate {
    fn start(kubeconfig: &PathBuf, identity: &str) -> Self {
        let mut command = Command::new(example());
        command.args([identity, "3"]).env("KUBECONFIG", kubeconfig).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Candidate { process, lines }
    }

    async fn says(&mut self, wanted: &str) {
        let waiting = async {
            while let Ok(Some(line)) = self.lines.next_line().await {
                if line == wanted {
                    return;
                }
            }
            panic!("it ended without saying {wanted:?}");
        };
        timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("it never said {wanted:?}"));
    }
}

#[tokio::test]
async fn a_process_takes_over_when_the_leader_is_killed() {
    // LE-4, LE-9
    // Without the example, as when only this test is built, there is nothing to be run.
    if !example().exists() {
        return;
    }
    let server = ApiServer::in_memory().listen("127.0.0.1:0".parse().unwrap()).plain_http().start().await.unwrap();
    let kubeconfig = std::env::temp_dir().join(format!("kubewright-election-{}", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let mut first = Candidate::start(&kubeconfig, "first");
    first.says("started leading").await;
    let mut second = Candidate::start(&kubeconfig, "second");
    second.says("new leader: first").await;
    // SIGKILL: nothing is released.
    first.process.kill().await.unwrap();
    let killed = Instant::now();
    second.says("started leading").await;
    assert!(killed.elapsed() > Duration::from_secs(1), "{:?}", killed.elapsed());
    let lease = Api::<Lease>::namespaced(&server.client(), "default").get("example").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("second"), Some(1)));
    std::fs::remove_file(&kubeconfig).unwrap();
}
