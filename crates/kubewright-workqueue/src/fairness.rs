//! Decides which queued key is handed out next.
//!
//! Keys form one queue, or one queue per group with round-robin between groups. With groups, a
//! group of a thousand keys delays a group of one by a single key at a time. A queue is ordered by
//! arrival or by rank (see `ageing`).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use crate::ageing::{Ageing, RankedKeys};
use crate::table::{KeyDetails, KeyTable};

/// Queues up to this length keep their memory when they are emptied.
const RETAINED_CAPACITY: usize = 4096;

/// Maps a key to the number of its group. Two groups may share a number; they then share their
/// turns.
pub(crate) type GroupOf<T> = Box<dyn Fn(&T) -> u64 + Send + Sync>;

/// Erases the group's type by hashing the group.
pub(crate) fn numbered<T, G: Hash>(group_of: impl Fn(&T) -> G + Send + Sync + 'static) -> GroupOf<T> {
    let hasher = RandomState::new();
    Box::new(move |key| hasher.hash_one(group_of(key)))
}

/// Numbers of queued keys in the order in which they are handed out.
pub(crate) struct Order<T> {
    ageing: Option<Ageing>,
    queues: KeyQueues<T>,
    len: usize,
    arrivals: u32,
}

enum KeyQueues<T> {
    One(KeyQueue),
    ByGroup {
        group_of: GroupOf<T>,
        /// Invariant: contains no empty queue, and its groups are exactly those of `turns`, each
        /// once.
        queue_of: HashMap<u64, KeyQueue>,
        turns: VecDeque<u64>,
    },
}

#[derive(Debug)]
enum KeyQueue {
    Fifo(VecDeque<u32>),
    Ranked(RankedKeys),
}

impl<T> Order<T> {
    pub(crate) fn new(ageing: Option<Ageing>, group_of: Option<GroupOf<T>>) -> Self {
        let queues = match group_of {
            None => KeyQueues::One(KeyQueue::new(ageing)),
            Some(group_of) => KeyQueues::ByGroup { group_of, queue_of: HashMap::new(), turns: VecDeque::new() },
        };
        Self { ageing, queues, len: 0, arrivals: 0 }
    }

    /// Number of queued keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Inserts a key at the position that its details determine; without details, at the end.
    pub(crate) fn push(&mut self, number: u32, table: &mut KeyTable<T>) {
        self.len += 1;
        if let Some(details) = table.details_mut(number) {
            self.arrivals = self.arrivals.wrapping_add(1);
            details.arrival = self.arrivals;
        }
        match &mut self.queues {
            KeyQueues::One(queue) => queue.push(number, table.details(number)),
            KeyQueues::ByGroup { group_of, queue_of, turns } => {
                let group = group_of(table[number].key());
                let queue = queue_of.entry(group).or_insert_with(|| {
                    turns.push_back(group);
                    KeyQueue::new(self.ageing)
                });
                queue.push(number, table.details(number));
            }
        }
    }

    /// Removes and returns the next key.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let number = match &mut self.queues {
            KeyQueues::One(queue) => queue.pop()?,
            KeyQueues::ByGroup { queue_of, turns, .. } => {
                let group = turns.pop_front()?;
                let queue = queue_of.get_mut(&group).expect("a group with a turn has a queue");
                let number = queue.pop().expect("no queue is empty");
                if queue.len() > 0 {
                    turns.push_back(group);
                } else {
                    queue_of.remove(&group);
                }
                number
            }
        };
        self.len -= 1;
        Some(number)
    }

    /// Moves a queued key to the position of its new priority. Its arrival time, and so its age,
    /// stays.
    pub(crate) fn change_priority(&mut self, number: u32, table: &mut KeyTable<T>, priority: i32) {
        let queue = match &mut self.queues {
            KeyQueues::One(queue) => Some(queue),
            KeyQueues::ByGroup { group_of, queue_of, .. } => queue_of.get_mut(&group_of(table[number].key())),
        };
        let Some(details) = table.details_mut(number) else { return };
        if let Some(KeyQueue::Ranked(ranked)) = queue {
            ranked.remove(number, details);
            details.priority = priority;
            ranked.push(number, details);
        }
        details.priority = priority;
    }

    /// The queued keys in order, if there is one queue ordered by arrival.
    pub(crate) fn fifo(&self) -> Option<impl Iterator<Item = u32>> {
        match &self.queues {
            KeyQueues::One(KeyQueue::Fifo(numbers)) => Some(numbers.iter().copied()),
            _ => None,
        }
    }
}

impl KeyQueue {
    fn new(ageing: Option<Ageing>) -> Self {
        match ageing {
            None => Self::Fifo(VecDeque::new()),
            Some(ageing) => Self::Ranked(RankedKeys::new(ageing)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Fifo(numbers) => numbers.len(),
            Self::Ranked(ranked) => ranked.len(),
        }
    }

    fn push(&mut self, number: u32, details: Option<&KeyDetails>) {
        match self {
            Self::Fifo(numbers) => numbers.push_back(number),
            Self::Ranked(ranked) => ranked.push(number, details.expect("recorded in queues with priorities")),
        }
    }

    fn pop(&mut self) -> Option<u32> {
        match self {
            Self::Fifo(numbers) => {
                let number = numbers.pop_front();
                if numbers.is_empty() && numbers.capacity() > RETAINED_CAPACITY {
                    *numbers = VecDeque::new();
                }
                number
            }
            Self::Ranked(ranked) => ranked.pop(),
        }
    }
}

impl<T> fmt::Debug for Order<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("ageing", &self.ageing).field("len", &self.len).finish_non_exhaustive()
    }
}
