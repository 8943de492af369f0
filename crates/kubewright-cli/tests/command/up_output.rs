//! Output of `up`: the demo, log lines, and the terminal view.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::options::ListOptions;

use crate::process::{Cluster, PATIENCE, Scratch};

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_prints_observed_changes() {
    let cluster = Cluster::start(&["up", "--demo"]);
    let lines = cluster.serving.until_it_says("The cluster stays up");
    let story: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("demo  ")).collect();
    let steps: Vec<&str> = story.iter().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(steps.len(), 6, "{steps:#?}");
    let seen: Vec<&str> = story.iter().filter_map(|line| line.trim_start().strip_prefix("-> ")).collect();
    let created = seen.iter().filter(|line| line.ends_with("is created; its owner is ReplicaSet hello"));
    assert_eq!(created.count(), 3, "one, another one, and one in place of the deleted: {seen:#?}");
    assert_eq!(seen.iter().filter(|line| line.starts_with("pod hello-") && line.ends_with("is gone")).count(), 1);
    // DP-3, DP-4: the rollout limits hold at every observation.
    for counts in seen.iter().filter(|line| line.starts_with("nginx:1.27: ") && line.contains("nginx:1.28: ")) {
        let numbers: Vec<u32> = counts.split([' ', ';']).filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] + numbers[1] <= 10 && numbers[2] >= 6, "{counts}");
    }

    let client = cluster.client();
    let options = ListOptions::default();
    let web = Api::<Deployment>::namespaced(&client, "demo").get("web").await.expect("it was told of");
    assert_eq!(web.status.expect("it has rolled out").available_replicas, Some(8));
    let sets = Api::<ReplicaSet>::namespaced(&client, "demo").list(&options).await.expect("a list").items;
    assert_eq!(sets.len(), 3, "one of its own, and two of the deployment");
    let pods = Api::<Pod>::namespaced(&client, "demo").list(&options).await.expect("a list").items;
    let images: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone()).collect();
    assert_eq!(images.iter().filter(|image| *image == "nginx:1.28").count(), 8, "{images:?}");
    let (status, rest) = cluster.serving.stop();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""), "one line on standard output, and a clean end");
}

#[test]
fn progress_lines_report_cache_sync_and_shutdown_and_quiet_suppresses_them() {
    let told = Cluster::start(&["up", "--nodes", "0"]);
    told.serving.until_it_says("caches are complete");
    told.serving.until_it_says("settled after");
    told.serving.signal("INT");
    told.serving.until_it_says("stopped; memory ");

    let quiet = Cluster::start(&["up", "--quiet"]);
    let (status, rest) = quiet.serving.stop();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
}

/// `up` in a terminal.
struct Terminal {
    process: Child,
    keys: ChildStdin,
    out: ChildStdout,
    pid: Scratch,
    shown: String,
}

impl Terminal {
    /// Starts it; `None` if this machine has no program that provides a terminal.
    #[allow(clippy::print_stderr)]
    fn start(term: &str) -> Option<Self> {
        // `script` of util-linux provides a terminal, and records its output.
        let is_there = Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success());
        if !is_there {
            eprintln!("SKIPPED: the live view, because there is no `script` of util-linux on this machine");
            return None;
        }
        let pid = Scratch::new("pid");
        let kubewright = env!("CARGO_BIN_EXE_kubewright");
        let up = format!("echo $$ > {}; exec {kubewright} up --listen 127.0.0.1:0 --no-context", pid.path());
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &up, "/dev/null"]).env("TERM", term);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
        let keys = process.stdin.take().expect("piped");
        let out = process.stdout.take().expect("piped");
        Some(Terminal { process, keys, out, pid, shown: String::new() })
    }

    /// Reads until the new output contains all these texts.
    fn until_it_shows(&mut self, texts: &[&str]) {
        let (before, start) = (self.shown.len(), Instant::now());
        let mut piece = [0; 4096];
        while !texts.iter().all(|text| self.shown[before..].contains(text)) {
            assert!(start.elapsed() < PATIENCE, "it never shows {texts:?}: {}", self.shown);
            let length = self.out.read(&mut piece).expect("it is ours");
            assert!(length > 0, "it ended before it showed {texts:?}: {}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    }

    fn press(&mut self, key: &[u8]) {
        self.keys.write_all(key).expect("it listens");
    }

    fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(&self.pid.0).expect("the shell has written it");
        let sent = Command::new("kill").args([&format!("-{name}"), pid.trim()]).status().expect("there is a kill");
        assert!(sent.success(), "it runs");
    }

    /// Writes to the terminal once the command has stopped.
    fn write_when_stopped(&self, text: &str) {
        let pid = std::fs::read_to_string(&self.pid.0).expect("the shell has written it");
        let (process, start) = (format!("/proc/{}", pid.trim()), Instant::now());
        let is_stopped = || std::fs::read_to_string(format!("{process}/stat")).is_ok_and(|stat| stat.contains(") T "));
        while !is_stopped() {
            assert!(start.elapsed() < PATIENCE, "it never stops");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let terminal = std::fs::OpenOptions::new().write(true).open(format!("{process}/fd/1"));
        terminal.and_then(|mut terminal| terminal.write_all(text.as_bytes())).expect("it has a terminal");
    }

    /// Continues the command, and `script`, which stops with it. Repeats the signal until `done`,
    /// because `script` stops some time after the command.
    fn resume(&self, done: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
        let done = Arc::clone(done);
        let pid = std::fs::read_to_string(&self.pid.0).expect("the shell has written it");
        let pids = [self.process.id().to_string(), pid.trim().to_owned()];
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(100));
                let _ = Command::new("kill").arg("-CONT").args(&pids).status();
            }
        })
    }

    /// Waits for a clean exit, and returns all output.
    fn end(mut self) -> String {
        let mut rest = Vec::new();
        self.out.read_to_end(&mut rest).expect("it is ours");
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        let status = self.process.wait().expect("it is our child");
        assert!(status.success(), "{status}: {}", self.shown);
        self.shown
    }
}

const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?25h\x1b[?1049l";

#[test]
fn a_terminal_shows_a_picture_and_is_given_back_however_the_command_ends() {
    // Ctrl-C and Ctrl-\ as typed; the terminal turns them into signals.
    for end in [&b"\x03"[..], b"\x1c", b"HUP"] {
        let Some(mut terminal) = Terminal::start("xterm") else { return };
        terminal.until_it_shows(&["ready https://127.0.0.1:", "CONTROLLERS", "service-accounts", "pods"]);
        if end == b"HUP" {
            terminal.signal("HUP");
        } else {
            terminal.press(end);
        }
        let shown = terminal.end();
        let (taken, given) = (shown.find(TAKEN), shown.rfind(GIVEN_BACK));
        assert!(taken.is_some() && taken < given, "the terminal is as it was");
        assert!(!shown[given.unwrap_or_default()..].contains("CONTROLLERS"));
    }
}

#[test]
fn a_suspended_command_restores_the_terminal_until_it_continues() {
    let Some(mut terminal) = Terminal::start("xterm") else { return };
    terminal.until_it_shows(&["CONTROLLERS"]);
    terminal.press(b"\x1a");
    terminal.write_when_stopped("from the shell");
    let done = Arc::new(AtomicBool::new(false));
    let resuming = terminal.resume(&done);
    terminal.until_it_shows(&[TAKEN]);
    terminal.until_it_shows(&["CONTROLLERS"]);
    done.store(true, Ordering::Relaxed);
    resuming.join().expect("it only sends signals");
    terminal.press(b"\x03");
    let shown = terminal.end();
    let stopped = shown.find("from the shell");
    assert!(shown.find(GIVEN_BACK) < stopped && stopped < shown.rfind(TAKEN), "it has the terminal only while it runs");
    assert!(shown.rfind(TAKEN) < shown.rfind(GIVEN_BACK), "the terminal is as it was");
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let Some(mut terminal) = Terminal::start("dumb") else { return };
    terminal.until_it_shows(&["ready https://127.0.0.1:", "caches are complete"]);
    terminal.press(b"\x03");
    let shown = terminal.end();
    assert!(!shown.contains('\x1b'), "{shown:?}");
}
