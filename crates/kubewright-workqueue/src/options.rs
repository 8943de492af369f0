//! What can be chosen about a queue of any kind.

use std::fmt;
use std::hash::Hash;

use crate::fairness::{GroupOf, numbered};
use crate::metrics::Metrics;

/// Choices about a queue; the default is a plain queue without a name, metrics or groups.
pub struct Options<T> {
    pub(crate) name: String,
    pub(crate) controller: Option<String>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) group_of: Option<GroupOf<T>>,
}

impl<T> Default for Options<T> {
    fn default() -> Self {
        Self { name: String::new(), controller: None, metrics: None, group_of: None }
    }
}

impl<T> Options<T> {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the queue, in metrics and in views. Empty by default.
    ///
    /// A queue with a name keeps the times at which keys were added and handed out, which views and metrics show. A plain
    /// queue without one keeps none, and costs less; one with priorities or groups needs them, and keeps them as well.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Names the controller that the queue belongs to, for the label `controller`. The name of the queue by default.
    #[must_use]
    pub fn controller(mut self, controller: impl Into<String>) -> Self {
        self.controller = Some(controller.into());
        self
    }

    /// Shows the queue in these metrics while it lives, if it has a name. Off by default.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Lets groups of keys take turns, for example namespaces: each time one key of the group whose turn it is.
    ///
    /// With a priority queue, priorities decide within a group. Off by default. The function is called with the queue
    /// locked: it must be quick, must not panic, must not use the queue, and must give a key the same group each time.
    #[must_use]
    pub fn fair_by<G: Hash>(mut self, group_of: impl Fn(&T) -> G + Send + Sync + 'static) -> Self {
        self.group_of = Some(numbered(group_of));
        self
    }
}

impl<T> fmt::Debug for Options<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("controller", &self.controller)
            .field("metrics", &self.metrics.is_some())
            .field("fair", &self.group_of.is_some())
            .finish()
    }
}
