//! Lists of one moment, current or past, read in short steps.

use std::collections::BTreeMap;
use std::{cmp::Ordering, iter::Peekable, ops::Bound};

use kubewright_core::Str;

use super::state::State;
use super::{Compacted, Entry, Key, ReadError, Scope, Store};

/// How many entries or events are looked at before the lock is released for a moment.
const STEP: usize = 512;

/// Counting entries is that much quicker than sharing them.
const COUNT_FACTOR: usize = 8;

/// A short page looks at this many entries at least, in case that few of them match.
const SHORT_STEP: usize = 64;

/// Which part of a scope to list, and at which moment. By default all of it, now.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    limit: usize,
    after: Option<Key>,
    at: Option<u64>,
}

impl ListOptions {
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

    /// Shows the state at `revision` instead of the current one.
    #[must_use]
    pub fn at(mut self, revision: u64) -> Self {
        self.at = Some(revision);
        self
    }
}

/// A part of a scope as it was at one revision.
#[derive(Debug)]
pub struct Page<V> {
    /// The entries in the order of their keys.
    pub entries: Vec<(Key, Entry<V>)>,
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
    /// If [`ListOptions::at`] is outside of the window: [`ReadError::Compacted`] before it,
    /// [`ReadError::Future`] behind it. Without it, none.
    pub fn list(&self, scope: &Scope, options: ListOptions) -> Result<Page<V>, ReadError> {
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
        scope: &Scope,
        options: ListOptions,
        mut matches: impl FnMut(&Key, &Entry<V>) -> bool,
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
    fn list_in_steps<F: FnMut(&Key, &Entry<V>) -> bool>(
        &self,
        scope: &Scope,
        options: &ListOptions,
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
            while !walk.is_done {
                page.remaining += walk.count(&self.read_in_turn(), STEP * COUNT_FACTOR)?;
            }
        }
        Ok(page.finish(revision))
    }

    /// Reads a page while writers wait.
    fn list_at_once<F: FnMut(&Key, &Entry<V>) -> bool>(
        &self,
        scope: &Scope,
        options: &ListOptions,
        mut page: Filling<'_, V, F>,
    ) -> Result<Page<V>, ReadError> {
        let mut found = Vec::new();
        let state = self.read_in_turn();
        let (revision, resources) = moment(&state, scope, options)?;
        for resource in resources {
            let mut walk = Walk::new(&resource, scope, options, revision);
            while !walk.is_done {
                let keep = |path: &Str, entry: &Entry<V>| found.push((Key::at(&resource, path), entry.clone()));
                walk.advance(&state, STEP, keep)?;
            }
        }
        drop(state);
        found.into_iter().for_each(|(key, entry)| page.offer(key, entry));
        Ok(page.finish(revision))
    }
}

/// The revision to show, and the resources to walk through for it.
fn moment<V>(state: &State<V>, scope: &Scope, options: &ListOptions) -> Result<(u64, Vec<Str>), ReadError> {
    let current = state.revision;
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
    entries: Vec<(Key, Entry<V>)>,
    /// The entry that made the page full.
    last: Option<Key>,
    remaining: usize,
}

impl<'a, V, F: FnMut(&Key, &Entry<V>) -> bool> Filling<'a, V, F> {
    fn new(options: &ListOptions, matches: &'a mut F) -> Self {
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        Filling { matches, limit, entries: Vec::new(), last: None, remaining: 0 }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    fn offer(&mut self, key: Key, entry: Entry<V>) {
        if self.is_full() {
            self.remaining += 1;
        } else if (self.matches)(&key, &entry) {
            self.entries.push((key, entry));
            if self.is_full() {
                self.last = self.entries.last().map(|(key, _)| key.clone());
            }
        }
    }

    fn finish(self, revision: u64) -> Page<V> {
        let resume = self.last.filter(|_| self.remaining > 0);
        Page { entries: self.entries, revision, resume, remaining: self.remaining }
    }
}

/// A way through one resource as it was at a past revision, with the lock released between steps.
struct Walk<'a, V> {
    resource: &'a Str,
    scope: &'a Scope,
    /// Everything up to here has been visited. Lies in the scope.
    cursor: Option<Str>,
    /// Where the scope ends.
    end: Bound<Str>,
    at: u64,
    /// Events up to here are undone.
    undone_until: u64,
    /// What keys held at `at`, for those that were written since.
    past: BTreeMap<Str, Option<Entry<V>>>,
    is_done: bool,
}

impl<'a, V> Walk<'a, V> {
    fn new(resource: &'a Str, scope: &'a Scope, options: &ListOptions, at: u64) -> Self {
        let after = options.after.as_ref().filter(|after| after.resource_str() == resource).map(Key::path);
        let is_done = after.is_some_and(|after| after > scope.path() && !scope.covers(after));
        let cursor = after.filter(|after| scope.covers(after)).cloned();
        let (end, past) = (scope.end(), BTreeMap::new());
        Walk { resource, scope, cursor, end, at, undone_until: at, past, is_done }
    }

    /// Visits up to `look` further entries, in order, or none while there are events to undo.
    fn advance(
        &mut self,
        state: &State<V>,
        look: usize,
        mut visit: impl FnMut(&Str, &Entry<V>),
    ) -> Result<(), Compacted> {
        if !self.undo(state)? {
            return Ok(());
        }
        let range = self.range();
        let mut current = state.shards.get(self.resource).map(|shard| shard.objects.range::<str, _>(range).peekable());
        let mut past = self.past.range::<str, _>(range).peekable();
        let mut last = None;
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
            // Where both know the key, the past is what is asked for.
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
            }
        }
        self.cursor = last.cloned();
        Ok(())
    }

    /// Passes over up to `look` entries of the present, and counts those that were there.
    fn count(&mut self, state: &State<V>, look: usize) -> Result<usize, Compacted> {
        if !self.undo(state)? {
            return Ok(0);
        }
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
        // What was removed had been counted before.
        Ok(count + added - removed)
    }

    /// What has not been visited yet.
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
