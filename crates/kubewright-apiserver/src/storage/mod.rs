//! Objects in memory under one global revision, with a bounded memory of the past.
//!
//! [`Store`] holds values of any type under ordered [`Key`]s. Each write takes the next revision,
//! exactly one above the last, and leaves one [`Event`] in the log. From these two everything
//! else follows: a [list](Store::list) is the state at one revision, a [watch](Store::watch) is
//! the events after one. What a value means, who may write it and how it is encoded is not known
//! here.
//!
//! ```
//! use kubewright_apiserver::storage::{Key, ListOptions, Scope, Store, StoreOptions};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::new(StoreOptions::default());
//! let pods = Scope::resource("pods");
//! store.create(&Key::namespaced("pods", "default", "web"), |revision| format!("web at {revision}"))?;
//!
//! // No event is lost between the list and the watch: the list names the revision it shows.
//! let page = store.list(&pods, ListOptions::default())?;
//! let mut watcher = store.watch(&pods, page.revision)?;
//! store.create(&Key::namespaced("pods", "default", "db"), |revision| format!("db at {revision}"))?;
//! assert_eq!(watcher.next().await?.revision, page.revision + 1);
//! # Ok(()) }
//! ```
//!
//! # The past is the present with events undone
//!
//! There are three known ways to read an older revision. A chain of versions for each key (etcd)
//! makes every read pick a version and needs a compaction that walks all keys. A persistent tree
//! (a new root for each revision) makes the snapshot free, but each retained root holds on to a
//! few kilobytes of copied nodes, which over a window of ten thousand exceeds what the objects
//! weigh. Replaying from an old snapshot (a watch cache) needs the snapshot.
//!
//! We need the event log anyway, and its events carry the previous object anyway, because a
//! watcher with a selector must know whether the object matched before. So the log is the only
//! history: the value of a key at revision *r* is what the first event after *r* says was there
//! before it, or the current value if there is none. The current state is one plain tree for each
//! resource, and forgetting is removing the oldest event: constant work in each write, with no
//! compaction to run.
//!
//! The same rule lets a long list go through the tree in short steps and release the lock between
//! them: what is written meanwhile is undone like any other later event. A list therefore never
//! sees half a write, nor two moments, and a writer waits for one step of it at most.
//!
//! # The window
//!
//! The log keeps the newest 10,000 events ([`StoreOptions::window`]) and, if told how to weigh a
//! value, no more superseded values than a weight ([`StoreOptions::window_weight`]). These it does not
//! forget by time: the bound is there for memory, and an idle server that still honours an hour
//! old continue token costs nothing and behaves the same on a slow machine. But a burst of writes
//! would run through the window in seconds and leave behind whoever reads page by page, so
//! that more can be kept while it is recent ([`StoreOptions::keep_recent`]). What was written
//! a while ago, superseded or not, may be kept in a smaller form ([`StoreOptions::archive`]).
//!
//! What is lost is known for each resource, so a busy resource does not end the watches of a quiet
//! one: [`Compacted`] means that an event of the resource asked for is really missing. (A resource
//! that has no objects, no watchers and no recent events is forgotten whole, and answers by the
//! age of the log.)
//!
//! # Watchers
//!
//! A watcher is a position in the shared log. A write wakes those whose scope covers its key, at
//! most four groups found by name (everything, the resource, the namespace, the object), and does
//! nothing for all others. Each group lists the revisions that concern it, so that a watcher that
//! wakes up finds its events without looking at anybody else's. A watcher that is too slow finds
//! that its next event is gone; the writer never learns of it.
//!
//! # Persistence
//!
//! There is one implementation, so `Store` is a type and not a trait. Durable storage needs two
//! things from it, and they are here: [`StoreOptions::journal`] sees every event in order before
//! anybody else does, and can refuse it; [`Store::restore`] starts from what was read back. `disk`
//! stands behind both.

mod changes;
mod disk;
mod error;
mod event;
mod key;
mod list;
mod log;
mod options;
mod state;
mod store;
mod topic;
mod watch;

#[cfg(test)]
pub(crate) use disk::crowded::Directory;
pub(crate) use disk::{Disk, Found, OpenError, Record, Recovery};
pub use error::{Compacted, ReadError, WriteError};
pub use event::{Entry, Event, EventKind};
pub use key::{Key, Scope};
pub use list::{ListOptions, Page};
pub use options::StoreOptions;
pub use store::{Store, Usage};
pub use watch::Watcher;
