//! The webhooks of a program, by path.
//!
//! A validator gets the new object and, for an update, the old one. Deletions have a function of
//! their own, [`Webhooks::validate_deletion`]. So the rules of a configuration follow from the
//! functions that exist. In controller-runtime a `ValidateDelete` that its marker forgot is never
//! called.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use kubewright_core::meta::v1::Status;
use kubewright_core::{Kind, Object};

use super::configuration::{Registration, WebhookRule};
use super::context::{AdmissionContext, Operation};
use super::conversion::Converter;
use super::denial::{Denial, Warnings, response};
use super::request::AdmissionRequest;
use super::response::AdmissionResponse;
use super::route::{self, Route};
use super::{mutate_path, path_of, validate_path};

/// Validators, mutators and converters.
///
/// ```
/// # use kubewright_api::apps::v1::Deployment;
/// use kubewright_runtime::webhook::{AdmissionContext, Denial, Warnings, Webhooks};
///
/// /// A function over typed objects is tested by calling it.
/// async fn validate(new: Deployment, old: Option<Deployment>, _: AdmissionContext) -> Result<Warnings, Denial> {
///     let replicas = |of: &Deployment| of.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
///     if replicas(&new) > 100 {
///         return Err("at most 100 replicas".into());
///     }
///     let is_emptied = replicas(&new) == 0 && old.is_some_and(|old| replicas(&old) > 0);
///     Ok(if is_emptied { "the last replica is removed".into() } else { Warnings::default() })
/// }
///
/// let webhooks = Webhooks::new()
///     .validate(validate)
///     .validate_deletion(|old: Deployment, _| async move {
///         if old.metadata.labels.contains_key("keep") { Err("labelled keep".into()) } else { Ok(()) }
///     })
///     .mutate(|new: &mut Deployment, _old: Option<&Deployment>, context: &AdmissionContext| {
///         new.metadata.labels.insert("written-by", context.user.username.clone().unwrap_or_default());
///         Ok(())
///     });
/// # drop(webhooks);
/// ```
#[derive(Default)]
pub struct Webhooks {
    routes: BTreeMap<String, Route>,
    registrations: Vec<Registration>,
    duplicate: Option<String>,
}

impl Webhooks {
    /// None.
    pub fn new() -> Self {
        Webhooks::default()
    }

    /// Validates creations and updates of a kind, at [`validate_path`]. `validator` receives the
    /// new object, and for an update the existing one. It returns warnings, or a denial.
    ///
    /// It is not called for subresources such as `status`.
    #[doc(alias = "CustomValidator")]
    #[doc(alias = "ValidateCreate")]
    #[doc(alias = "ValidateUpdate")]
    #[must_use]
    pub fn validate<T, W, R>(
        self,
        validator: impl Fn(T, Option<T>, AdmissionContext) -> R + Send + Sync + 'static,
    ) -> Self
    where
        T: Kind,
        W: Into<Warnings>,
        R: Future<Output = Result<W, Denial>> + Send + 'static,
    {
        let handler = move |request: AdmissionRequest<T>| {
            let missing = request.written().err();
            let AdmissionRequest { context, object, old_object, .. } = request;
            let decided = object.filter(|_| missing.is_none()).map(|new| validator(new, old_object, context));
            async move {
                match decided {
                    Some(decided) => response(decided.await, AdmissionResponse::allow),
                    None => incomplete(missing.unwrap_or_default()),
                }
            }
        };
        let rule = WebhookRule::of::<T>("validate", validate_path::<T>(), &["CREATE", "UPDATE"]);
        self.register(Registration::Validating(rule)).admit(validate_path::<T>(), handler)
    }

    /// Validates deletions of a kind. While the program does not run, objects of this kind, and
    /// namespaces with such objects, cannot be deleted.
    #[doc(alias = "ValidateDelete")]
    #[must_use]
    pub fn validate_deletion<T, W, R>(
        self,
        validator: impl Fn(T, AdmissionContext) -> R + Send + Sync + 'static,
    ) -> Self
    where
        T: Kind,
        W: Into<Warnings>,
        R: Future<Output = Result<W, Denial>> + Send + 'static,
    {
        let handler = move |request: AdmissionRequest<T>| {
            let AdmissionRequest { context, old_object, .. } = request;
            let decided = old_object.map(|old| validator(old, context));
            async move {
                match decided {
                    Some(decided) => response(decided.await, AdmissionResponse::allow),
                    None => incomplete("the request has no oldObject"),
                }
            }
        };
        let path = path_of::<T>("validate-deletion");
        let rule = WebhookRule::of::<T>("validate-deletion", path.clone(), &["DELETE"]);
        self.register(Registration::Validating(rule)).admit(path, handler)
    }

    /// Changes objects of a kind when they are created and updated, at [`mutate_path`]. `mutator`
    /// receives the new object to change, and for an update the existing one. It returns warnings,
    /// or a denial.
    ///
    /// The patch contains what has changed. Fields that the type does not know stay. A mutator may
    /// be called again for its own result, so it must be idempotent. One that sends requests can be
    /// written with [`admit`](Self::admit).
    #[must_use]
    pub fn mutate<T, W>(
        self,
        mutator: impl Fn(&mut T, Option<&T>, &AdmissionContext) -> Result<W, Denial> + Send + Sync + 'static,
    ) -> Self
    where
        T: Kind,
        W: Into<Warnings>,
    {
        let handler = move |request: AdmissionRequest<T>| {
            let answer = match request.written() {
                Ok((new, old)) => {
                    let mut new = new.clone();
                    let decided = mutator(&mut new, old, &request.context);
                    response(decided, || request.replace_by(&new))
                }
                // The old object of a deletion cannot be changed.
                Err(_) if request.context.operation == Operation::Delete => AdmissionResponse::allow(),
                Err(missing) => incomplete(missing),
            };
            async move { answer }
        };
        let rule = WebhookRule::of::<T>("mutate", mutate_path::<T>(), &["CREATE", "UPDATE"]);
        self.register(Registration::Mutating(rule)).admit(mutate_path::<T>(), handler)
    }

    /// Sets the defaults of objects of a kind: [`mutate`](Self::mutate) with a function that cannot
    /// fail, such as `Shelf::set_defaults`.
    #[doc(alias = "CustomDefaulter")]
    #[must_use]
    pub fn set_defaults<T: Kind>(self, defaulter: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.mutate(move |new: &mut T, _, _| {
            defaulter(new);
            Ok(())
        })
    }

    /// Converts objects between versions at this path, which is `/convert` in controller-runtime. A
    /// panic of the conversion fails with code 500.
    ///
    /// Reviews may have up to 256 MiB: a server sends all objects of a list at once. They are
    /// buffered in memory, so restrict access to API servers if that matters.
    #[must_use]
    pub fn convert<H: Kind>(self, path: impl Into<String>, converter: Converter<H>) -> Self {
        let path = path.into();
        let definition = format!("{}.{}", H::RESOURCE.plural, H::RESOURCE.kind.group);
        let registration = Registration::Conversion { path: path.clone(), definition };
        self.register(registration).insert(path, route::conversion(converter))
    }

    /// Calls `handler` for writes of objects of type `T` at this path. A panic of the handler
    /// denies the write with code 500. Reviews may have up to 7 MiB, which is more than two objects
    /// need.
    ///
    /// For everything that the methods above do not cover: subresources, several kinds, audit
    /// annotations. Its configuration has to be written by hand.
    #[doc(alias = "Register")]
    #[must_use]
    pub fn admit<T, F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        T: Object,
        F: Fn(AdmissionRequest<T>) -> R + Send + Sync + 'static,
        R: Future<Output = AdmissionResponse> + Send + 'static,
    {
        self.insert(path.into(), route::admission(handler))
    }

    fn insert(mut self, path: String, route: Route) -> Self {
        if self.routes.insert(path.clone(), route).is_some() {
            self.duplicate = Some(path);
        }
        self
    }

    fn register(mut self, registration: Registration) -> Self {
        self.registrations.push(registration);
        self
    }

    pub(super) fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    pub(super) fn route(&self, path: &str) -> Option<&Route> {
        self.routes.get(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        self.routes.keys()
    }

    /// The path that has two webhooks, if there is one.
    pub(crate) fn duplicate(&self) -> Option<&str> {
        self.duplicate.as_deref()
    }
}

fn incomplete(why: &'static str) -> AdmissionResponse {
    AdmissionResponse::status(Status::bad_request(why))
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("paths", &self.routes.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
