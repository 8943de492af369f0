//! Subresources: status, scale, finalizers, binding, eviction and others.

use std::sync::Arc;

use hyper::StatusCode;
use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{CreateOptions, PatchType, UpdateOptions};

use super::patch::PatchAttempt;
use super::{ResourceRequest, done};
use crate::admission::Part;
use crate::admission::control::Operation;
use crate::http::ApiResponse;
use crate::patching;
use crate::registry::UpdateKind;
use kubewright_objects::encoding::{self, Wanted};
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_printers::{Printer, partial_object_metadata};
use kubewright_resources::accept::{Form, Offer};
use kubewright_resources::catalog::Subresource;
use kubewright_resources::decoding::{self, ExpectedType};
use kubewright_streaming::options::is_connection;

impl ResourceRequest<'_, '_> {
    pub(super) async fn subresource(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        let verb = self.call.info.verb;
        if !subresource.verbs.contains(&verb) {
            if self.resource.is_custom() {
                return Err(Status::method_not_allowed(&self.resource.group_resource(), verb).into());
            }
            return Err(Rejection::no_such_method());
        }
        match (&*subresource.name, verb) {
            ("status", "get") => self.get().await,
            ("status", "update") => self.update(Part::Status).await,
            ("status", "patch") => self.patch(Part::Status).await,
            ("scale", "get") => {
                let object = self.in_version(&self.find()?).await?;
                let scale =
                    self.call.registry.scale_of(self.resource, &encoding::served(self.resource, &object.tree()))?;
                self.scale_answer(&scale)
            }
            ("scale", _) => self.scale(subresource).await,
            ("token", "create") => self.issue_token(subresource).await,
            ("finalize", "update") => self.finalize().await,
            ("binding", "create") => self.bind(subresource).await,
            ("eviction", "create") => self.evict(subresource).await,
            ("ephemeralcontainers" | "resize" | "approval", "get") => self.get().await,
            ("ephemeralcontainers", _) => self.pod_part(Part::Ephemeral).await,
            ("resize", _) => self.pod_part(Part::Resize).await,
            ("approval", "update") => self.update(Part::Approval).await,
            ("approval", "patch") => self.patch(Part::Approval).await,
            (name, _) if is_connection(name) => self.connect(subresource).await,
            ("log", _) => self.log().await,
            (name, _) => Err(Rejection::not_implemented(&format!("the subresource {name}"))),
        }
    }

    async fn scale(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        let expected = ExpectedType::from(subresource);
        let registry = self.call.registry;
        let (resource, body) = (Arc::clone(self.resource), self.call.body.clone());
        let object = if self.call.info.verb == "update" {
            let options = UpdateOptions::from_query(self.call.query)?;
            let scale = self.replacement(expected, options.field_validation)?;
            let request = self.tracked(Part::Main, UpdateKind::Put, options.field_manager.as_deref(), options.dry_run);
            // A scale without a version is unconditional, even for kinds that require a version.
            let change = |old: &Value| {
                let mut new = registry.with_scale(&resource, old, &scale)?;
                if new.resource_version().is_empty() && resource.is_custom() {
                    new.set_meta("resourceVersion", old.resource_version());
                }
                self.admit_scale(old, new, options.dry_run)
            };
            self.control.run_write(|_| registry.update(&request, change)).await?
        } else {
            let (kind, options) = self.patch_options()?;
            if kind == PatchType::Apply {
                let object = self.apply_scale(expected, &options).await?;
                let object = self.in_version(&object).await?;
                let scale = registry.scale_of(self.resource, &encoding::served(self.resource, &object.tree()))?;
                return self.scale_answer(&scale);
            }
            let request =
                self.tracked(Part::Main, UpdateKind::Patch, options.field_manager.as_deref(), options.dry_run);
            // Custom resources do not support strategic merge patches, not even for scales.
            let scheme = expected.entry.filter(|_| !resource.is_custom()).map(|entry| entry.info);
            let mut findings = Vec::new();
            let mut change = |old: &Value| {
                let scale = registry.scale_to_change(&resource, old);
                let (patched, mut found) = patching::apply(kind, &scale, &body, scheme)?;
                let attempt = PatchAttempt { kind, body: &body, expected, patched: &patched };
                let decoded = decoding::normalize(expected, &patched).map_err(|status| attempt.unfit(status))?;
                found.extend(decoded.findings);
                findings = attempt.findings(found, options.field_validation)?;
                let mut new = registry.with_scale(&resource, old, &decoded.value)?;
                // Only a `PUT` has a UID precondition.
                new.set_meta("uid", old.uid());
                self.admit_scale(old, new, options.dry_run)
            };
            let object = self.control.run_write(|_| registry.update(&request, &mut change)).await?;
            self.call.warnings.extend(findings);
            object
        };
        let object = self.in_version(&object).await?;
        let scale = registry.scale_of(self.resource, &encoding::served(self.resource, &object.tree()))?;
        self.scale_answer(&scale)
    }

    /// Updates the ephemeral containers or the resources of a pod.
    async fn pod_part(&mut self, part: Part) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let expected = ExpectedType::from(&**self.resource);
        let (resource, body) = (Arc::clone(self.resource), self.call.body.clone());
        let scheme = resource.entry.map(|entry| entry.info);
        let object = if self.call.info.verb == "update" {
            let options = UpdateOptions::from_query(self.call.query)?;
            let pod = self.replacement(expected, options.field_validation)?;
            let request = self.tracked(part, UpdateKind::Put, options.field_manager.as_deref(), options.dry_run);
            let change = |old: &Value| Ok(with_part(part, old, &pod));
            self.control.run_write(|_| self.call.registry.update(&request, change)).await?
        } else {
            let (kind, options) = self.patch_options()?;
            if kind == PatchType::Apply {
                let object = self.apply_part(part, &options, |old, new| with_part(part, old, new)).await?;
                return self.stored(StatusCode::OK, wanted, &object).await;
            }
            let request = self.tracked(part, UpdateKind::Patch, options.field_manager.as_deref(), options.dry_run);
            let change = |old: &Value| {
                let (patched, _) = patching::apply(kind, old, &body, scheme)?;
                let attempt = PatchAttempt { kind, body: &body, expected, patched: &patched };
                let decoded = decoding::normalize(expected, &patched).map_err(|status| attempt.unfit(status))?;
                Ok(with_part(part, old, &decoded.value))
            };
            self.control.run_write(|_| self.call.registry.update(&request, change)).await?
        };
        self.stored(StatusCode::OK, wanted, &object).await
    }

    /// Replaces the finalizers of a namespace. Other fields stay unchanged.
    async fn finalize(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let options = UpdateOptions::from_query(self.call.query)?;
        let value = self.replacement(ExpectedType::from(&**self.resource), options.field_validation)?;
        let request = self.tracked(Part::Internal, UpdateKind::Put, options.field_manager.as_deref(), options.dry_run);
        let change = |old: &Value| {
            let mut new = old.clone();
            match tree::get(&value, &["spec", "finalizers"]) {
                Some(finalizers) => tree::set(&mut new, &["spec", "finalizers"], finalizers.clone()),
                None => drop(tree::remove(&mut new, &["spec", "finalizers"])),
            }
            match value.resource_version() {
                "" => drop(new.remove_meta("resourceVersion")),
                version => new.set_meta("resourceVersion", version),
            }
            self.admit(Operation::Update, &mut new, Some(old), options.dry_run).map(|()| new)
        };
        let object = self.control.run_write(|_| self.call.registry.update(&request, change)).await?;
        self.stored(StatusCode::OK, wanted, &object).await
    }

    async fn bind(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        let options = CreateOptions::from_query(self.call.query)?;
        let binding = self.decode(ExpectedType::from(subresource), options.field_validation)?;
        let (namespace, name) = (&self.target.namespace, &self.target.name);
        let bind = |_| {
            let mut binding = binding.clone();
            if binding.name().is_empty() {
                binding.set_meta("name", name.clone());
            }
            if binding.namespace().is_empty() {
                binding.set_meta("namespace", namespace.clone());
            }
            self.admit(Operation::Create, &mut binding, None, options.dry_run)?;
            self.call.registry.bind(self.resource, namespace, name, &binding, options.dry_run)
        };
        self.control.run_write(bind).await?;
        done(self.call)
    }

    async fn evict(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        let options = CreateOptions::from_query(self.call.query)?;
        let eviction = self.decode(ExpectedType::from(subresource), options.field_validation)?;
        let name = &self.target.name;
        if eviction.name() != name.as_str() && !eviction.name().is_empty() {
            return Err(Status::bad_request("name in URL does not match name in Eviction object").into());
        }
        let evict = |_| {
            let mut eviction = eviction.clone();
            let mut deletion = decoding::delete_options_of(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
            deletion.dry_run |= options.dry_run;
            self.admit(Operation::Create, &mut eviction, None, deletion.dry_run)?;
            self.call.registry.evict(self.resource, &self.target.namespace, name, &deletion)
        };
        self.control.run_write(evict).await?;
        done(self.call)
    }

    /// Runs admission for the scale of `new`, and returns the resulting object.
    pub(super) fn admit_scale(&self, old: &Value, new: Value, dry_run: bool) -> Result<Value, Rejection> {
        if !self.control.has_hooks() {
            return Ok(new);
        }
        let (registry, resource) = (self.call.registry, &**self.resource);
        let (before, sent) = (registry.scale_to_change(resource, old), registry.scale_to_change(resource, &new));
        let mut scale = sent.clone();
        self.admit(Operation::Update, &mut scale, Some(&before), dry_run)?;
        if scale == sent { Ok(new) } else { registry.with_scale(resource, &new, &scale) }
    }

    fn scale_answer(&self, scale: &Value) -> Result<ApiResponse, Rejection> {
        let wanted = Wanted::negotiate(self.call.headers, self.call.query, Offer::BuiltIn)?;
        let metadata = || scale.get("metadata").cloned().unwrap_or_default();
        let shown = match wanted.form {
            Form::Table(version) => {
                let printer = Printer::for_scale();
                printer.table(&metadata(), [scale], Some(printer.columns()), &wanted.rows(version))
            }
            Form::Metadata(version) => partial_object_metadata(scale, version),
            _ => scale.clone(),
        };
        Ok(ApiResponse::document(StatusCode::OK, wanted, encoding::tree(wanted, &shown)?))
    }
}

/// The pod `old` with the subresource part of `new`.
fn with_part(part: Part, old: &Value, new: &Value) -> Value {
    let mut pod = old.clone();
    if part == Part::Ephemeral {
        match tree::get(new, &["spec", "ephemeralContainers"]) {
            Some(containers) => tree::set(&mut pod, &["spec", "ephemeralContainers"], containers.clone()),
            None => drop(tree::remove(&mut pod, &["spec", "ephemeralContainers"])),
        }
    } else if let Some(spec) = tree::field_mut(&mut pod, "spec") {
        for list in ["containers", "initContainers"] {
            let containers = tree::items_mut(spec, list).iter_mut();
            for (container, changed) in containers.zip(tree::items(new, &["spec", list])) {
                for field in ["resources", "resizePolicy"] {
                    if let Some(value) = changed.get(field) {
                        tree::set(container, &[field], value.clone());
                    }
                }
            }
        }
        // Pod-level resources. Omitting them is a removal, which validation rejects.
        match tree::get(new, &["spec", "resources"]) {
            Some(resources) => tree::set(spec, &["resources"], resources.clone()),
            None => drop(tree::remove(spec, &["resources"])),
        }
    }
    match new.resource_version() {
        "" => drop(pod.remove_meta("resourceVersion")),
        version => pod.set_meta("resourceVersion", version),
    }
    pod
}
