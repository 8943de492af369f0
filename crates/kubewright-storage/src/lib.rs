//! The storage of a Kubernetes API server: objects under one global revision, a bounded log of
//! events, watches, and a data file.
//!
//! [`Store`] holds values of any type under ordered [`Key`]s. Each write takes a higher revision
//! and leaves one [`StoreEvent`] in the log. From these two everything
//! else follows: a [list](Store::list) is the state at one revision, a [watch](Store::watch) is
//! the events after one. The crate knows nothing of Kubernetes objects, of authorization or of
//! HTTP.
//!
//! ```
//! use kubewright_storage::{Draft, Key, StoreListOptions, KeyRange, Store, StoreOptions};
//!
//! // A value learns its revision when it is written.
//! struct Named(&'static str);
//! impl Draft<String> for Named {
//!     fn stamp(self, revision: u64) -> String {
//!         format!("{} at {revision}", self.0)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::new(StoreOptions::default());
//! let pods = KeyRange::resource("pods");
//! store.create(&Key::namespaced("pods", "default", "web"), Named("web"))?;
//!
//! // No event is lost between the list and the watch: the list names the revision it shows.
//! let page = store.list(&pods, StoreListOptions::default())?;
//! let mut watcher = store.watch(&pods, page.revision)?;
//! store.create(&Key::namespaced("pods", "default", "db"), Named("db"))?;
//! assert_eq!(watcher.next().await?.revision, page.revision + 1);
//! # Ok(()) }
//! ```
//!
//! # The past is the present with events undone
//!
//! There are three known ways to read an older revision:
//!
//! - A chain of versions for each key, as in etcd. Every read picks a version, and a compaction has
//!   to walk over all keys.
//! - A persistent tree, with a new root for each revision. Snapshots are free, but ten thousand
//!   roots hold more copied nodes than the objects weigh.
//! - A replay from an old snapshot. It needs the snapshot.
//!
//! Watches with a selector need the event log and the previous object of each event in any case. So
//! the log is the only history. The value of a key at revision *r* is the previous value of the
//! first event after *r*, or the current value if there is none. The current state is one tree for
//! each resource. To forget is to remove the oldest event: constant work in each write.
//!
//! The same rule lets a long list walk the tree in short steps and release the lock between them.
//! Writes that happen meanwhile are undone like any other later event. So a list shows exactly one
//! revision, and a writer waits for one step at most.
//!
//! # The window
//!
//! The log keeps the newest 10,000 events ([`StoreOptions::window`]). The total weight of
//! superseded values can be limited too ([`StoreOptions::window_weight`]). Events do not expire by
//! time, so an idle server honours old continue tokens. A burst of writes could run through the
//! window in seconds, so recent events can be kept beyond it ([`StoreOptions::keep_recent`]). Older
//! values can be kept in a smaller form ([`StoreOptions::archive`]).
//!
//! Lost events are known for each resource, so a busy resource does not end the watches of a quiet
//! one: [`Compacted`] means that an event of the requested resource is missing. A resource without
//! objects, watchers and recent events is forgotten completely and answers by the age of the log.
//!
//! # Watchers
//!
//! A watcher is a position in the shared log. A write wakes the watchers of a few topics, found by
//! name: everything, the resource, the namespace, the object, its name in all namespaces, and its
//! [indexed](StoreOptions::index) value before and after. Other watchers cost the write nothing.
//! Each topic lists its revisions, so that a watcher finds its events without a look at others. A
//! watcher that is too slow finds its next event [`Compacted`]. It never delays a writer.
//!
//! # Persistence
//!
//! A [`Backend`] takes every write in order and can reject it. [`Disk`] is the backend that keeps a
//! data file, and [`Store::restore`] starts from the [`DataFileContents`] of the file.
//!
//! With [`StoreOptions::commit_when_durable`], a write has two steps. It is *proposed* under the
//! lock, and *committed* when the disk says that it is durable ([`Store::commit`]). Lists, watches
//! and [`Store::get`] show committed writes only. Writers compare with the newest state
//! ([`Store::newest`]), so that many writes share one flush. If the disk fails,
//! [`Store::roll_back`] undoes all proposed writes. A backend reports both to a [`Follower`].
//!
//! The committed state needs no second copy: a list at the committed revision undoes the events
//! after it, as a list of the past does. Only [`Store::get`] has a small map, of the keys that have
//! uncommitted writes.
//!
//! # A shared database
//!
//! With [`StoreOptions::primary`], the store is a watch cache of a database that several servers
//! share. Writes go to the [`Primary`], and become visible when the store [follows](Store::follow)
//! the database. Its revisions are those of the database, whose transactions may change several
//! keys at one revision.

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod changes;
mod disk;
mod error;
mod event;
mod key;
mod list;
mod log;
mod options;
mod primary;
pub mod private_file;
mod record;
mod state;
mod store;
mod topic;
mod watch;

pub use backend::{Backend, Draft, Follower, Observer};
#[cfg(feature = "faults")]
pub use disk::full_disk::Directory;
pub use disk::{Disk, DiskBackend, Durability, NewDataFile, OpenDisk, OpenError, Recovery};
pub use error::{Compacted, ReadError, WriteError};
pub use event::{EventKind, StoreEvent, VersionedValue};
pub use key::{Key, KeyRange};
pub use list::{Page, StoreListOptions};
pub use options::StoreOptions;
pub use primary::{FollowedChange, Primary, PrimaryError, PrimaryWrite};
pub use record::{Damage, DataFileContents, Encoded, EventRecord, StoredRecord, StoredVersion, Undo, WriteRecord};
pub use store::{Store, StoreUsage};
pub use watch::Watcher;
