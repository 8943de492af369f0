//! Log output: lines on standard error, or in the log pane of a [view](crate::up).

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use clap::Args;
use kubewright_core::Time;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Number of lines buffered for a view.
const KEPT: usize = 200;

/// The environment variable for the log level.
const VARIABLE: &str = "KUBEWRIGHT_LOG";

/// The log level.
#[derive(Debug, Clone, Copy, Args)]
pub struct Verbosity {
    /// Prints only errors on standard error.
    #[arg(long, conflicts_with = "verbose")]
    quiet: bool,
    /// Prints more: once for details, twice for everything. `KUBEWRIGHT_LOG` (off, error, warn,
    /// info, debug, trace) sets the level too.
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Verbosity {
    /// The level for a verbosity of klog, the log of Go's commands.
    pub fn of_klog(level: i64) -> Self {
        let verbose = match level {
            ..=3 => 0,
            4..=7 => 1,
            _ => 2,
        };
        Verbosity { quiet: false, verbose }
    }

    /// Whether only errors are printed.
    pub fn is_quiet(self) -> bool {
        self.quiet
    }

    fn level(self) -> LevelFilter {
        let wished = std::env::var(VARIABLE).ok().and_then(|level| level.parse().ok());
        match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => wished.unwrap_or(LevelFilter::INFO),
            (false, 1) => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }

    /// Starts printing.
    pub fn start(self) {
        // Fails only if there is another subscriber, which then stays.
        let _ = tracing::subscriber::set_global_default(subscriber(self.level()));
        if let Ok(level) = std::env::var(VARIABLE)
            && level.parse::<LevelFilter>().is_err()
        {
            tracing::warn!("{VARIABLE} is {level:?}, which is none of off, error, warn, info, debug and trace");
        }
    }
}

/// Lines buffered for a view; `None` while they go to standard error.
fn kept() -> MutexGuard<'static, Option<VecDeque<String>>> {
    static KEPT: OnceLock<Mutex<Option<VecDeque<String>>>> = OnceLock::new();
    KEPT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers lines from now on, instead of printing them.
pub fn keep() {
    kept().get_or_insert_default();
}

/// The last buffered lines.
pub fn last(count: usize) -> Vec<String> {
    let kept = kept();
    let Some(lines) = kept.as_ref() else { return Vec::new() };
    lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
}

/// Prints lines again, first the buffered warnings and errors.
pub fn release() {
    let lines = kept().take().unwrap_or_default();
    let matters = |line: &String| line.contains(" WARN ") || line.contains(" ERROR ");
    lines.into_iter().filter(matters).for_each(|line| say(&line));
}

/// Prints or buffers a line.
pub fn say(line: &str) {
    if let Some(lines) = kept().as_mut() {
        if lines.len() >= KEPT {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
        return;
    }
    // A closed standard error is ignored.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The time of the day, in UTC.
pub fn clock(time: Time) -> String {
    let mut buffer = [0; Time::TEXT_LENGTH];
    time.encode(&mut buffer).get(11..19).unwrap_or_default().to_owned()
}

/// Writes lines of our own crates, up to this level.
fn subscriber(level: LevelFilter) -> impl Subscriber + Send + Sync {
    tracing_subscriber::registry().with(Targets::new().with_target("kubewright", level)).with(LineLayer)
}

/// Writes each event as a line. Spans are not shown.
struct LineLayer;

impl<S: Subscriber> Layer<S> for LineLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let (time, level) = (clock(Time::now()), event.metadata().level());
        say(&format!("{time} {level:5} {}{}", text.message, text.fields));
    }
}

/// The fields of an event as text, the message first.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let _ = write!(self.fields, " {}={:?}", field.name(), crate::failure::chain(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_message_its_fields_and_whole_causes() {
        let error = std::io::Error::other(std::io::Error::other("no disk"));
        keep();
        tracing::subscriber::with_default(subscriber(LevelFilter::INFO), || {
            tracing::info!(target: "kubewright_test", pods = 3, name = "web", cause = &error as &dyn std::error::Error, "scaled");
            tracing::debug!(target: "kubewright_test", "too fine");
            tracing::info!(target: "somebody", "else");
        });
        let lines = last(10);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with(" INFO  scaled pods=3 name=web cause=\"no disk\""), "{lines:?}");
    }
}
