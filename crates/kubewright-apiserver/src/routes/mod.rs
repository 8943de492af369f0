//! Routes requests for resources to their handlers.

mod apply;
mod component_status;
mod connect;
mod patch;
mod reviews;
mod subresource;
mod token;

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{HeaderMap, Method, StatusCode};
use kubewright_core::meta::v1::{Status, StatusDetails};
use kubewright_core::options::{CreateOptions, FieldValidation, GetOptions, ListOptions, UpdateOptions, WatchOptions};
use kubewright_core::{StatusReason, Value};

use crate::admission::Part;
use crate::admission::control::{Attributes, Control, Operation};
use crate::call::Call;
use crate::http::ApiResponse;
use crate::registry::{self, CreateRequest, FieldManager, ListPage, Ownership, Selectors, UpdateKind, UpdateRequest};
use crate::request::ResourcePath;
use kubewright_auth::authorization::{self, Action, ResourceAction};
use kubewright_objects::conversion::webhook::in_version;
use kubewright_objects::encoding::{self, Frames, Wanted};
use kubewright_objects::object::{Meta, StoredObject};
use kubewright_objects::rejection::{Rejection, retry_with_answers};
use kubewright_resources::accept::{Format, Offer};
use kubewright_resources::catalog::Resource;
use kubewright_resources::decoding::{self, ExpectedType};
use kubewright_storage::Key;
use kubewright_streaming::options::is_connection;

/// Longer lists are encoded on a blocking thread.
const OFFLOAD_THRESHOLD: usize = 200;
/// So are lists of large objects.
const OFFLOAD_BYTES: usize = 512 << 10;

/// Handles a request for a resource.
pub(crate) async fn answer(call: &mut Call<'_>, target: &ResourcePath) -> Result<ApiResponse, Rejection> {
    let catalog = call.registry.catalog();
    // The whole group is unknown, or only the resource is.
    let Some(resources) = catalog.resources(&target.group, &target.version) else {
        let is_known = catalog.serves_built_in(&target.group);
        return Err(if is_known { Rejection::no_such_resource() } else { Rejection::NoSuchPage });
    };
    let is_custom_group = resources.values().all(|resource| resource.is_custom());
    let lost = || if is_custom_group { Rejection::NoSuchPage } else { Rejection::no_such_resource() };
    let resource = resources.get(&target.resource).ok_or_else(lost)?;
    if let Some(why) = kubewright_validation::validation::path_segment(&target.name).first() {
        return Err(Status::bad_request(format!("Name parameter invalid: {:?}: {why}", target.name.as_str())).into());
    }
    let in_namespace = !target.namespace.is_empty();
    let is_collection = target.name.is_empty();
    // Only proxy subresources accept a longer path.
    let leads_on = target.subresource == "proxy" && resource.subresource("proxy").is_some();
    if (!target.rest.is_empty() && !leads_on) || (!resource.namespaced && in_namespace) {
        return Err(lost());
    }
    if resource.namespaced && !in_namespace && (!is_collection || (is_custom_group && call.method != Method::GET)) {
        return Err(lost());
    }
    // The real server has routes for known kinds only, and none of them accepts `HEAD`.
    if call.method == Method::HEAD && !resource.is_custom() {
        return Err(Rejection::no_such_method());
    }
    let control = match call.info.verb {
        "get" | "list" | "watch" if !is_connection(&target.subresource) => Control::without_hooks(call.user),
        _ => Control::new(call.registry, call.user, resource, &target.subresource),
    };
    let mut endpoint = ResourceRequest { call, resource, target, control: &control };
    endpoint.warn_of_deprecation();
    let answer = match (is_collection, &*target.subresource) {
        (true, _) => endpoint.collection().await,
        (false, "") => endpoint.object().await,
        (false, name) => {
            let subresource = resource.subresource(name).ok_or_else(|| {
                // As in the real server, a missing subresource of a custom resource is reported
                // like a missing object.
                if resource.is_custom() {
                    Status::not_found(&resource.group_resource(), &target.name).into()
                } else {
                    lost()
                }
            })?;
            endpoint.subresource(subresource).await
        }
    };
    call.warnings.extend(control.take_warnings());
    answer
}

/// A request for a known resource.
struct ResourceRequest<'a, 'c> {
    call: &'a mut Call<'c>,
    resource: &'a Arc<Resource>,
    target: &'a ResourcePath,
    control: &'a Control<'a>,
}

impl<'a> ResourceRequest<'a, '_> {
    async fn collection(&mut self) -> Result<ApiResponse, Rejection> {
        let (verb, everywhere) = (self.call.info.verb, self.resource.namespaced && self.target.namespace.is_empty());
        if !matches!(*self.call.method, Method::GET | Method::HEAD) && (everywhere || self.target.is_watch_path) {
            return Err(Rejection::no_such_method());
        }
        if !self.resource.is_stored() && verb == "create" && self.resource.has_verb("create") {
            return reviews::answer(self.call, self.resource, &self.target.namespace).await;
        }
        if !self.resource.has_verb(verb) {
            return Err(Rejection::no_such_method());
        }
        match verb {
            "list" if self.resource.is("", "componentstatuses") => self.list_components().await,
            "list" => self.list().await,
            "watch" => self.watch(None).await,
            "create" => self.create().await,
            "deletecollection" => self.delete_collection().await,
            _ => Err(Rejection::no_such_method()),
        }
    }

    async fn object(&mut self) -> Result<ApiResponse, Rejection> {
        let verb = self.call.info.verb;
        if verb == "get" && self.resource.is("", "componentstatuses") {
            return self.get_component().await;
        }
        if !self.resource.has_verb(verb) || !self.resource.is_stored() {
            return Err(Rejection::no_such_method());
        }
        match verb {
            "get" => self.get().await,
            "watch" => self.watch(Some(&self.target.name.clone())).await,
            "update" => self.update(Part::Main).await,
            "patch" => self.patch(Part::Main).await,
            "delete" => self.delete().await,
            _ => Err(Rejection::no_such_method()),
        }
    }

    async fn get(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        if self.call.query.flag("export") == Some(true) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why).into());
        }
        let options = GetOptions::from_query(self.call.query);
        if let Some(version) = options.resource_version.filter(|version| version != "0") {
            let revision = registry::parse_version(&version).map_err(Rejection::unexpected)?;
            self.call.registry.wait_for_revision(revision).await?;
        }
        let object = self.find()?;
        self.stored(StatusCode::OK, wanted, &object).await
    }

    async fn list(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let options = ListOptions::from_query(self.call.query)?;
        let selection = Selectors::new(self.resource, options.label_selector.clone(), options.field_selector.clone())?;
        let listed = self.call.registry.list(self.resource, &self.target.namespace, &selection, &options).await?;
        let unreadable = self.call.registry.unreadable.names_in(&self.resource.scope(&self.target.namespace));
        if !unreadable.is_empty() {
            let names = unreadable.join(", ");
            self.call.warnings.extend([format!("objects that cannot be read are missing from this list: {names}")]);
        }
        self.encoded(wanted, listed).await
    }

    async fn watch(&mut self, name: Option<&str>) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        if wanted.format == Format::Yaml {
            let streams =
                [Format::Json, Format::Protobuf].map(|format| format!("{};stream=watch", format.media_type()));
            let message = format!("only the following media types are accepted: {}", streams.join(", "));
            return Err(Status::failure(StatusReason::NotAcceptable, message).into());
        }
        let options = WatchOptions::from_query(self.call.query)?;
        let selection = Selectors::new(self.resource, options.label_selector.clone(), options.field_selector.clone())?;
        let selection = match name {
            Some(name) if selection.has_other_fields(name) => {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name").into());
            }
            Some(name) => selection.named(name),
            None => selection,
        };
        let frames = Frames::new(wanted);
        let content_type = frames.content_type();
        let stream =
            self.call.registry.watch(self.resource, &self.target.namespace, selection, &options, frames).await?;
        Ok(ApiResponse::watch(content_type, stream))
    }

    async fn create(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let options = CreateOptions::from_query(self.call.query)?;
        let value = self.decode(ExpectedType::from(&**self.resource), options.field_validation)?;
        let ownership = Ownership::Track(self.writer(options.field_manager.as_deref()));
        let object = self.create_object(value, ownership, options.dry_run).await?;
        self.stored(StatusCode::CREATED, wanted, &object).await
    }

    async fn create_object(
        &self,
        mut value: Value,
        ownership: Ownership,
        dry_run: bool,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let (resource, namespace, control) = (&**self.resource, &*self.target.namespace, Some(self.control));
        self.check_creation(&value).await?;
        let create = |is_tried: bool| {
            let value = if is_tried { value.clone() } else { std::mem::take(&mut value) };
            let ownership = ownership.clone();
            self.call.registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run })
        };
        self.control.run_write(create).await
    }

    /// Checks whether an object may be created now, and by this user.
    async fn check_creation(&self, value: &Value) -> Result<(), Rejection> {
        let resource = &**self.resource;
        if resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&resource.group_resource(), value.name(), why).into());
        }
        // An apply or update that creates an object needs the permission to create.
        if self.call.info.verb == "create" {
            return Ok(());
        }
        let action = Action::Resource(ResourceAction {
            verb: "create",
            group: &resource.group,
            resource: &resource.plural,
            namespace: self.target.authorized_namespace(),
            name: &self.target.name,
            ..ResourceAction::default()
        });
        retry_with_answers(|| authorization::authorize(self.call.registry, self.call.user, action)).await
    }

    async fn update(&mut self, part: Part) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let options = UpdateOptions::from_query(self.call.query)?;
        let value = self.replacement(ExpectedType::from(&**self.resource), options.field_validation)?;
        let request = self.tracked(part, UpdateKind::Put, options.field_manager.as_deref(), options.dry_run);
        match self.control.run_write(|_| self.call.registry.update(&request, |_| Ok(value.clone()))).await {
            Err(Rejection::Status(status)) if status.is_not_found() && self.is_created_by_update(part) => {
                let mut value = value;
                if !value.uid().is_empty() {
                    // A UID refers to an existing object.
                    let (namespace, name) = (&self.target.namespace, &self.target.name);
                    return Err(registry::wrong_uid(self.resource, namespace, name, value.uid(), ""));
                }
                if let Some(version) = value.remove_meta("resourceVersion") {
                    let version = version.as_str().unwrap_or_default();
                    if !version.is_empty() && version.parse::<u64>().is_err() {
                        return Err(registry::unreadable_version(version));
                    }
                }
                let ownership = Ownership::Track(self.writer(options.field_manager.as_deref()));
                let object = self.create_object(value, ownership, options.dry_run).await?;
                self.stored(StatusCode::CREATED, wanted, &object).await
            }
            result => self.stored(StatusCode::OK, wanted, &result?).await,
        }
    }

    /// Whether an update of a missing object creates it. Few kinds allow that, for clients that
    /// only use `PUT`.
    fn is_created_by_update(&self, part: Part) -> bool {
        let is_lax = match (&*self.resource.group, &*self.resource.plural) {
            ("", "endpoints" | "events" | "limitranges" | "services") => true,
            ("coordination.k8s.io", "leases") | ("node.k8s.io", "runtimeclasses") => true,
            ("rbac.authorization.k8s.io" | "events.k8s.io", _) => !self.resource.is_custom(),
            _ => false,
        };
        is_lax && part == Part::Main
    }

    async fn delete(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let options = decoding::delete_options(self.call.query, body_format(self.call.headers)?, self.call.body)?;
        let (namespace, name) = (&self.target.namespace, &self.target.name);
        let (registry, mut warnings) = (self.call.registry, Vec::new());
        let key = self.resource.key(namespace, name);
        if registry.unreadable.contains(&key) && !options.dry_run {
            return self.delete_unreadable(wanted, &key).await;
        }
        let delete = |_| {
            warnings.clear();
            registry.delete(self.resource, namespace, name, &options, &mut warnings, Some(self.control))
        };
        let deleted = self.control.run_write(delete).await?;
        self.call.warnings.extend(warnings);
        if deleted.is_answered_with_object(self.resource) {
            return self.stored(StatusCode::OK, wanted, deleted.object()).await;
        }
        let details = StatusDetails {
            name: Some(name.clone()),
            group: Some(self.resource.group.clone()).filter(|group| !group.is_empty()),
            kind: Some(self.resource.plural.clone()),
            uid: Some(deleted.object().tree().uid().into()),
            ..Default::default()
        };
        let status = Status { details: Some(details.into()), ..Status::success() };
        Ok(ApiResponse::status(StatusCode::OK, wanted, &status))
    }

    /// Deletes an undecodable object, without admission.
    async fn delete_unreadable(&self, wanted: Wanted, key: &Key) -> Result<ApiResponse, Rejection> {
        if let Some(disk) = self.call.disk {
            let (resource, path) = key.parts();
            let discarded = disk.discard(resource.to_owned(), path.to_owned()).await;
            discarded.map_err(|error| Status::internal(error.to_string()))?;
        }
        self.call.registry.unreadable.remove(key);
        Ok(ApiResponse::status(StatusCode::OK, wanted, &Status::success()))
    }

    async fn delete_collection(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let listing = ListOptions::from_query(self.call.query)?;
        let selection = Selectors::new(self.resource, listing.label_selector.clone(), listing.field_selector.clone())?;
        let options = decoding::delete_options(self.call.query, body_format(self.call.headers)?, self.call.body)?;
        let namespace = &self.target.namespace;
        let listed = self.call.registry.list(self.resource, namespace, &selection, &listing).await?;
        for object in &listed.objects {
            let Some(name) = object.field(&["metadata", "name"]) else { continue };
            let name = name.as_str().unwrap_or_default();
            let (registry, mut warnings) = (self.call.registry, Vec::new());
            let delete =
                |_| registry.delete(self.resource, namespace, name, &options, &mut warnings, Some(self.control));
            let deleted = self.control.run_write(delete).await;
            self.call.warnings.extend(warnings);
            // A collection may be large, so yield in between.
            tokio::task::coop::consume_budget().await;
            match deleted {
                // A concurrent request has deleted the object.
                Err(Rejection::Status(status)) if status.is_not_found() => {}
                other => drop(other?),
            }
        }
        // The metadata has a continue token, as for lists.
        self.encoded(wanted, listed).await
    }

    /// The response with a list. Long lists are encoded on a blocking thread.
    async fn encoded(&self, wanted: Wanted, listed: ListPage) -> Result<ApiResponse, Rejection> {
        let ListPage { objects, meta } = listed;
        let objects = in_version(&self.call.registry.webhook_clients, self.resource, objects).await?;
        let resource = Arc::clone(self.resource);
        let bytes: usize = objects.iter().take(OFFLOAD_THRESHOLD).map(|object| object.json().len()).sum();
        let is_long = objects.len() > OFFLOAD_THRESHOLD || bytes > OFFLOAD_BYTES;
        let encode = move || encoding::list(wanted, &resource, &meta, objects);
        let body = if is_long { self.call.registry.offload.run(encode).await?? } else { encode()? };
        Ok(ApiResponse::list(wanted, body))
    }

    fn find(&self) -> Result<Arc<StoredObject>, Rejection> {
        let found = self.call.registry.get(self.resource, &self.target.namespace, &self.target.name);
        found.map(|entry| entry.object)
    }

    /// Converts a stored object to the version of the request, if that needs a webhook.
    async fn in_version(&self, object: &Arc<StoredObject>) -> Result<Arc<StoredObject>, Rejection> {
        if !self.resource.needs_webhook() {
            return Ok(Arc::clone(object));
        }
        let converted =
            in_version(&self.call.registry.webhook_clients, self.resource, vec![Arc::clone(object)]).await?;
        Ok(converted.into_iter().next().unwrap_or_else(|| Arc::clone(object)))
    }

    /// Runs admission for the object that was sent to a subresource.
    fn admit(
        &self,
        operation: Operation,
        object: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Rejection> {
        let (namespace, name) = (&*self.target.namespace, &*self.target.name);
        let attributes =
            Attributes { operation, resource: self.resource, shown: None, namespace, name, object: None, old, dry_run };
        self.control.mutate(self.call.registry, attributes, Some(object))?;
        self.control.validate(self.call.registry, &Attributes { object: Some(object), ..attributes })
    }

    fn update_request(&self, part: Part, origin: UpdateKind, ownership: Ownership, dry_run: bool) -> UpdateRequest<'a> {
        let (resource, target) = (self.resource, self.target);
        let (namespace, name, control) = (&*target.namespace, &*target.name, Some(self.control));
        UpdateRequest { resource, namespace, name, part, origin, control, ownership, dry_run }
    }

    /// An update that makes the writer the owner of changed fields.
    fn tracked(&self, part: Part, origin: UpdateKind, field_manager: Option<&str>, dry_run: bool) -> UpdateRequest<'a> {
        self.update_request(part, origin, Ownership::Track(self.writer(field_manager)), dry_run)
    }

    /// The field manager of this request.
    fn writer(&self, field_manager: Option<&str>) -> FieldManager {
        let user_agent = self.call.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        FieldManager::new(field_manager, user_agent, &self.target.subresource)
    }

    fn wanted(&self) -> Result<Wanted, Rejection> {
        let offer = if self.resource.is_custom() { Offer::Custom } else { Offer::BuiltIn };
        Wanted::negotiate(self.call.headers, self.call.query, offer)
    }

    fn decode(&mut self, expected: ExpectedType<'_>, validation: Option<FieldValidation>) -> Result<Value, Rejection> {
        decode(self.call, expected, validation)
    }

    /// The object in the body of a `PUT`. Its name and namespace must equal those of the path.
    fn replacement(
        &mut self,
        expected: ExpectedType<'_>,
        validation: Option<FieldValidation>,
    ) -> Result<Value, Rejection> {
        let value = self.decode(expected, validation)?;
        registry::check_target(self.resource, &self.target.namespace, &self.target.name, &value)?;
        Ok(value)
    }

    async fn stored(
        &self,
        status: StatusCode,
        wanted: Wanted,
        object: &Arc<StoredObject>,
    ) -> Result<ApiResponse, Rejection> {
        let object = &self.in_version(object).await?;
        Ok(ApiResponse::document(status, wanted, encoding::object(wanted, self.resource, object)?))
    }

    fn warn_of_deprecation(&mut self) {
        if self.resource.is("", "endpoints") {
            let warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
            self.call.warnings.add(warning);
        } else if self.resource.is("", "componentstatuses") {
            self.call.warnings.add("v1 ComponentStatus is deprecated in v1.19+");
        }
        let deprecation = self.resource.custom.as_ref().and_then(|custom| custom.deprecation.as_deref());
        self.call.warnings.extend(deprecation.map(str::to_owned));
    }
}

/// The format of the request body.
fn body_format(headers: &HeaderMap) -> Result<Format, Box<Status>> {
    decoding::format_of(headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("unreadable")))
}

/// Decodes the body. Findings become errors or warnings.
pub(crate) fn decode(
    call: &mut Call<'_>,
    expected: ExpectedType<'_>,
    validation: Option<FieldValidation>,
) -> Result<Value, Rejection> {
    let decoded = decoding::object(expected, body_format(call.headers)?, call.body)?;
    call.warnings.extend(decoding::check_findings(expected, decoded.findings, validation)?);
    Ok(decoded.value)
}

/// A 201 response with a success Status.
pub(crate) fn done(call: &Call<'_>) -> Result<ApiResponse, Rejection> {
    let wanted = Wanted::negotiate(call.headers, call.query, Offer::Plain)?;
    let status = Status { code: Some(201), ..Status::success() };
    Ok(ApiResponse::status(StatusCode::CREATED, wanted, &status))
}
