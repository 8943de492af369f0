//! What the demo tells, wherever that is shown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Lines of a story. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Story {
    lines: Arc<Mutex<Vec<Line>>>,
    is_live: bool,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A step begins.
    Step(String),
    /// Something is explained.
    Told(String),
    /// Something was seen to happen.
    Seen(String),
}

impl Story {
    /// A story for a view if `is_live`, else for standard error.
    pub fn new(is_live: bool) -> Self {
        Story { lines: Arc::default(), is_live }
    }

    /// Begins a step, after a pause in which people can read where there are any.
    pub async fn step(&self, text: impl Into<String>) {
        if self.is_live && !self.last(1).is_empty() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        self.add(Line::Step(text.into()));
    }

    /// Explains.
    pub fn tell(&self, text: impl Into<String>) {
        self.add(Line::Told(text.into()));
    }

    /// Says what was seen.
    pub fn seen(&self, text: impl Into<String>) {
        self.add(Line::Seen(text.into()));
    }

    /// The last lines.
    pub fn last(&self, count: usize) -> Vec<Line> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    fn add(&self, line: Line) {
        if !self.is_live {
            crate::log::say(&match &line {
                Line::Step(text) => format!("demo  == {text}"),
                Line::Told(text) => format!("demo     {text}"),
                Line::Seen(text) => format!("demo     -> {text}"),
            });
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
