//! Creates objects.

use std::sync::{Arc, PoisonError};

use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{CauseType, Str, Value};
use kubewright_net::clock;

use super::ownership::track;
use super::{Ownership, Registry, check_depth, note_write, refusal};
use crate::admission;
use crate::admission::control::{Attributes, Control, Operation};
use crate::admission::plugins::AdmissionPlugin;
use crate::admission::quota::QuotaPermit;
use crate::admission::state::ClusterState;
use kubewright_auth::authorization;
use kubewright_objects::conversion;
use kubewright_objects::object::{Meta, ObjectDraft, StoredObject};
use kubewright_objects::random;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{EventKind, PrimaryWrite, WriteError};

/// Maximum length of a `generateName` prefix; longer ones are truncated.
const GENERATED_PREFIX_MAX: usize = 58;
/// Number of random characters in a generated name.
const GENERATED_LETTERS: usize = 5;
/// Number of attempts to find a free generated name.
const GENERATE_ATTEMPTS: usize = 8;

/// Maximum number of attempts, if other servers use the same addresses or quotas.
const CONTENDED_ATTEMPTS: usize = 1000;

/// The arguments of a creation.
#[derive(Clone)]
pub(crate) struct CreateRequest<'a> {
    pub(crate) resource: &'a Resource,
    /// The namespace of the request path.
    pub(crate) namespace: &'a str,
    pub(crate) value: Value,
    /// The admission control of the request. `None` for the server's own writes.
    pub(crate) control: Option<&'a Control<'a>>,
    pub(crate) ownership: Ownership,
    pub(crate) dry_run: bool,
}

/// The result of storing a new object.
type StoredNew = Result<Arc<StoredObject>, WriteError<StoredObject>>;

impl Registry {
    /// Creates an object.
    ///
    /// The namespace check precedes all others. It is repeated right before the write, because the
    /// caller runs this function again after each webhook call.
    pub(crate) fn create(&self, mut request: CreateRequest<'_>) -> Result<Arc<StoredObject>, Rejection> {
        for _ in 0..CONTENDED_ATTEMPTS {
            let again = self.database.is_some().then(|| request.clone());
            match (self.try_create(request)?, again) {
                (Some(created), _) => return Ok(created),
                (None, Some(again)) => request = again,
                (None, None) => break,
            }
        }
        Err(Status::internal("other servers have changed the allocations of the object too often").into())
    }

    /// Creates an object. `None` if another server has taken what it was given meanwhile.
    fn try_create(&self, request: CreateRequest<'_>) -> Result<Option<Arc<StoredObject>>, Rejection> {
        let CreateRequest { resource, namespace, mut value, control, ownership, dry_run } = request;
        // Reset fields that only the server writes, before ownership is computed.
        for field in ["selfLink", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            value.remove_meta(field);
        }
        set_namespace(resource, namespace, &mut value)?;
        self.check_open(resource, namespace, value.name())?;
        if let Some(control) = control {
            self.mutate_new(control, resource, namespace, &mut value, dry_run)?;
        }
        let managers = match &ownership {
            Ownership::Keep => None,
            Ownership::Given => value.meta("managedFields").cloned(),
            Ownership::Track(writer) => track(resource, writer, None, &value),
        };
        let mut value = conversion::to_stored(resource, value);
        if let Some(control) = control {
            admission::set_requester(resource, &mut value, control.user);
        }
        set_namespace(resource, namespace, &mut value)?;
        let generated = value.name().is_empty().then(|| Str::from(value.meta_text("generateName")));
        let generated = generated.filter(|prefix| !prefix.is_empty());
        if let Some(prefix) = &generated {
            value.set_meta("name", generate(prefix, control.map(|control| control.letters())));
        }
        value.remove_meta("managedFields");
        if let Some(managers) = managers {
            value.set_meta("managedFields", managers);
        }
        value.set_meta("uid", control.map_or_else(random::uid, |control| control.uid.clone()));
        value.set_meta("creationTimestamp", control.map_or_else(clock::now, |control| control.time).to_string());
        let _turn = resource.is("", "services").then(|| self.allocation.lock().unwrap_or_else(PoisonError::into_inner));
        admission::create(self, resource, &mut value)?;
        if let Some(control) = control {
            authorization::check_escalation(self, control.user, resource, &value)?;
            admission::classes::check(self, resource, &value)?;
            admission::limits::check(self, resource, &value)?;
            admission::security::check(self, control, resource, None, &value)?;
            control.validate(self, &new_object(resource, namespace, &value, dry_run))?;
            admission::warnings(resource, None, &value).into_iter().for_each(|warning| control.warn(warning));
        }
        let permit = match control {
            Some(_) => admission::quota::check(self, resource, None, &value)?,
            None => None,
        };
        conversion::settle(resource, &mut value, control.map(Control::conversions))?;
        check_depth(&value)?;
        let attempts = if generated.is_some() { GENERATE_ATTEMPTS } else { 1 };
        for attempt in 1..=attempts {
            let candidate = if attempt < attempts { value.clone() } else { std::mem::take(&mut value) };
            let name = Str::from(candidate.name());
            let companions = match self.companions(resource, None, Some(&candidate), permit.as_ref())? {
                _ if dry_run => Vec::new(),
                Some(companions) => companions,
                None => return Ok(None),
            };
            match self.store_new(resource, candidate, companions, dry_run)? {
                Ok(object) => {
                    if !dry_run {
                        permit.iter().for_each(QuotaPermit::update_status);
                        self.after_write(resource, &[&object]);
                        self.after_update(resource, &object);
                    }
                    return Ok(Some(object));
                }
                Err(WriteError::Contended) => return Ok(None),
                Err(WriteError::AlreadyExists(_)) if generated.is_some() => {
                    if attempt == attempts {
                        return Err(Status::generate_name_conflict(&resource.group_resource(), &name).into());
                    }
                    value.set_meta("name", generate(generated.as_deref().unwrap_or_default(), None));
                }
                Err(error) => {
                    let rejection = refusal(resource, &name, error);
                    return Err(rejection.unwrap_or_else(|| Status::internal("creation met another").into()));
                }
            }
        }
        Err(Status::internal("no name was tried").into())
    }

    /// Stores a new object, or reports that its name is taken. A dry run only checks.
    fn store_new(
        &self,
        resource: &Resource,
        value: Value,
        companions: Vec<PrimaryWrite<StoredObject>>,
        dry_run: bool,
    ) -> Result<StoredNew, Rejection> {
        let key = resource.key(value.namespace(), value.name());
        let version = Str::from(value.resource_version());
        let draft = ObjectDraft::new(value);
        draft.check_size()?;
        if dry_run {
            return Ok(match self.store.newest(&key) {
                Some(found) => Err(WriteError::AlreadyExists(found)),
                None => Ok(Arc::new(draft.unstamped(&version))),
            });
        }
        // The storage of the real server judges this, after validation, and counts an unparsable
        // version as unset.
        if version.parse::<u64>().is_ok_and(|version| version != 0) {
            return Err(Rejection::unexpected("resourceVersion should not be set on objects to be created"));
        }
        if let Some(rejection) = self.unreadable.rejection(resource, &key) {
            return Err(rejection);
        }
        let created = self.store.write_together(EventKind::Created, &key, None, draft, companions);
        Ok(created.inspect(note_write).map(|entry| entry.object))
    }

    /// Runs mutating admission for a new object.
    fn mutate_new(
        &self,
        control: &Control<'_>,
        resource: &Resource,
        namespace: &str,
        value: &mut Value,
        dry_run: bool,
    ) -> Result<(), Rejection> {
        let name = Str::from(value.name());
        let attributes = Attributes { name: &name, ..new_object(resource, namespace, &Value::Null, dry_run) };
        admission::classes::complete(self, resource, value)?;
        admission::limits::set_defaults(self, resource, namespace, value);
        admission::accounts::assign(self, resource, namespace, value, control)?;
        admission::node_taint::add(self, resource, value);
        control.mutate(self, attributes, Some(value))
    }

    /// Checks that the namespace exists and is not terminating.
    #[doc(alias = "NamespaceLifecycle")]
    fn check_open(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), Rejection> {
        if !resource.namespaced || !self.has_plugin(AdmissionPlugin::NamespaceLifecycle) {
            return Ok(());
        }
        let catalog = self.catalog();
        let namespaces = catalog.of_storage("namespaces").ok_or_else(Rejection::no_such_resource)?;
        let found = self.newest(namespaces, "", namespace)?;
        if !found.object.value().is_being_deleted() {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut cause =
            StatusCause::of(CauseType::NamespaceTerminating, format!("namespace {namespace} is being terminated"));
        cause.field = Some("metadata.namespace".into());
        Err(Status::forbidden(&resource.group_resource(), name, why).with_cause(cause).into())
    }
}

/// Sets the namespace of the request path. Rejects an object with a different namespace.
fn set_namespace(resource: &Resource, namespace: &str, value: &mut Value) -> Result<(), Rejection> {
    if !resource.namespaced {
        value.remove_meta("namespace");
        return Ok(());
    }
    check_namespace(namespace, value)?;
    value.set_meta("namespace", namespace);
    Ok(())
}

/// The admission attributes of the creation.
fn new_object<'a>(resource: &'a Resource, namespace: &'a str, value: &'a Value, dry_run: bool) -> Attributes<'a> {
    let operation = Operation::Create;
    Attributes {
        operation,
        resource,
        shown: None,
        namespace,
        name: value.name(),
        object: Some(value),
        old: None,
        dry_run,
    }
}

/// Checks that a namespace in the body equals that of the path.
pub(super) fn check_namespace(namespace: &str, value: &Value) -> Result<(), Rejection> {
    if matches!(value.namespace(), "") || value.namespace() == namespace {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    Err(Status::bad_request(message).into())
}

fn generate(prefix: &str, letters: Option<&str>) -> String {
    let mut end = prefix.len().min(GENERATED_PREFIX_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let letters = letters.map_or_else(|| random::letters(GENERATED_LETTERS), str::to_owned);
    format!("{}{letters}", &prefix[..end])
}
