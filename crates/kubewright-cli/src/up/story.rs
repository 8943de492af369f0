//! The text of the demo.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The lines of the demo. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Story {
    lines: Arc<Mutex<Vec<StoryLine>>>,
    is_live: bool,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoryLine {
    /// The title of a step.
    Step(String),
    /// An explanation.
    Told(String),
    /// An observation.
    Seen(String),
}

impl Story {
    /// Lines for a view if `is_live`, else for standard error.
    pub fn new(is_live: bool) -> Self {
        Story { lines: Arc::default(), is_live }
    }

    /// Starts a step, in a view after a pause for reading.
    pub async fn step(&self, text: impl Into<String>) {
        if self.is_live && !self.last(1).is_empty() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        self.add(StoryLine::Step(text.into()));
    }

    /// Adds an explanation.
    pub fn tell(&self, text: impl Into<String>) {
        self.add(StoryLine::Told(text.into()));
    }

    /// Adds an observation.
    pub fn seen(&self, text: impl Into<String>) {
        self.add(StoryLine::Seen(text.into()));
    }

    /// The last lines.
    pub fn last(&self, count: usize) -> Vec<StoryLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    fn add(&self, line: StoryLine) {
        if !self.is_live {
            crate::log::say(&match &line {
                StoryLine::Step(text) => format!("demo  == {text}"),
                StoryLine::Told(text) => format!("demo     {text}"),
                StoryLine::Seen(text) => format!("demo     -> {text}"),
            });
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
