//! Delays the deallocation of delivered objects until the reflector's task can do it.
//!
//! An update allocates dozens of blocks for the new object and frees as many of the old one. If a
//! handler's task drops the last reference on another thread, the allocator must return the blocks
//! to their home thread, which doubles the cost of an update. So the informer keeps recent batches
//! and drops them in the task that decodes, one object per new object, unless a handler lags: the
//! allocator can then reuse the freed blocks for the next object.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::Batch;

/// Number of retained batches. A handler that keeps up has processed a batch long before it is
/// dropped.
const RETAINED: usize = 16;
/// Larger batches are not retained: they are lists, whose objects are in the store anyway.
const LARGEST: usize = 64;

#[derive(Default)]
pub(super) struct RetainedBatches {
    batches: VecDeque<Arc<dyn Batch>>,
    /// The oldest batch, if it has no other owner.
    leaving: Option<Arc<dyn Batch>>,
}

impl RetainedBatches {
    /// Retains a batch in place of the oldest. An empty batch, such as a bookmark, drops all,
    /// because the watch is idle.
    pub(super) fn retain(&mut self, events: Arc<dyn Batch>) {
        match events.count() {
            0 => *self = RetainedBatches::default(),
            1..=LARGEST => {
                self.batches.push_back(events);
                if self.batches.len() > RETAINED {
                    let oldest = self.batches.pop_front();
                    self.leaving = oldest.filter(|batch| Arc::strong_count(batch) == 1);
                }
            }
            _ => {}
        }
    }

    /// Drops one event of the oldest batch.
    pub(super) fn drop_one(&mut self) {
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
    fn replaced_objects_are_freed_by_later_batches_or_when_idle() {
        let (mut retained, first, last) = (RetainedBatches::default(), Arc::new(1), Arc::new(2));
        retained.retain(update(&first));
        (1..RETAINED).for_each(|_| retained.retain(update(&last)));
        assert_eq!(Arc::strong_count(&first), 2);
        retained.retain(update(&last));
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (2, RETAINED + 1));
        retained.drop_one();
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (1, RETAINED + 1));
        retained.retain(update(&last));
        retained.retain(update(&last));
        assert_eq!(Arc::strong_count(&last), RETAINED + 2, "those that nobody let go of go with the next batch");
        retained.retain(Arc::new(Vec::<Event<u32>>::new()));
        assert_eq!(Arc::strong_count(&last), 1);
    }

    #[test]
    fn objects_of_a_list_are_not_retained() {
        let (mut retained, old) = (RetainedBatches::default(), Arc::new(1));
        let events = (0..=LARGEST).map(|_| Event::Updated { old: old.clone(), new: Arc::new(0) });
        retained.retain(Arc::new(events.collect::<Vec<_>>()));
        assert_eq!(Arc::strong_count(&old), 1);
    }
}
