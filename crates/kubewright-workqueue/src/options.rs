//! Options common to all queues.

use std::fmt;
use std::hash::Hash;

use crate::fairness::{GroupOf, numbered};
use crate::metrics::QueueMetrics;

/// Options of a queue. The default is a plain queue without a name, metrics or groups.
pub struct QueueOptions<T> {
    pub(crate) name: String,
    pub(crate) controller: Option<String>,
    pub(crate) metrics: Option<QueueMetrics>,
    pub(crate) group_of: Option<GroupOf<T>>,
}

impl<T> Default for QueueOptions<T> {
    fn default() -> Self {
        Self { name: String::new(), controller: None, metrics: None, group_of: None }
    }
}

impl<T> QueueOptions<T> {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the queue in metrics and views. Empty by default.
    ///
    /// A named queue records when keys were added and handed out, for views and metrics. A plain
    /// queue without a name records no times and is cheaper. Queues with priorities or groups
    /// always record them.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the label `controller`. The name of the queue by default.
    #[must_use]
    pub fn controller(mut self, controller: impl Into<String>) -> Self {
        self.controller = Some(controller.into());
        self
    }

    /// Exposes the queue in these metrics until it is dropped, if it has a name. Off by default.
    #[must_use]
    pub fn metrics(mut self, metrics: &QueueMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Hands out keys round-robin between groups, for example namespaces.
    ///
    /// In a priority queue, priorities decide within a group. Off by default. The function is
    /// called with the queue locked: it must be quick, must not panic, must not use the queue, and
    /// must always return the same group for a key.
    #[must_use]
    pub fn fair_by<G: Hash>(mut self, group_of: impl Fn(&T) -> G + Send + Sync + 'static) -> Self {
        self.group_of = Some(numbered(group_of));
        self
    }
}

impl<T> fmt::Debug for QueueOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("controller", &self.controller)
            .field("metrics", &self.metrics.is_some())
            .field("fair", &self.group_of.is_some())
            .finish()
    }
}
