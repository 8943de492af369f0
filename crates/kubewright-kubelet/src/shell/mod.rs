//! A small shell, which plays the programs of simulated containers.
//!
//! It has two clocks. With [`ShellClock::Virtual`] it never waits: it computes what a container
//! does and when, for its lifecycle and its logs. With [`ShellClock::Real`] it runs the commands of
//! `kubectl exec` and `attach`. The commands of a pipe run one after the other.
//!
//! Commands that it does not know end a virtual run, since nobody knows what they would do. In a
//! real run they are not found.

mod builtins;
mod expansion;
mod streams;
mod syntax;
mod tar;
mod text;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::Time;

pub use streams::{Buffer, Input, Output, Recording, Streams};
use syntax::{List, parse};

use crate::files::{Files, resolve};
use syntax::{Command, CommandKind, Connector, Pipeline, Redirect};

/// The status of a command that is not found.
pub(crate) const NOT_FOUND: i32 = 127;
/// The status of a shell that cannot read its script.
const SYNTAX: i32 = 2;
/// The status of a command that was killed.
const KILLED: i32 = 128 + 9;

/// A running shell.
#[derive(Debug, Clone)]
pub struct Shell {
    variables: BTreeMap<String, String>,
    /// The working directory.
    folder: String,
    files: Arc<Mutex<Files>>,
    clock: ShellClock,
    /// Time since the start.
    elapsed: Duration,
    /// How many commands it may still run.
    steps: u32,
    /// The status of the last command.
    status: i32,
    /// Nesting of shells and substitutions.
    depth: usize,
    /// Whether a failed command ends the script: `set -e`.
    exits_on_error: bool,
    /// Nesting of conditions, in which commands may fail.
    conditions: u32,
}

/// How a shell waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ShellClock {
    /// It does not wait, and stops after this time.
    Virtual {
        /// When it started.
        start: Time,
        /// The time that it plays.
        until: Duration,
    },
    /// It waits, this many times longer than told.
    Real {
        /// The slowdown of its node.
        slowdown: f64,
    },
}

/// Why a list of commands ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interrupt {
    /// By `exit`, or because it was killed.
    Exit(i32),
    /// By `break`, out of this many loops.
    Break(u32),
    /// By `continue`, of the loop this many levels up.
    Continue(u32),
    /// The time or the number of commands of a virtual run is used up.
    Limit,
    /// A virtual run has come to a command that is not known.
    Unknown,
}

/// Maximum nesting of shells and substitutions in each other.
const DEPTH_MAX: usize = 16;
/// How many commands run in a row without a pause for other tasks.
const STEPS_PER_TURN: u32 = 64;

type Running<'a> = Pin<Box<dyn Future<Output = Result<i32, Interrupt>> + Send + 'a>>;

impl Shell {
    /// A shell over these files that runs at most `steps` commands.
    pub fn new(files: Arc<Mutex<Files>>, variables: BTreeMap<String, String>, clock: ShellClock, steps: u32) -> Self {
        let folder = "/".to_owned();
        Shell {
            variables,
            folder,
            files,
            clock,
            elapsed: Duration::ZERO,
            steps,
            status: 0,
            depth: 0,
            exits_on_error: false,
            conditions: 0,
        }
    }

    /// Sets the working directory.
    #[must_use]
    pub fn in_folder(mut self, folder: &str) -> Self {
        self.folder = resolve("/", folder);
        self
    }

    /// The time since the start of a virtual run.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Whether a command is known.
    pub fn knows(command: &str) -> bool {
        builtins::NAMES.contains(&builtins::plain_name(command))
    }

    /// Runs a command with its arguments. Returns its status.
    ///
    /// # Errors
    /// Why it ended otherwise.
    pub async fn run(&mut self, arguments: &[String], streams: &Streams) -> Result<i32, Interrupt> {
        match self.execute(arguments, streams).await {
            Err(Interrupt::Exit(status)) => Ok(status),
            result => result,
        }
    }

    /// Runs an interactive shell until its input ends.
    ///
    /// # Errors
    /// Why it ended otherwise.
    pub async fn interact(&mut self, streams: &Streams) -> Result<i32, Interrupt> {
        loop {
            let prompt = format!("{} # ", self.folder);
            streams.output.write(self.elapsed, prompt).await?;
            let Some(line) = streams.input.line().await else { return Ok(self.status) };
            match self.script(&String::from_utf8_lossy(&line), streams).await {
                Ok(status) => self.status = status,
                Err(Interrupt::Exit(status)) => return Ok(status),
                Err(Interrupt::Break(_) | Interrupt::Continue(_)) => {}
                Err(other) => return Err(other),
            }
        }
    }

    /// Runs a script.
    pub(crate) async fn script(&mut self, script: &str, streams: &Streams) -> Result<i32, Interrupt> {
        match parse(script) {
            Ok(list) => self.list(&list, streams).await,
            Err(_) if self.is_virtual() => Err(Interrupt::Unknown),
            Err(error) => {
                self.complain(streams, &format!("sh: syntax error: {error}")).await?;
                Ok(SYNTAX)
            }
        }
    }

    fn is_virtual(&self) -> bool {
        matches!(self.clock, ShellClock::Virtual { .. })
    }

    /// The current time.
    fn now(&self) -> Time {
        match self.clock {
            ShellClock::Virtual { start, .. } => start.checked_add(self.elapsed).unwrap_or(start),
            ShellClock::Real { .. } => kubewright_net::clock::now(),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(&self, path: &str) -> String {
        resolve(&self.folder, path)
    }

    async fn print(&self, streams: &Streams, text: impl Into<bytes::Bytes>) -> Result<(), Interrupt> {
        streams.output.write(self.elapsed, text).await
    }

    async fn complain(&self, streams: &Streams, line: &str) -> Result<(), Interrupt> {
        streams.error.write(self.elapsed, format!("{line}\n")).await
    }

    async fn sleep(&mut self, time: Duration) -> Result<(), Interrupt> {
        match self.clock {
            ShellClock::Virtual { until, .. } => {
                self.elapsed = self.elapsed.saturating_add(time);
                if self.elapsed > until { Err(Interrupt::Limit) } else { Ok(()) }
            }
            ShellClock::Real { slowdown } => {
                let time = Duration::try_from_secs_f64(time.as_secs_f64() * slowdown).unwrap_or(Duration::MAX);
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    /// Counts a command.
    async fn step(&mut self) -> Result<(), Interrupt> {
        let Some(left) = self.steps.checked_sub(1) else {
            return Err(if self.is_virtual() { Interrupt::Limit } else { Interrupt::Exit(KILLED) });
        };
        self.steps = left;
        if !self.is_virtual() && left.is_multiple_of(STEPS_PER_TURN) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn list<'a>(&'a mut self, list: &'a List, streams: &'a Streams) -> Running<'a> {
        Box::pin(async move {
            let mut status = 0;
            for (index, (connector, pipeline)) in list.iter().enumerate() {
                let is_due = match connector {
                    Connector::Then => true,
                    Connector::And => status == 0,
                    Connector::Or => status != 0,
                };
                if !is_due {
                    continue;
                }
                status = self.pipeline(pipeline, streams).await?;
                self.status = status;
                let is_last = list.get(index + 1).is_none_or(|(next, _)| *next == Connector::Then);
                if status != 0 && self.exits_on_error && self.conditions == 0 && is_last && !pipeline.is_negated {
                    return Err(Interrupt::Exit(status));
                }
            }
            Ok(status)
        })
    }

    async fn pipeline(&mut self, pipeline: &Pipeline, streams: &Streams) -> Result<i32, Interrupt> {
        let (last, before) = pipeline.commands.split_last().expect("a pipeline has a command");
        let mut streams = streams.clone();
        for command in before {
            let buffer = Buffer::default();
            let piped = Streams { output: Output::Buffer(buffer.clone()), ..streams.clone() };
            self.subshell(async |shell| shell.command(command, &piped).await).await?;
            streams.input = Input::of(buffer.take());
        }
        let status = if before.is_empty() {
            self.command(last, &streams).await?
        } else {
            self.subshell(async |shell| shell.command(last, &streams).await).await?
        };
        Ok(if pipeline.is_negated { i32::from(status == 0) } else { status })
    }

    /// Runs commands that may fail, and returns whether they succeeded.
    async fn holds(&mut self, condition: &List, streams: &Streams) -> Result<bool, Interrupt> {
        self.conditions += 1;
        let status = self.list(condition, streams).await;
        self.conditions -= 1;
        Ok(status? == 0)
    }

    /// Runs commands with variables and a working directory of their own.
    async fn subshell(
        &mut self,
        commands: impl AsyncFnOnce(&mut Shell) -> Result<i32, Interrupt>,
    ) -> Result<i32, Interrupt> {
        let variables = self.variables.clone();
        let (folder, exits_on_error) = (self.folder.clone(), self.exits_on_error);
        let result = commands(self).await;
        self.variables = variables;
        (self.folder, self.exits_on_error) = (folder, exits_on_error);
        match result {
            Err(Interrupt::Exit(status)) => Ok(status),
            Err(Interrupt::Break(_) | Interrupt::Continue(_)) => Ok(0),
            result => result,
        }
    }

    async fn command(&mut self, command: &Command, streams: &Streams) -> Result<i32, Interrupt> {
        self.step().await?;
        let mut streams = streams.clone();
        let mut written = Vec::new();
        for redirect in &command.redirects {
            if let Err(message) = self.redirect(redirect, &mut streams, &mut written).await? {
                self.complain(&streams, &format!("sh: {message}")).await?;
                return Ok(1);
            }
        }
        let result = self.command_kind(&command.kind, &streams).await;
        for (path, appends, buffer) in written {
            if let Err(message) = self.write_file(&path, appends, buffer.take()) {
                self.complain(&streams, &format!("sh: can't create {path}: {message}")).await?;
                return Ok(1);
            }
        }
        result
    }

    /// Applies a redirection. The inner error is a message for the user.
    async fn redirect(
        &mut self,
        redirect: &Redirect,
        streams: &mut Streams,
        written: &mut Vec<(String, bool, Buffer)>,
    ) -> Result<Result<(), String>, Interrupt> {
        match redirect {
            Redirect::Input(file) => {
                let path = self.one_word(file, streams).await?;
                if path == "/dev/null" {
                    streams.input = Input::of("");
                    return Ok(Ok(()));
                }
                let read = self.files().read(&self.resolve(&path));
                match read {
                    Ok(content) => streams.input = Input::of(content),
                    Err(message) => return Ok(Err(format!("can't open {path}: {message}"))),
                }
            }
            Redirect::Output { descriptor, file, appends } => {
                let path = self.one_word(file, streams).await?;
                let output = match path.as_str() {
                    "/dev/null" => Output::Null,
                    "/dev/stdout" | "/proc/1/fd/1" => streams.output.clone(),
                    "/dev/stderr" | "/proc/1/fd/2" => streams.error.clone(),
                    _ => {
                        let (path, buffer) = (self.resolve(&path), Buffer::default());
                        written.push((path, *appends, buffer.clone()));
                        Output::Buffer(buffer)
                    }
                };
                *(if *descriptor == 1 { &mut streams.output } else { &mut streams.error }) = output;
            }
            Redirect::Duplicate { descriptor: 1, to: 2 } => streams.output = streams.error.clone(),
            Redirect::Duplicate { descriptor: 2, to: 1 } => streams.error = streams.output.clone(),
            Redirect::Duplicate { .. } => {}
        }
        Ok(Ok(()))
    }

    fn write_file(&self, path: &str, appends: bool, content: Vec<u8>) -> Result<(), &'static str> {
        let mut files = self.files();
        let before = if appends { files.read(path).unwrap_or_default() } else { bytes::Bytes::new() };
        let content = if before.is_empty() { content } else { [&before[..], &content].concat() };
        files.write(path, content.into(), 0o644)
    }

    async fn command_kind(&mut self, kind: &CommandKind, streams: &Streams) -> Result<i32, Interrupt> {
        match kind {
            CommandKind::Simple { assignments, words } => {
                let mut values = Vec::new();
                for (name, value) in assignments {
                    values.push((name.clone(), self.one_word(value, streams).await?));
                }
                let arguments = self.words(words, streams).await?;
                if arguments.is_empty() {
                    self.variables.extend(values);
                    return Ok(if words.is_empty() { 0 } else { self.status });
                }
                if values.is_empty() {
                    return self.execute(&arguments, streams).await;
                }
                let variables = self.variables.clone();
                self.variables.extend(values);
                let result = self.execute(&arguments, streams).await;
                self.variables = variables;
                result
            }
            CommandKind::Group(list) => self.list(list, streams).await,
            CommandKind::Subshell(list) => self.subshell(async |shell| shell.list(list, streams).await).await,
            CommandKind::If(branches, otherwise) => {
                for (condition, list) in branches {
                    if self.holds(condition, streams).await? {
                        return self.list(list, streams).await;
                    }
                }
                self.list(otherwise, streams).await
            }
            CommandKind::While { condition, is_until, body } => {
                let mut status = 0;
                loop {
                    self.step().await?;
                    if self.holds(condition, streams).await? == *is_until {
                        return Ok(status);
                    }
                    match after_round(self.list(body, streams).await) {
                        Ok(Some(of_round)) => status = of_round,
                        Ok(None) => return Ok(0),
                        Err(interrupt) => return Err(interrupt),
                    }
                }
            }
            CommandKind::For(name, words, body) => {
                let mut status = 0;
                for word in self.words(words, streams).await? {
                    self.step().await?;
                    self.variables.insert(name.clone(), word);
                    match after_round(self.list(body, streams).await) {
                        Ok(Some(of_round)) => status = of_round,
                        Ok(None) => return Ok(0),
                        Err(interrupt) => return Err(interrupt),
                    }
                }
                Ok(status)
            }
        }
    }

    /// Runs a command that may be a shell.
    fn execute<'a>(&'a mut self, arguments: &'a [String], streams: &'a Streams) -> Running<'a> {
        Box::pin(async move {
            if self.depth >= DEPTH_MAX {
                self.complain(streams, "sh: too many nested shells").await?;
                return Ok(SYNTAX);
            }
            self.depth += 1;
            let result = builtins::run(self, arguments, streams).await;
            self.depth -= 1;
            result
        })
    }
}

/// Decides how a loop continues: with this status, not at all (`None`), or in an outer loop.
fn after_round(round: Result<i32, Interrupt>) -> Result<Option<i32>, Interrupt> {
    match round {
        Ok(status) => Ok(Some(status)),
        Err(Interrupt::Break(0 | 1)) => Ok(None),
        Err(Interrupt::Continue(0 | 1)) => Ok(Some(0)),
        Err(Interrupt::Break(levels)) => Err(Interrupt::Break(levels - 1)),
        Err(Interrupt::Continue(levels)) => Err(Interrupt::Continue(levels - 1)),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests;
