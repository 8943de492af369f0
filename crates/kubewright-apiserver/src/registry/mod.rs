//! The verbs of the API over the store: what may be written, what is read, and what follows from it.
//!
//! Everything here is about objects; requests and answers are made around it. A write reads the stored object, works on a
//! copy without any lock, and stores the result if nobody was faster, or starts again.

mod binding;
mod continue_token;
mod create;
mod definition;
mod delete;
mod eviction;
mod list;
mod ownership;
mod scale;
mod selection;
mod update;
mod watch;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use tokio::sync::watch as channel;

pub(crate) use create::CreateRequest;
pub(crate) use definition::set_condition;
pub(crate) use delete::{CUSTOM_CLEANUP, Deleted, FOREGROUND, ORPHAN};
pub(crate) use list::{Listed, parse_version};
pub(crate) use ownership::{Ownership, Writer, apply, check_configuration, group_version, schema as merge_schema};
pub(crate) use selection::Selection;
pub(crate) use update::{Origin, Part, UpdateRequest, check_target, unreadable_version, wrong_uid};
pub(crate) use watch::{Slot, WatchStream};

use crate::admission::control::{Audience, Policies};
use crate::authorization;
use crate::catalog::custom::CustomResources;
use crate::catalog::{Catalog, Resource};
use crate::encoding::SharedFrames;
use crate::object::{Draft, StoredObject, tree};
use crate::offload::Offload;
use crate::rejection::Rejection;
use crate::storage::{Disk, Entry, EventKind, Found, Key, ListOptions, Record, Scope, Store, StoreOptions, WriteError};

/// How much the objects may weigh that only the log still holds, in bytes of JSON.
const HISTORY_WEIGHT: usize = 64 << 20;
/// Objects written before the last so many writes are kept without their trees. Who watches with a selector of fields looks at those of the
/// newest, and at what they superseded, and who writes an object often comes again soon.
const ARCHIVE_AFTER: usize = 512;

/// How deep objects may be; deeper text is not read by [`Value::from_json`].
const DEEPEST: usize = 256;

/// The objects of the server and what it serves.
pub(crate) struct Registry {
    pub(crate) store: Store<StoredObject>,
    catalog: RwLock<Arc<Catalog>>,
    /// Held while the catalog is made anew, so that a later one is never replaced by an earlier one.
    custom: Mutex<CustomResources>,
    /// Held while a Service takes addresses or ports, so that no two take the same.
    pub(crate) allocation: Mutex<()>,
    /// Whether namespaces get an account, and pods the one of their namespace.
    pub(crate) assigns_accounts: bool,
    /// How long an event is kept after it was written last. Zero is for ever.
    pub(crate) event_ttl: Duration,
    /// Held while something is written of which a quota allows only so much.
    pub(crate) quota: Mutex<()>,
    /// Admission policies that have been compiled.
    pub(crate) policies: Policies,
    /// Those who have a say in writes.
    pub(crate) audience: Audience,
    /// For reads of many objects.
    pub(crate) offload: Offload,
    /// What watches say of the last events.
    frames: Arc<SharedFrames>,
    /// True when the server stops; watches end with it.
    stop: channel::Receiver<bool>,
}

impl Registry {
    /// An empty registry that ends its watches when `stop` becomes true.
    pub(crate) fn new(options: StoreOptions<StoredObject>, stop: channel::Receiver<bool>) -> Self {
        Registry {
            store: Store::new(bounded(options)),
            catalog: RwLock::new(Arc::new(Catalog::new([]))),
            custom: Mutex::default(),
            allocation: Mutex::new(()),
            assigns_accounts: false,
            event_ttl: Duration::ZERO,
            quota: Mutex::new(()),
            policies: Policies::default(),
            audience: Audience::default(),
            offload: Offload::on_half_of_the_processors(),
            frames: Arc::default(),
            stop,
        }
    }

    /// A registry of what was found on a disk, which hears of all that happens from now on.
    pub(crate) fn restored(
        options: StoreOptions<StoredObject>,
        disk: &Disk,
        found: Found,
        stop: channel::Receiver<bool>,
    ) -> Result<Self, String> {
        let mut journal = disk.journal();
        let options = options.journal(move |event| {
            let json = (event.kind != EventKind::Deleted).then(|| event.object.json().clone());
            let (resource, path) = event.key.parts();
            journal(Record { resource: resource.to_owned(), path: path.to_owned(), revision: event.revision, json })
        });
        let Some(revision) = found.revision else { return Ok(Registry::new(options, stop)) };
        let mut objects = Vec::with_capacity(found.objects.len());
        for Record { resource, path, revision, json } in found.objects {
            let value = Value::from_json(&json.unwrap_or_default());
            let value = value.map_err(|error| format!("the object {resource}/{path} on disk is damaged: {error}"))?;
            let object = Arc::new(Draft::new(value).stamp(revision).archived());
            objects.push((Key::from_parts(resource, path), Entry { object, revision }));
        }
        let mut registry = Registry::new(StoreOptions::default(), stop);
        registry.store = Store::restore(bounded(options), revision, objects);
        registry.refresh_catalog();
        Ok(registry)
    }

    /// What is served now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the definitions of custom resources anew.
    pub(crate) fn refresh_catalog(&self) {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        let definitions = self.all(&Scope::resource("customresourcedefinitions.apiextensions.k8s.io"));
        let definitions = definitions.iter().map(|definition| (definition.revision, definition.object.value()));
        let catalog = Arc::new(Catalog::new(custom.refresh(definitions)));
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }

    /// One object.
    pub(crate) fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Entry<StoredObject>, Rejection> {
        let found = self.store.get(&resource.key(namespace, name));
        found.ok_or_else(|| Status::not_found(&resource.group_resource(), name).into())
    }

    /// All objects of a scope, as they are now.
    pub(crate) fn all(&self, scope: &Scope) -> Vec<Entry<StoredObject>> {
        let page = self.store.list(scope, ListOptions::default());
        // Without a revision to go back to, a list cannot fail.
        page.map(|page| page.entries.into_iter().map(|(_, entry)| entry).collect()).unwrap_or_default()
    }

    /// What has to happen at once after a write.
    fn after_write(&self, resource: &Resource) {
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            self.refresh_catalog();
        } else if resource.is("rbac.authorization.k8s.io", "clusterroles") {
            authorization::collect_rules(self);
        } else if resource.group == "admissionregistration.k8s.io" {
            self.audience.changed();
        }
    }
}

/// Refuses what nobody could read again from its text, neither this server on its next start nor a client.
fn check_depth(value: &Value) -> Result<(), Rejection> {
    match tree::is_deeper(value, DEEPEST) {
        true => Err(Status::bad_request(format!(
            "the object is nested deeper than {DEEPEST} values, counting those that say who owns its fields"
        ))
        .into()),
        false => Ok(()),
    }
}

/// With bounds to what is kept of the past.
fn bounded(options: StoreOptions<StoredObject>) -> StoreOptions<StoredObject> {
    let options = options.window_weight(HISTORY_WEIGHT, |object| object.json().len());
    options.archive(ARCHIVE_AFTER, StoredObject::archived)
}

/// The answer to a write that the store did not take; `None` if it should be tried again.
fn refusal(resource: &Resource, name: &str, error: WriteError<StoredObject, Rejection>) -> Option<Rejection> {
    match error {
        WriteError::Conflict { .. } => None,
        WriteError::NotFound => Some(Status::not_found(&resource.group_resource(), name).into()),
        WriteError::Refused(rejection) => Some(rejection),
        WriteError::AlreadyExists(found) => Some(already_exists(resource, name, found.object.value())),
        WriteError::Journal(error) => Some(Status::internal(error.to_string()).into()),
    }
}

fn already_exists(resource: &Resource, name: &str, found: &Value) -> Rejection {
    use crate::object::Meta;
    let mut status = Status::already_exists(&resource.group_resource(), name);
    if found.is_being_deleted() {
        let message = status.message.take().unwrap_or_default();
        status.message = Some(format!("object is being deleted: {message}").into());
    }
    status.into()
}
