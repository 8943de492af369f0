//! Lists of one moment, current or past, read in short steps.

use std::collections::BTreeMap;
use std::{cmp::Ordering, iter::Peekable, ops::Bound};

use kubewright_core::Str;

use crate::error::{Compacted, ReadError};
use crate::event::VersionedValue;
use crate::key::{Key, KeyRange};
use crate::state::State;
use crate::store::Store;

/// How many entries or events are looked at before the lock is released for a moment.
const STEP: usize = 512;

/// Counting entries is that much quicker than sharing them.
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

    /// Starts behind `key`, as [`Page::resume`] of the page before says.
    #[must_use]
    pub fn after(mut self, key: Key) -> Self {
        self.after = Some(key);
        self
    }

    /// Says how many entries lie behind [`after`](Self::after) at the revision that is listed, as
    /// [`Page::remaining`] of the page before does.
    ///
    /// Without it, a page that starts behind a key counts all entries that follow it.
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
}

/// A part of a scope as it was at one revision.
#[derive(Debug)]
pub struct Page<V> {
    /// The entries in the order of their keys.
    pub entries: Vec<(Key, VersionedValue<V>)>,
    /// The moment that this page shows. A watch from here misses nothing.
    pub revision: u64,
    /// Where the next page starts; `None` if this one reaches the end of the scope.
    pub resume: Option<Key>,
    /// How many entries lie behind [`resume`](Page::resume), whether they match or not.
    pub remaining: usize,
}

impl<V> Store<V> {
    /// The entries of `scope` at one moment.
    ///
    /// The page shows exactly what was there at its revision, however many writes happen
    /// meanwhile, and does not keep them waiting.
    ///
    /// # Errors
    /// If [`StoreListOptions::at`] is outside of the window: [`ReadError::Compacted`] before it,
    /// [`ReadError::Future`] behind it. Without it, none.
    pub fn list(&self, scope: &KeyRange, options: StoreListOptions) -> Result<Page<V>, ReadError> {
        self.list_where(scope, options, |_, _| true)
    }

    /// The entries of `scope` that `matches` picks; a limit counts only those.
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
        match self.list_in_steps(scope, &options, Filling::new(&options, &mut matches)) {
            // The whole window went by in the middle of our reading. No moment was asked for, so
            // take one that nobody can disturb.
            Err(ReadError::Compacted(_)) if options.at.is_none() => {
                self.list_at_once(scope, &options, Filling::new(&options, &mut matches))
            }
            result => result,
        }
    }

    /// Reads a page and lets writers in again and again on the way.
    fn list_in_steps<F: FnMut(&Key, &VersionedValue<V>) -> bool>(
        &self,
        scope: &KeyRange,
        options: &StoreListOptions,
        mut page: Filling<'_, V, F>,
    ) -> Result<Page<V>, ReadError> {
        let (revision, resources) = moment(&self.read_in_turn(), scope, options)?;
        let look = STEP.min(page.limit.max(SHORT_STEP));
        for resource in resources {
            let mut walk = Walk::new(&resource, scope, options, revision);
            let mut found = Vec::new();
            while !walk.is_done && !page.is_full() {
                walk.advance(&self.read_in_turn(), look, |path, entry| found.push((path.clone(), entry.clone())))?;
                found.drain(..).for_each(|(path, entry)| page.offer(Key::at(&resource, &path), entry));
            }
            if page.is_full() && options.remaining.is_some() {
                break;
            }
            while !walk.is_done {
                page.remaining += walk.count_rest(&self.read_in_turn(), STEP * COUNT_FACTOR)?;
            }
        }
        Ok(page.finish(revision, options.remaining))
    }

    /// Reads a page while writers wait.
    fn list_at_once<F: FnMut(&Key, &VersionedValue<V>) -> bool>(
        &self,
        scope: &KeyRange,
        options: &StoreListOptions,
        mut page: Filling<'_, V, F>,
    ) -> Result<Page<V>, ReadError> {
        let mut found = Vec::new();
        let state = self.read_in_turn();
        let (revision, resources) = moment(&state, scope, options)?;
        for resource in resources {
            let mut walk = Walk::new(&resource, scope, options, revision);
            while !walk.is_done {
                let keep =
                    |path: &Str, entry: &VersionedValue<V>| found.push((Key::at(&resource, path), entry.clone()));
                walk.advance(&state, STEP, keep)?;
            }
        }
        drop(state);
        found.into_iter().for_each(|(key, entry)| page.offer(key, entry));
        Ok(page.finish(revision, options.remaining))
    }
}

/// The revision to show, and the resources to walk through for it.
fn moment<V>(state: &State<V>, scope: &KeyRange, options: &StoreListOptions) -> Result<(u64, Vec<Str>), ReadError> {
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

/// A page that takes what matches until it is full, and counts the rest.
struct Filling<'a, V, F> {
    matches: &'a mut F,
    /// At least one.
    limit: usize,
    entries: Vec<(Key, VersionedValue<V>)>,
    /// The entry that made the page full.
    last: Option<Key>,
    /// Entries offered after the page was full, and those that nobody offered.
    remaining: usize,
    /// Entries offered before the page was full.
    offered: usize,
}

impl<'a, V, F: FnMut(&Key, &VersionedValue<V>) -> bool> Filling<'a, V, F> {
    fn new(options: &StoreListOptions, matches: &'a mut F) -> Self {
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        Filling { matches, limit, entries: Vec::new(), last: None, remaining: 0, offered: 0 }
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

    /// The page, of which `known` entries lay ahead if that is known.
    fn finish(self, revision: u64, known: Option<usize>) -> Page<V> {
        let remaining = match known {
            Some(known) if self.last.is_some() => known.saturating_sub(self.offered),
            _ => self.remaining,
        };
        let resume = self.last.filter(|_| remaining > 0);
        Page { entries: self.entries, revision, resume, remaining }
    }
}

/// A way through one resource as it was at a past revision, with the lock released between steps.
struct Walk<'a, V> {
    resource: &'a Str,
    scope: &'a KeyRange,
    /// Everything up to here has been visited. Lies in the scope.
    cursor: Option<Str>,
    /// Entries visited on the way from the start of the scope; unknown if it started further on.
    visited: Option<usize>,
    /// Where the scope ends.
    end: Bound<Str>,
    at: u64,
    /// Events up to here are undone.
    undone_until: u64,
    /// The entries at revision `at` of keys that were written later.
    past: BTreeMap<Str, Option<VersionedValue<V>>>,
    is_done: bool,
}

impl<'a, V> Walk<'a, V> {
    fn new(resource: &'a Str, scope: &'a KeyRange, options: &StoreListOptions, at: u64) -> Self {
        let after = options.after.as_ref().filter(|after| after.resource_str() == resource).map(Key::path);
        let is_done = after.is_some_and(|after| after > scope.path() && !scope.covers(after));
        let cursor = after.filter(|after| scope.covers(after)).cloned();
        let (end, past) = (scope.end(), BTreeMap::new());
        let visited = cursor.is_none().then_some(0);
        Walk { resource, scope, cursor, visited, end, at, undone_until: at, past, is_done }
    }

    /// Visits up to `look` further entries, in order, or none while there are events to undo.
    fn advance(
        &mut self,
        state: &State<V>,
        look: usize,
        mut visit: impl FnMut(&Str, &VersionedValue<V>),
    ) -> Result<(), Compacted> {
        if !self.undo(state)? {
            return Ok(());
        }
        let range = self.range();
        let mut current = state.shards.get(self.resource).map(|shard| shard.objects.range::<str, _>(range).peekable());
        let mut past = self.past.range::<str, _>(range).peekable();
        let (mut last, mut visited) = (None, 0);
        for _ in 0..look {
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

    /// Counts entries that have not been visited: all of them at once where the number of all is
    /// known, otherwise some of the next.
    fn count_rest(&mut self, state: &State<V>, look: usize) -> Result<usize, Compacted> {
        if !self.undo(state)? {
            return Ok(0);
        }
        let Some(visited) = self.visited else { return Ok(self.count(state, look)) };
        self.is_done = true;
        let shard = state.shards.get(self.resource);
        let exists = |path: &&Str| shard.is_some_and(|shard| shard.objects.contains_key(*path));
        // Keys written since `at` count if they existed then, not if they exist now.
        let now = shard.map_or(0, |shard| shard.count(self.scope));
        let then = now + self.past.values().flatten().count() - self.past.keys().filter(exists).count();
        Ok(then.saturating_sub(visited))
    }

    /// Passes over up to `look` entries of the present, and counts those that were there.
    fn count(&mut self, state: &State<V>, look: usize) -> usize {
        let (start, end) = self.range();
        let nothing = BTreeMap::new();
        let objects = state.shards.get(self.resource).map_or(&nothing, |shard| &shard.objects);
        let (mut count, mut last) = (0, None);
        for (path, _) in objects.range::<str, _>((start, end)).take(look) {
            count += 1;
            last = Some(path);
        }
        let last = last.filter(|_| count == look);
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

    /// Undoes the next events since `at`, and says whether these were all.
    fn undo(&mut self, state: &State<V>) -> Result<bool, Compacted> {
        let shard = state.shards.get(self.resource);
        let forgotten = shard.map_or(state.log.forgotten(), |shard| shard.topic.forgotten());
        if forgotten > self.undone_until {
            return Err(Compacted { requested: self.at, oldest: forgotten });
        }
        if let Some(shard) = shard {
            let later = shard.topic.after(self.undone_until);
            let is_all = later.len() <= STEP;
            for event in later.take(STEP).filter_map(|revision| state.log.get(revision)) {
                if self.scope.covers(event.key.path()) {
                    // The first event after `at` knows what was there; later ones do not.
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
