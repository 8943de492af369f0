//! Processes of the command, and their output.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use kubewright_client::config::{LoadingRules, Overrides};
use kubewright_client::{Client, Config};

/// A generous timeout for a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A temporary file or folder, removed on drop.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(what: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kubewright-{what}-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A long-running process; killed on drop.
pub struct Serving {
    process: Child,
    pub line: String,
    out: BufReader<std::process::ChildStdout>,
    said: Receiver<String>,
}

impl Serving {
    /// Starts the command, and waits for its first line.
    pub fn start(arguments: &[&str]) -> Self {
        Self::begin(arguments).wait_for_line()
    }

    /// The same, after `ulimit` with these arguments.
    pub fn start_with_limit(limit: &str, arguments: &[&str]) -> Self {
        let limited = format!(r#"ulimit {limit}; exec "$0" "$@""#);
        let mut shell = Command::new("sh");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_kubewright")]);
        Self::spawn(shell, arguments).wait_for_line()
    }

    fn wait_for_line(mut self) -> Self {
        self.out.read_line(&mut self.line).expect("it says where it serves");
        self
    }

    /// Starts the command without waiting for output.
    pub fn begin(arguments: &[&str]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_kubewright")), arguments)
    }

    /// Starts a prepared command, and waits for its first line.
    pub fn start_command(command: Command) -> Self {
        Self::spawn(command, &[]).wait_for_line()
    }

    /// Starts another program without waiting for output.
    pub fn program(program: &Path, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program), arguments)
    }

    /// Starts a prepared command without waiting for output.
    pub fn spawn(mut command: Command, arguments: &[&str]) -> Self {
        command.args(arguments).env_remove("KUBEWRIGHT_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the command was built");
        let out = BufReader::new(process.stdout.take().expect("piped"));
        let errors = BufReader::new(process.stderr.take().expect("piped"));
        let (sender, said) = channel();
        std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Serving { process, line: String::new(), out, said }
    }

    /// Waits for a line with this text on standard error, and returns all lines up to it.
    pub fn until_it_says(&self, text: &str) -> Vec<String> {
        let (start, mut lines) = (Instant::now(), Vec::new());
        loop {
            match self.said.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("it does not say {text:?} but {lines:#?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without saying {text:?}: {lines:#?}"),
            }
            if lines.last().is_some_and(|line| line.contains(text)) {
                return lines;
            }
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("there is a kill");
        assert!(sent.success(), "it runs");
    }

    /// Stops it, and returns its exit status and remaining output.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        let status = self.process.wait().expect("it is our child");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        (status, rest)
    }

    /// SIGKILL, which cannot be handled.
    pub fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `up` or `apiserver` on its own port, with a kubeconfig.
pub struct Cluster {
    pub serving: Serving,
    pub kubeconfig: Scratch,
}

impl Cluster {
    pub fn start(arguments: &[&str]) -> Self {
        let kubeconfig = Scratch::new("config");
        let place = ["--listen", "127.0.0.1:0", "--write-kubeconfig", kubeconfig.path()];
        let serving = Serving::start(&[arguments, &place].concat());
        assert!(serving.line.starts_with("ready http"), "{}", serving.line);
        Cluster { serving, kubeconfig }
    }

    pub fn client(&self) -> Client {
        let file = LoadingRules::explicit(&self.kubeconfig.0).load().expect("a kubeconfig");
        let config = Config::from_kubeconfig(&file, &Overrides::default()).expect("a whole one");
        Client::try_from(config).expect("a usable one")
    }
}

/// Runs the command to its end against a cluster.
pub fn kubewright(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig).output().expect("the command was built")
}

/// Waits until the condition holds.
pub async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
