//! Consistent lists at the current or a past revision, read in short steps.

use std::collections::BTreeMap;
use std::{cmp::Ordering, iter::Peekable, ops::Bound};

use kubewright_core::Str;

use crate::error::{Compacted, ReadError};
use crate::event::VersionedValue;
use crate::key::{Key, KeyRange};
use crate::state::State;
use crate::store::Store;

/// Number of entries or events that are read before the lock is released for a moment.
const STEP: usize = 512;

/// Ratio of the cost of sharing an entry to the cost of counting it.
const COUNT_FACTOR: usize = 8;

/// Minimum number of entries that a short page scans at a time, in case few of them match.
const SHORT_STEP: usize = 64;

/// The part of a key range to list, and the revision. By default the whole range at the current
/// revision.
#[derive(Clone, Debug, Default)]
pub struct StoreListOptions {
    limit: usize,
    after: Option<Key>,
    at: Option<u64>,
    newest: bool,
    remaining: Option<usize>,
}

impl StoreListOptions {
    /// Stops after `limit` entries. Zero, the default, is no limit.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Starts after `key`, which is [`Page::resume`] of the previous page.
    #[must_use]
    pub fn after(mut self, key: Key) -> Self {
        self.after = Some(key);
        self
    }

    /// Sets the number of entries after [`after`](Self::after) at the listed revision:
    /// [`Page::remaining`] of the previous page.
    ///
    /// Without it, a page that starts after a key counts all entries that follow.
    #[must_use]
    pub fn remaining(mut self, remaining: usize) -> Self {
        self.remaining = Some(remaining);
        self
    }

    /// Shows the state at `revision` instead of the current one.
    #[must_use]
    pub fn at(mut self, revision: u64) -> Self {
        self.at = Some(revision);
        self
    }

    /// Shows the newest state, including writes that are not committed yet. See
    /// [`Store::newest`].
    #[must_use]
    pub fn newest(mut self) -> Self {
        self.newest = true;
        self
    }

    /// The revision, the key before the first entry, and the limit.
    pub fn parts(&self) -> (Option<u64>, Option<&Key>, usize) {
        (self.at, self.after.as_ref(), self.limit)
    }
}

/// A page of the entries of a scope at one revision.
#[derive(Debug)]
pub struct Page<V> {
    /// The entries in the order of their keys.
    pub entries: Vec<(Key, VersionedValue<V>)>,
    /// The revision of this page. A watch from here misses no event.
    pub revision: u64,
    /// The start of the next page. `None` if this page reaches the end of the scope.
    pub resume: Option<Key>,
    /// Number of entries after [`resume`](Page::resume), matching or not.
    pub remaining: usize,
}

impl<V> Store<V> {
    /// Lists the entries of `scope` at one revision.
    ///
    /// The page is consistent, even if writes happen meanwhile. It does not block them.
    ///
    /// # Errors
    /// If [`StoreListOptions::at`] is outside of the window: [`ReadError::Compacted`] for an older
    /// revision, [`ReadError::Future`] for a newer one. A list of the current revision does not
    /// fail.
    pub fn list(&self, scope: &KeyRange, options: StoreListOptions) -> Result<Page<V>, ReadError> {
        self.list_where(scope, options, |_, _| true)
    }

    /// Lists the entries of `scope` that satisfy `matches`. A limit counts only these.
    ///
    /// `matches` runs without the lock. It may see an entry more than once.
    ///
    /// # Errors
    /// As for [`list`](Store::list).
    pub fn list_where(
        &self,
        scope: &KeyRange,
        options: StoreListOptions,
        mut matches: impl FnMut(&Key, &VersionedValue<V>) -> bool,
    ) -> Result<Page<V>, ReadError> {
        match self.list_in_steps(scope, &options, PageBuilder::new(&options, &mut matches)) {
            // The revision was compacted while we read it. The caller requested none, so read the
            // current revision under one lock.
            Err(ReadError::Compacted(_)) if options.at.is_none() => {
                self.list_at_once(scope, &options, PageBuilder::new(&options, &mut matches))
            }
            result => result,
        }
    }

    /// Reads a page, and releases the lock between steps.
    fn list_in_steps<F: FnMut(&Key, &VersionedValue<V>) -> bool>(
        &self,
        scope: &KeyRange,
        options: &StoreListOptions,
        mut page: PageBuilder<'_, V, F>,
    ) -> Result<Page<V>, ReadError> {
        let (revision, resources) = listed_revision(&self.read_in_turn(), scope, options)?;
        let budget = STEP.min(page.limit.max(SHORT_STEP));
        for resource in resources {
            let mut cursor = ResourceCursor::new(&resource, scope, options, revision);
            let mut found = Vec::new();
            while !cursor.is_done && !page.is_full() {
                cursor
                    .advance(&self.read_in_turn(), budget, |path, entry| found.push((path.clone(), entry.clone())))?;
                found.drain(..).for_each(|(path, entry)| page.offer(Key::at(&resource, &path), entry));
            }
            if page.is_full() && options.remaining.is_some() {
                break;
            }
            while !cursor.is_done {
                page.remaining += cursor.count_rest(&self.read_in_turn(), STEP * COUNT_FACTOR)?;
            }
        }
        Ok(page.finish(revision, options.remaining))
    }

    /// Reads a page under one lock.
    fn list_at_once<F: FnMut(&Key, &VersionedValue<V>) -> bool>(
        &self,
        scope: &KeyRange,
        options: &StoreListOptions,
        mut page: PageBuilder<'_, V, F>,
    ) -> Result<Page<V>, ReadError> {
        let mut found = Vec::new();
        let state = self.read_in_turn();
        let (revision, resources) = listed_revision(&state, scope, options)?;
        for resource in resources {
            let mut cursor = ResourceCursor::new(&resource, scope, options, revision);
            while !cursor.is_done {
                let keep =
                    |path: &Str, entry: &VersionedValue<V>| found.push((Key::at(&resource, path), entry.clone()));
                cursor.advance(&state, STEP, keep)?;
            }
        }
        drop(state);
        found.into_iter().for_each(|(key, entry)| page.offer(key, entry));
        Ok(page.finish(revision, options.remaining))
    }
}

/// The revision to list, and the resources to visit.
fn listed_revision<V>(
    state: &State<V>,
    scope: &KeyRange,
    options: &StoreListOptions,
) -> Result<(u64, Vec<Str>), ReadError> {
    let current = if options.newest { state.revision } else { state.committed };
    if let Some(requested) = options.at.filter(|at| *at > current) {
        return Err(ReadError::Future { requested, current });
    }
    let at = options.at.unwrap_or(current);
    let oldest = state.oldest(scope);
    if at < oldest {
        return Err(Compacted { requested: at, oldest }.into());
    }
    let resources = match scope.resource_str() {
        Some(resource) => vec![resource.clone()],
        None => {
            let first = options.after.as_ref().map_or("", Key::resource);
            let range = (Bound::Included(first), Bound::Unbounded);
            state.shards.range::<str, _>(range).map(|(resource, _)| resource.clone()).collect()
        }
    };
    Ok((at, resources))
}

/// Collects matching entries until the page is full, and counts the rest.
struct PageBuilder<'a, V, F> {
    matches: &'a mut F,
    /// At least one.
    limit: usize,
    entries: Vec<(Key, VersionedValue<V>)>,
    /// The last entry of a full page.
    last: Option<Key>,
    /// Number of entries after the page was full, offered or skipped.
    remaining: usize,
    /// Number of entries offered before the page was full.
    offered: usize,
}

impl<'a, V, F: FnMut(&Key, &VersionedValue<V>) -> bool> PageBuilder<'a, V, F> {
    fn new(options: &StoreListOptions, matches: &'a mut F) -> Self {
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        PageBuilder { matches, limit, entries: Vec::new(), last: None, remaining: 0, offered: 0 }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    fn offer(&mut self, key: Key, entry: VersionedValue<V>) {
        if self.is_full() {
            self.remaining += 1;
            return;
        }
        self.offered += 1;
        if (self.matches)(&key, &entry) {
            self.entries.push((key, entry));
            if self.is_full() {
                self.last = self.entries.last().map(|(key, _)| key.clone());
            }
        }
    }

    /// Completes the page. `known` is the number of entries from its start, if known.
    fn finish(self, revision: u64, known: Option<usize>) -> Page<V> {
        let remaining = match known {
            Some(known) if self.last.is_some() => known.saturating_sub(self.offered),
            _ => self.remaining,
        };
        let resume = self.last.filter(|_| remaining > 0);
        Page { entries: self.entries, revision, resume, remaining }
    }
}

/// Iterates over one resource at a past revision, and releases the lock between steps.
struct ResourceCursor<'a, V> {
    resource: &'a Str,
    scope: &'a KeyRange,
    /// The last visited path. It is in the scope.
    cursor: Option<Str>,
    /// Number of entries visited since the start of the scope. Unknown if the iteration started
    /// later.
    visited: Option<usize>,
    /// The end of the scope.
    end: Bound<Str>,
    at: u64,
    /// Events up to here are undone.
    undone_until: u64,
    /// The entries at revision `at` of keys that were written later.
    past: BTreeMap<Str, Option<VersionedValue<V>>>,
    is_done: bool,
}

impl<'a, V> ResourceCursor<'a, V> {
    fn new(resource: &'a Str, scope: &'a KeyRange, options: &StoreListOptions, at: u64) -> Self {
        let after = options.after.as_ref().filter(|after| after.resource_str() == resource).map(Key::path);
        let is_done = after.is_some_and(|after| after > scope.path() && !scope.covers(after));
        let cursor = after.filter(|after| scope.covers(after)).cloned();
        let (end, past) = (scope.end(), BTreeMap::new());
        let visited = cursor.is_none().then_some(0);
        ResourceCursor { resource, scope, cursor, visited, end, at, undone_until: at, past, is_done }
    }

    /// Visits up to `budget` further entries in order, or none while there are events to undo.
    fn advance(
        &mut self,
        state: &State<V>,
        budget: usize,
        mut visit: impl FnMut(&Str, &VersionedValue<V>),
    ) -> Result<(), Compacted> {
        if !self.undo(state)? {
            return Ok(());
        }
        let range = self.range();
        let mut current = state.shards.get(self.resource).map(|shard| shard.objects.range::<str, _>(range).peekable());
        let mut past = self.past.range::<str, _>(range).peekable();
        let (mut last, mut visited) = (None, 0);
        for _ in 0..budget {
            let order = match (current.as_mut().and_then(Peekable::peek), past.peek()) {
                (Some((current, _)), Some((past, _))) => current.cmp(past),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => {
                    self.is_done = true;
                    return Ok(());
                }
            };
            // If both have the key, the past entry wins.
            let now = current.as_mut().filter(|_| order.is_le()).and_then(Iterator::next);
            let then = if order.is_ge() { past.next() } else { None };
            let (path, entry) = match (now, then) {
                (_, Some((path, entry))) => (path, entry.as_ref()),
                (Some((path, entry)), None) => (path, Some(entry)),
                (None, None) => break,
            };
            last = Some(path);
            if let Some(entry) = entry {
                visit(path, entry);
                visited += 1;
            }
        }
        self.cursor = last.cloned();
        self.visited = self.visited.map(|before| before + visited);
        Ok(())
    }

    /// Counts entries that have not been visited: all at once if the total is known, otherwise up
    /// to `budget` of them.
    fn count_rest(&mut self, state: &State<V>, budget: usize) -> Result<usize, Compacted> {
        if !self.undo(state)? {
            return Ok(0);
        }
        let Some(visited) = self.visited else { return Ok(self.count(state, budget)) };
        self.is_done = true;
        let shard = state.shards.get(self.resource);
        let exists = |path: &&Str| shard.is_some_and(|shard| shard.objects.contains_key(*path));
        // Keys written since `at` count if they existed then, not if they exist now.
        let now = shard.map_or(0, |shard| shard.count(self.scope));
        let then = now + self.past.values().flatten().count() - self.past.keys().filter(exists).count();
        Ok(then.saturating_sub(visited))
    }

    /// Skips up to `budget` current entries, and counts those that existed at revision `at`.
    fn count(&mut self, state: &State<V>, budget: usize) -> usize {
        let (start, end) = self.range();
        let nothing = BTreeMap::new();
        let objects = state.shards.get(self.resource).map_or(&nothing, |shard| &shard.objects);
        let (mut count, mut last) = (0, None);
        for (path, _) in objects.range::<str, _>((start, end)).take(budget) {
            count += 1;
            last = Some(path);
        }
        let last = last.filter(|_| count == budget);
        let passed = last.map_or(end, |last| Bound::Included(last));
        let (mut added, mut removed) = (0, 0);
        for (path, entry) in self.past.range::<str, _>((start, passed)) {
            added += usize::from(entry.is_some());
            removed += usize::from(objects.contains_key(path));
        }
        match last.cloned() {
            Some(last) => self.cursor = Some(last),
            None => self.is_done = true,
        }
        // Entries that were removed later existed at `at`.
        count + added - removed
    }

    /// The paths that have not been visited yet.
    fn range(&self) -> (Bound<&str>, Bound<&str>) {
        let start = match &self.cursor {
            Some(cursor) => Bound::Excluded(cursor.as_str()),
            None => Bound::Included(self.scope.path().as_str()),
        };
        (start, self.end.as_ref().map(Str::as_str))
    }

    /// Undoes the next events since `at`. Returns whether all are undone.
    fn undo(&mut self, state: &State<V>) -> Result<bool, Compacted> {
        let shard = state.shards.get(self.resource);
        let forgotten = shard.map_or(state.log.forgotten(), |shard| shard.topic.forgotten());
        if forgotten > self.undone_until {
            return Err(Compacted { requested: self.at, oldest: forgotten });
        }
        if let Some(shard) = shard {
            let later = shard.topic.after(self.undone_until);
            let is_all = later.len() <= STEP;
            for event in later.take(STEP).flat_map(|revision| state.log.at(revision)) {
                if event.key.resource_str() == self.resource && self.scope.covers(event.key.path()) {
                    // Only the first event after `at` has the value at that revision.
                    self.past.entry(event.key.path().clone()).or_insert_with(|| event.previous.clone());
                }
                self.undone_until = event.revision;
            }
            if !is_all {
                return Ok(false);
            }
        }
        self.undone_until = state.revision;
        Ok(true)
    }
}
