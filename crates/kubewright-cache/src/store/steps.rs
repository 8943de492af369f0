//! Changes of a store taken apart, so that they can be played again on another copy of it.
//!
//! Index functions are asked once, when a change is made: played again, a step calls nobody's code and gives the same.

use std::sync::Arc;

use kubewright_core::{Object, ResourceVersion, Str};

use super::index::same_key;
use super::snapshot::State;

/// After so many steps it is cheaper to begin with a new copy, and old objects should not be held until the next write.
const LIMIT: usize = 512;

/// One change of one trie.
pub(super) enum Step<T> {
    Put { hash: u64, object: Arc<T> },
    Remove { hash: u64, object: Arc<T> },
    Enter { index: usize, value: Str, hash: u64, object: Arc<T> },
    Leave { index: usize, value: Str, hash: u64, object: Arc<T> },
}

impl<T> Clone for Step<T> {
    fn clone(&self) -> Self {
        match self {
            Step::Put { hash, object } => Step::Put { hash: *hash, object: object.clone() },
            Step::Remove { hash, object } => Step::Remove { hash: *hash, object: object.clone() },
            Step::Enter { index, value, hash, object } => {
                Step::Enter { index: *index, value: value.clone(), hash: *hash, object: object.clone() }
            }
            Step::Leave { index, value, hash, object } => {
                Step::Leave { index: *index, value: value.clone(), hash: *hash, object: object.clone() }
            }
        }
    }
}

/// What a transaction has done.
pub(super) struct Log<T> {
    /// The number of the write.
    pub(super) write: u64,
    /// None if there was too much, or something that is no step.
    steps: Option<Vec<Step<T>>>,
}

impl<T: Object> Log<T> {
    pub(super) fn new(write: u64, mut room: Vec<Step<T>>) -> Self {
        room.clear();
        Log { write, steps: Some(room) }
    }

    /// Changes `state` and remembers how.
    pub(super) fn apply(&mut self, state: &mut State<T>, step: Step<T>) -> Option<Arc<T>> {
        match &mut self.steps {
            Some(steps) if steps.len() < LIMIT => steps.push(step.clone()),
            steps => *steps = None,
        }
        state.apply(self.write, step)
    }

    /// Something is done that is no step.
    pub(super) fn give_up(&mut self) {
        self.steps = None;
    }

    pub(super) fn len(&self) -> usize {
        self.steps.as_ref().map_or(0, Vec::len)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.steps.is_some()
    }

    /// Plays all on a copy of the state from before; gives the list back to be used again.
    pub(super) fn replay(self, state: &mut State<T>, version: &ResourceVersion) -> Vec<Step<T>> {
        let mut steps = self.steps.unwrap_or_default();
        steps.drain(..).for_each(|step| drop(state.apply(self.write, step)));
        state.version.clone_from(version);
        steps
    }
}

impl<T: Object> State<T> {
    fn apply(&mut self, write: u64, step: Step<T>) -> Option<Arc<T>> {
        match step {
            Step::Put { hash, object } => {
                let key = object.clone();
                self.objects.insert(write, hash, object, |other| same_key(&**other, &*key))
            }
            Step::Remove { hash, object } => self.objects.remove(write, hash, |other| same_key(&**other, &*object)),
            Step::Enter { index, value, hash, object } => {
                self.indices[index].enter(self.hasher, write, hash, &value, object);
                None
            }
            Step::Leave { index, value, hash, object } => {
                self.indices[index].leave(self.hasher, write, hash, &value, &object);
                None
            }
        }
    }
}
