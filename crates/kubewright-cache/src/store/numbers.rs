//! A set of slot numbers, in order, whose copy costs nothing and shares all that stays the same.
//!
//! Most sets are very small or change at their end: up to three numbers lie inline, more in one run, many in several.

use std::sync::Arc;

/// Numbers that need no allocation.
const FEW: usize = 3;
/// A run with more numbers becomes two.
const RUN: usize = 512;

type Run = Arc<Vec<u32>>;

/// A sorted set. Cloning is O(1).
#[derive(Clone)]
pub(super) enum Numbers {
    /// How many, and which; the rest means nothing.
    Few(u8, [u32; FEW]),
    One(Run),
    Many(Arc<Runs>),
}

/// Invariant: there are two or more runs, none is empty, all numbers of a run are smaller than those of the next, and there are `len` in all.
#[derive(Clone)]
pub(super) struct Runs {
    len: usize,
    runs: Vec<Run>,
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Few(0, [0; FEW])
    }
}

impl Numbers {
    pub(super) fn len(&self) -> usize {
        match self {
            Numbers::Few(count, _) => usize::from(*count),
            Numbers::One(run) => run.len(),
            Numbers::Many(many) => many.len,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest.
    pub(super) fn first(&self) -> Option<u32> {
        self.parts().next()?.first().copied()
    }

    /// The largest.
    pub(super) fn last(&self) -> Option<u32> {
        match self {
            Numbers::Few(count, few) => few[..usize::from(*count)].last().copied(),
            Numbers::One(run) => run.last().copied(),
            Numbers::Many(many) => many.runs.last()?.last().copied(),
        }
    }

    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        let part = match self {
            Numbers::Few(count, few) => &few[..usize::from(*count)],
            Numbers::One(run) => run,
            Numbers::Many(many) => &many.runs[many.run_of(number)],
        };
        part.binary_search(&number).is_ok()
    }

    /// All numbers in order: the first part, and the parts after it.
    #[inline]
    pub(super) fn split(&self) -> (&[u32], &[Arc<Vec<u32>>]) {
        match self {
            Numbers::Few(count, few) => (&few[..usize::from(*count)], &[]),
            Numbers::One(run) => (run, &[]),
            Numbers::Many(many) => (&[], &many.runs),
        }
    }

    /// All numbers in order, as slices.
    #[inline]
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u32]> {
        let (first, rest) = self.split();
        std::iter::once(first).chain(rest.iter().map(|run| run.as_slice())).filter(|part| !part.is_empty())
    }

    pub(super) fn insert(&mut self, number: u32) {
        match self {
            Numbers::Few(count, few) => {
                let len = usize::from(*count);
                let Err(at) = few[..len].binary_search(&number) else { return };
                if len == FEW {
                    let mut run = few.to_vec();
                    run.insert(at, number);
                    *self = Numbers::One(Arc::new(run));
                    return;
                }
                few.copy_within(at..len, at + 1);
                few[at] = number;
                *count += 1;
            }
            Numbers::One(run) => {
                let Err(at) = run.binary_search(&number) else { return };
                if run.len() < RUN {
                    Arc::make_mut(run).insert(at, number);
                    return;
                }
                let mut many = Runs { len: run.len(), runs: vec![std::mem::take(run)] };
                many.insert(number);
                *self = Numbers::Many(Arc::new(many));
            }
            Numbers::Many(many) => Arc::make_mut(many).insert(number),
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        match self {
            Numbers::Few(count, few) => {
                let len = usize::from(*count);
                let Ok(at) = few[..len].binary_search(&number) else { return };
                few.copy_within(at + 1..len, at);
                *count -= 1;
            }
            Numbers::One(run) => {
                let Ok(at) = run.binary_search(&number) else { return };
                let numbers = Arc::make_mut(run);
                numbers.remove(at);
                if let Ok(few) = <[u32; FEW]>::try_from(numbers.as_slice()) {
                    *self = Numbers::Few(FEW as u8, few);
                } else if numbers.len() * 4 < numbers.capacity() {
                    numbers.shrink_to(numbers.len() * 2);
                }
            }
            Numbers::Many(many) => {
                let many = Arc::make_mut(many);
                many.remove(number);
                if let [_] = many.runs[..] {
                    many.runs.pop().into_iter().for_each(|run| *self = Numbers::One(run));
                }
            }
        }
    }
}

impl Runs {
    /// The run where a number lies, if it is there at all.
    fn run_of(&self, number: u32) -> usize {
        self.runs.partition_point(|run| run[0] <= number).saturating_sub(1)
    }

    fn insert(&mut self, number: u32) {
        let at = self.run_of(number);
        let Err(place) = self.runs[at].binary_search(&number) else { return };
        self.len += 1;
        let is_last = at + 1 == self.runs.len();
        let run = Arc::make_mut(&mut self.runs[at]);
        if run.len() < RUN {
            run.insert(place, number);
            return;
        }
        // Whoever adds at the end goes on adding there, and the run before stays full.
        let middle = if is_last && place == RUN { RUN } else { RUN / 2 };
        let mut upper = run.split_off(middle);
        if place < middle {
            run.insert(place, number);
        } else {
            upper.insert(place - middle, number);
        }
        self.runs.insert(at + 1, Arc::new(upper));
    }

    fn remove(&mut self, number: u32) {
        let at = self.run_of(number);
        let Ok(place) = self.runs[at].binary_search(&number) else { return };
        self.len -= 1;
        Arc::make_mut(&mut self.runs[at]).remove(place);
        // With the neighbour, so that runs do not become many and short.
        let lower = if at + 1 < self.runs.len() { at } else { at - 1 };
        if self.runs[lower].len() + self.runs[lower + 1].len() <= RUN / 2 {
            let upper = self.runs.remove(lower + 1);
            Arc::make_mut(&mut self.runs[lower]).extend_from_slice(&upper);
        } else if self.runs[at].is_empty() {
            self.runs.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn all(numbers: &Numbers) -> Vec<u32> {
        numbers.parts().flatten().copied().collect()
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_set_and_copies_stay_as_they_were(
            filled in 0..3000u32, writes in vec((0..3000u32, any::<bool>()), 0..3000), copy_at in 0..3000usize,
            emptied in any::<bool>(),
        ) {
            let mut numbers = Numbers::default();
            (0..filled).for_each(|number| numbers.insert(number));
            let mut model: BTreeSet<u32> = (0..filled).collect();
            let mut copy = None;
            for (at, &(number, insert)) in writes.iter().enumerate() {
                if at == copy_at {
                    copy = Some((numbers.clone(), model.clone()));
                }
                if insert {
                    numbers.insert(number);
                    model.insert(number);
                } else {
                    numbers.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(numbers.has(number), insert);
                prop_assert_eq!((numbers.len(), numbers.first()), (model.len(), model.first().copied()));
            }
            prop_assert_eq!(all(&numbers), model.iter().copied().collect::<Vec<_>>());
            if let Some((copy, then)) = copy {
                prop_assert_eq!(all(&copy), then.into_iter().collect::<Vec<_>>());
            }
            if emptied {
                for (left, number) in model.iter().enumerate().map(|(at, number)| (model.len() - at - 1, *number)) {
                    numbers.remove(number);
                    prop_assert_eq!((numbers.len(), numbers.has(number)), (left, false));
                }
                prop_assert!(numbers.is_empty() && matches!(numbers, Numbers::Few(0, _)));
            }
        }
    }

    #[test]
    fn sets_stay_small_and_runs_that_grow_at_the_end_full() {
        assert_eq!(size_of::<Numbers>(), 16);
        let mut numbers = Numbers::default();
        (0..10 * RUN as u32).for_each(|number| numbers.insert(number));
        assert_eq!(numbers.parts().count(), 10);
    }
}
