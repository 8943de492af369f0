//! A server, and programs that use it.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kubewright::Client;
use kubewright::apiserver::{ApiServer, RunningServer};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How long a program may take to print a line, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An embedded server on a port of its own, and a folder in which programs run.
pub struct World {
    server: RunningServer,
    folder: PathBuf,
}

impl World {
    /// Starts a server with these objects.
    pub async fn with(objects: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = ApiServer::in_memory().preload(objects).listen(([127, 0, 0, 1], 0).into()).start().await;
        let server = server.expect("a port is free");
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kubewright-side-by-side-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder of our own");
        let world = World { server, folder };
        world.write("kubeconfig", &world.server.kubeconfig());
        world
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// Writes a file into the folder in which programs run.
    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).expect("a file of our own");
    }

    /// Runs a program until it ends, and returns its output.
    pub async fn run(&self, program: &str) -> String {
        self.run_with(program, &[]).await
    }

    /// Runs a program with arguments until it ends, and returns its output.
    pub async fn run_with(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program, arguments).output();
        let output = timeout(PATIENCE, output).await.expect("it ends").expect("it starts");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {printed}{errors}");
        printed
    }

    /// Starts a program that runs until it is stopped.
    pub fn start(&self, program: &str) -> Program {
        self.start_with(program, &[])
    }

    /// Starts a program with arguments that runs until it is stopped.
    pub fn start_with(&self, program: &str, arguments: &[&str]) -> Program {
        let mut process = self.command(program, arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Program { process, lines, unmatched: Vec::new() }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let ours = || env!("CARGO_BIN_EXE_side-by-side").into();
        let mut command = Command::new(std::env::var_os("SIDE_BY_SIDE_BINARY").unwrap_or_else(ours));
        command.args(arguments).env("SIDE_BY_SIDE", program).current_dir(&self.folder);
        command.env("KUBECONFIG", self.folder.join("kubeconfig")).env_remove("KUBERNETES_SERVICE_HOST");
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A running program, which is killed when this is dropped.
pub struct Program {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Printed lines that no test has expected yet.
    unmatched: Vec<String>,
}

impl Program {
    /// Waits until the program prints this line.
    pub async fn prints(&mut self, wanted: &str) {
        loop {
            if let Some(at) = self.unmatched.iter().position(|line| line == wanted) {
                self.unmatched.remove(at);
                return;
            }
            match timeout(PATIENCE, self.lines.next_line()).await {
                Ok(Ok(Some(line))) => self.unmatched.push(line),
                _ => panic!("it never prints {wanted:?}, but {:?}", self.unmatched),
            }
        }
    }

    /// Lines that were printed before the expected ones, and not expected themselves.
    pub fn unmatched(&self) -> &[String] {
        &self.unmatched
    }

    /// Stops the program with SIGTERM, and waits until it has ended without an error.
    pub async fn stop(mut self) {
        let id = self.process.id().expect("it is running").to_string();
        let sent = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &id]).status().await;
        assert!(sent.expect("a shell").success());
        let ended = timeout(PATIENCE, self.process.wait()).await.expect("it ends").expect("it was started");
        assert!(ended.success(), "{ended}");
    }
}
