//! Server-side apply requests.

use std::sync::Arc;

use hyper::StatusCode;
use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{FieldValidation, PatchOptions};
use kubewright_yaml as yaml;

use super::ResourceRequest;
use crate::admission::Part;
use crate::http::ApiResponse;
use crate::registry::{self, FieldManager, Ownership, UpdateKind};
use crate::warnings::Warnings;
use kubewright_objects::object::{Meta, StoredObject, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_resources::decoding::{self, ExpectedType};

/// Maximum number of attempts after concurrent creations or deletions.
const ATTEMPTS: usize = 5;

impl ResourceRequest<'_, '_> {
    pub(super) async fn apply(&mut self, part: Part, options: &PatchOptions) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let resource = Arc::clone(self.resource);
        let config = self.configuration(ExpectedType::from(&*resource))?;
        let writer = self.writer(options.field_manager.as_deref());
        let mut attempt = 1;
        loop {
            let result = self.apply_to_stored(part, options, &writer, &config).await;
            let is_absent =
                |rejection: &Rejection| matches!(rejection, Rejection::Status(status) if status.is_not_found());
            match result {
                Err(rejection) if is_absent(&rejection) && part == Part::Main => {}
                result => {
                    let object = result?;
                    config.warn(options, &mut self.call.warnings);
                    return self.stored(StatusCode::OK, wanted, &object).await;
                }
            }
            match self.apply_to_nothing(options, &writer, &config).await {
                Err(Rejection::Status(status)) if status.is_already_exists() && attempt < ATTEMPTS => attempt += 1,
                result => {
                    let object = result?;
                    config.warn(options, &mut self.call.warnings);
                    return self.stored(StatusCode::CREATED, wanted, &object).await;
                }
            }
        }
    }

    /// Applies a scale: sets the replicas of the object.
    pub(super) async fn apply_scale(
        &mut self,
        expected: ExpectedType<'_>,
        options: &PatchOptions,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let mut config = self.configuration(expected)?;
        let writer = self.writer(options.field_manager.as_deref());
        registry::check_configuration(&config.value, expected.entry)?;
        config.value = self.call.registry.scale_configuration(self.resource, &config.value);
        let object = self.apply_to_stored(Part::Main, options, &writer, &config).await?;
        config.warn(options, &mut self.call.warnings);
        Ok(object)
    }

    /// Applies the part of the object that this subresource may change. `take` extracts it.
    pub(super) async fn apply_part(
        &mut self,
        part: Part,
        options: &PatchOptions,
        take: impl Fn(&Value, &Value) -> Value,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let resource = Arc::clone(self.resource);
        let config = self.configuration(ExpectedType::from(&*resource))?;
        let writer = self.writer(options.field_manager.as_deref());
        let request = self.update_request(part, UpdateKind::Patch, Ownership::Given, options.dry_run);
        let change = |live: &Value| {
            let new = config.apply(&resource, &writer, Some(live), options)?;
            let new = decoding::normalize(applied(&resource), &new)?.value;
            let mut changed = take(live, &new);
            match new.meta("managedFields") {
                Some(managers) => changed.set_meta("managedFields", managers.clone()),
                None => drop(changed.remove_meta("managedFields")),
            }
            Ok(changed)
        };
        let object = self.control.run_write(|_| self.call.registry.update(&request, change)).await?;
        config.warn(options, &mut self.call.warnings);
        Ok(object)
    }

    async fn apply_to_stored(
        &self,
        part: Part,
        options: &PatchOptions,
        writer: &FieldManager,
        config: &Configuration,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let resource = &**self.resource;
        let request = self.update_request(part, UpdateKind::Patch, Ownership::Given, options.dry_run);
        let change = |live: &Value| {
            let new = config.apply(resource, writer, Some(live), options)?;
            let new = decoding::normalize(applied(resource), &new)?.value;
            if self.target.subresource == "scale" { self.admit_scale(live, new, options.dry_run) } else { Ok(new) }
        };
        self.control.run_write(|_| self.call.registry.update(&request, change)).await
    }

    async fn apply_to_nothing(
        &self,
        options: &PatchOptions,
        writer: &FieldManager,
        config: &Configuration,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let resource = &**self.resource;
        let new = config.apply(resource, writer, None, options)?;
        let mut value = decoding::normalize(applied(resource), &new)?.value;
        let name = &self.target.name;
        if !value.uid().is_empty() {
            // An apply with a UID must not create a new object.
            let uid = value.uid();
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(&resource.group_resource(), name, why).into());
        }
        let message = match value.name() {
            "" => format!("the name of the object ({name} based on URL) was undeterminable: name must be provided"),
            other if other != name.as_str() => {
                format!("the name of the object ({other}) does not match the name on the URL ({name})")
            }
            _ => String::new(),
        };
        if !message.is_empty() {
            return Err(Status::bad_request(message).into());
        }
        value.remove_meta("resourceVersion");
        self.create_object(value, Ownership::Given, options.dry_run).await
    }

    /// The configuration in the body, which must be of the expected kind.
    fn configuration(&mut self, expected: ExpectedType<'_>) -> Result<Configuration, Rejection> {
        let undecodable = |error: &str| Rejection::from(Status::bad_request(format!("error decoding YAML: {error}")));
        let text = std::str::from_utf8(self.call.body).map_err(|_| undecodable("yaml: invalid UTF-8"))?;
        let document =
            yaml::parse(text).map_err(|error| undecodable(&format!("error converting YAML to JSON: {error}")))?;
        let (value, duplicates) = (document.value, document.duplicates);
        let (api_version, kind) = (tree::text(&value, &["apiVersion"]), tree::text(&value, &["kind"]));
        if (api_version, kind) != (expected.api_version, expected.kind) {
            let group_version = registry::group_version(api_version);
            return Err(Status::bad_request(format!("invalid object type: {group_version}, Kind={kind}")).into());
        }
        Ok(Configuration { value, duplicates })
    }
}

/// A configuration to be applied.
struct Configuration {
    value: Value,
    /// Messages about duplicate keys in the body.
    duplicates: Vec<String>,
}

impl Configuration {
    /// Applies the configuration to an object. Duplicate keys are checked last, as in the real
    /// server.
    fn apply(
        &self,
        resource: &Resource,
        writer: &FieldManager,
        live: Option<&Value>,
        options: &PatchOptions,
    ) -> Result<Value, Rejection> {
        let new = registry::apply(resource, writer, live, &self.value, options.force == Some(true))?;
        if options.field_validation == Some(FieldValidation::Strict) && !self.duplicates.is_empty() {
            let why = self.duplicates.join(", ");
            let message = format!("error strict decoding YAML: error converting YAML to JSON: {why}");
            return Err(Status::bad_request(message).into());
        }
        Ok(new)
    }

    /// Adds warnings about the body, as requested by `fieldValidation`.
    fn warn(&self, options: &PatchOptions, warnings: &mut Warnings) {
        if options.field_validation.unwrap_or(FieldValidation::Warn) == FieldValidation::Warn {
            warnings.extend(decoding::warnings(self.duplicates.clone()));
        }
    }
}

/// The expected type of the applied object.
fn applied(resource: &Resource) -> ExpectedType<'_> {
    ExpectedType { keeps_null: true, ..ExpectedType::from(resource) }
}
