//! What handlers were told last, kept until they are through with it.
//!
//! An update takes dozens of allocations for the new object and gives as many back for the old one. Whoever lets go of
//! it last gives them back: if that is the task of a handler, on another thread, an allocator has to carry them home again, at twice
//! what an update costs otherwise. So the informer lets go last, in the task that decodes, unless a handler lags: of one object
//! for each that comes, since the few pieces that an allocator keeps at hand for a thread are then those that the next object takes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::Batch;

/// Batches that are kept. A handler that keeps up is through with one long before.
const KEPT: usize = 16;
/// Batches of more events are not: they are lists, and what they hold is held by the store.
const LARGEST: usize = 64;

#[derive(Default)]
pub(super) struct Told {
    batches: VecDeque<Arc<dyn Batch>>,
    /// The oldest one, if nobody else has it.
    leaving: Option<Arc<dyn Batch>>,
}

impl Told {
    /// Keeps these events in place of the oldest. Lets go of all if there are none, as with a bookmark, which comes while it is quiet.
    pub(super) fn keep(&mut self, events: Arc<dyn Batch>) {
        match events.count() {
            0 => *self = Told::default(),
            1..=LARGEST => {
                self.batches.push_back(events);
                if self.batches.len() > KEPT {
                    let oldest = self.batches.pop_front();
                    self.leaving = oldest.filter(|batch| Arc::strong_count(batch) == 1);
                }
            }
            _ => {}
        }
    }

    /// Lets go of one of the oldest events.
    pub(super) fn let_go(&mut self) {
        if let Some(batch) = self.leaving.as_mut().and_then(Arc::get_mut) {
            batch.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::event::Event;

    fn update(old: &Arc<u32>) -> Arc<dyn Batch> {
        Arc::new(vec![Event::Updated { old: old.clone(), new: Arc::new(0) }])
    }

    #[test]
    fn what_was_replaced_is_let_go_of_when_others_were_or_when_it_is_quiet() {
        let (mut told, first, last) = (Told::default(), Arc::new(1), Arc::new(2));
        told.keep(update(&first));
        (1..KEPT).for_each(|_| told.keep(update(&last)));
        assert_eq!(Arc::strong_count(&first), 2);
        told.keep(update(&last));
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (2, KEPT + 1));
        told.let_go();
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (1, KEPT + 1));
        told.keep(update(&last));
        told.keep(update(&last));
        assert_eq!(Arc::strong_count(&last), KEPT + 2, "those that nobody let go of go with the next batch");
        told.keep(Arc::new(Vec::<Event<u32>>::new()));
        assert_eq!(Arc::strong_count(&last), 1);
    }

    #[test]
    fn lists_are_not_kept() {
        let (mut told, old) = (Told::default(), Arc::new(1));
        let events = (0..=LARGEST).map(|_| Event::Updated { old: old.clone(), new: Arc::new(0) });
        told.keep(Arc::new(events.collect::<Vec<_>>()));
        assert_eq!(Arc::strong_count(&old), 1);
    }
}
