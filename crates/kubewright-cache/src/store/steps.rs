//! Changes of a store taken apart, so that they can be played again on another copy of it.
//!
//! Keys are looked up and index functions asked once, when a change is made: played again, a step knows its slot, calls nobody's
//! code and gives the same.

use std::sync::Arc;

use kubewright_core::{Object, Str};

use super::marks::Marks;
use super::state::State;
use super::versions::Versions;

/// After so many steps it is cheaper to begin with a new copy, and old objects should not be held until the next write.
const LIMIT: usize = 512;

/// One change of a state.
pub(super) enum Step<T> {
    /// An object that was not there, its key has this hash, takes a slot.
    Add {
        hash: u32,
        slot: u32,
        object: Arc<T>,
    },
    /// An object takes the place of the one with its key.
    Set {
        slot: u32,
        object: Arc<T>,
    },
    Remove {
        hash: u32,
        slot: u32,
    },
    Enter {
        index: usize,
        value: Str,
        slot: u32,
    },
    Leave {
        index: usize,
        value: Str,
        slot: u32,
    },
}

impl<T> Clone for Step<T> {
    fn clone(&self) -> Self {
        match self {
            Step::Add { hash, slot, object } => Step::Add { hash: *hash, slot: *slot, object: object.clone() },
            Step::Set { slot, object } => Step::Set { slot: *slot, object: object.clone() },
            Step::Remove { hash, slot } => Step::Remove { hash: *hash, slot: *slot },
            Step::Enter { index, value, slot } => Step::Enter { index: *index, value: value.clone(), slot: *slot },
            Step::Leave { index, value, slot } => Step::Leave { index: *index, value: value.clone(), slot: *slot },
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

    /// Replays all steps on a copy of the state before them, and returns the empty list for reuse.
    /// Versions and marks are those of the state after the last step of all logs.
    pub(super) fn replay(self, state: &mut State<T>, versions: &Versions, marks: &Marks) -> Vec<Step<T>> {
        let mut steps = self.steps.unwrap_or_default();
        steps.drain(..).for_each(|step| drop(state.apply(self.write, step)));
        state.versions.clone_from(versions);
        state.marks.clone_from(marks);
        steps
    }
}

impl<T: Object> State<T> {
    fn apply(&mut self, write: u64, step: Step<T>) -> Option<Arc<T>> {
        match step {
            Step::Add { hash, slot, object } => {
                self.table.add(hash, slot);
                self.slots.add(write, slot, object);
                None
            }
            Step::Set { slot, object } => self.slots.set(write, slot, object),
            Step::Remove { hash, slot } => {
                self.table.remove(hash, slot);
                self.slots.remove(write, slot)
            }
            Step::Enter { index, value, slot } => {
                self.indices[index].buckets.enter(value, slot);
                None
            }
            Step::Leave { index, value, slot } => {
                self.indices[index].buckets.leave(&value, slot);
                None
            }
        }
    }
}
