//! Contestants and servers as child processes, which are killed with the bench and have a timeout.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::json::Line;

/// Timeout of a contestant, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// Runs a program to its end and returns the lines of JSON that it printed.
pub fn lines(command: &mut Command) -> Result<Vec<Line>, String> {
    let name = format!("{command:?}");
    let mut child = Killed(command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{name}: {error}"))?);
    let mut output = child.0.stdout.take().expect("it is piped");
    let reading = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let start = Instant::now();
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
            Ok(None) => return Err(format!("{name}: not done after {} s", PATIENCE.as_secs())),
            Err(error) => return Err(format!("{name}: {error}")),
        }
    };
    if !status.success() {
        return Err(format!("{name}: {status}"));
    }
    let text = reading.join().expect("no panic").map_err(|error| format!("{name}: {error}"))?;
    Ok(text.lines().filter_map(Line::parse).collect())
}

/// Runs a program that prints a single line of JSON.
pub fn line(command: &mut Command) -> Result<Line, String> {
    let name = format!("{command:?}");
    lines(command)?.pop().ok_or_else(|| format!("{name}: printed no JSON"))
}

/// A process, killed on drop.
pub struct Background {
    child: Killed,
}

impl Background {
    /// Starts a program and discards its output.
    pub fn start(command: &mut Command) -> Result<Background, String> {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Background { child: Killed(spawned.map_err(|error| format!("{command:?}: {error}"))?) })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Its memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.id())).unwrap_or_default();
        statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0 / 1048576.0
    }

    /// Its CPU time in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        ticks(&format!("/proc/{}/stat", self.child.0.id()), 11)
    }
}

/// A server that prints its address; killed on drop.
pub struct Server {
    pub process: Background,
    /// The first line that it printed.
    pub greeting: String,
    /// Time from the start until that line.
    pub took: Duration,
}

impl Server {
    /// Starts a server and waits for its first line.
    pub fn start(command: &mut Command) -> Result<Server, String> {
        let (name, start) = (format!("{command:?}"), Instant::now());
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = Killed(spawned.map_err(|error| format!("{name}: {error}"))?);
        let mut lines = BufReader::new(child.0.stdout.take().expect("it is piped")).lines();
        let greeting = lines.next().and_then(Result::ok).ok_or_else(|| format!("{name}: ended without a word"))?;
        let took = start.elapsed();
        // Drains its output, so that it never blocks on the pipe.
        thread::spawn(move || lines.for_each(drop));
        Ok(Server { process: Background { child }, greeting, took })
    }

    /// The word of the greeting that is a URL.
    pub fn url(&self) -> Result<String, String> {
        let url = self.greeting.split_whitespace().find(|word| word.starts_with("http"));
        url.map(str::to_owned).ok_or_else(|| format!("no URL in {:?}", self.greeting))
    }
}

/// Writes a kubeconfig without certificate verification. An empty token means none.
pub fn write_kubeconfig(path: &Path, url: &str, token: &str) -> Result<(), String> {
    let insecure = if url.starts_with("https") { ", insecure-skip-tls-verify: true" } else { "" };
    let user = if token.is_empty() { String::new() } else { format!("token: {token}") };
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"{url}\"{insecure}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    );
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// CPU seconds of all children that have ended, theirs included.
pub fn children_cpu_seconds() -> f64 {
    ticks("/proc/self/stat", 13)
}

/// User and system time, from this field after the name in parentheses on, in the kernel's
/// hundredths of a second.
fn ticks(file: &str, field: usize) -> f64 {
    let stat = fs::read_to_string(file).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(field).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Ends its process when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
