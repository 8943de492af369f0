//! Patches and their options.

use std::error::Error;
use std::fmt;

use super::check;
use super::list::append_some;
use super::query::QueryParameters;
use super::write::{FieldValidation, append_write, field_manager_causes, write_causes};
use crate::meta::v1::{Status, StatusCause};
use crate::{Str, Value};

/// The body of a `PATCH` request.
///
/// ```
/// use kubewright_core::{json, options::Patch};
/// let patch = Patch::merge(json!({"spec": {"replicas": 2}}));
/// assert_eq!(patch, Patch::Merge(br#"{"spec":{"replicas":2}}"#.to_vec()));
/// assert_eq!(patch.content_type(), "application/merge-patch+json");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch {
    /// A list of operations on paths (RFC 6902).
    Json(Vec<u8>),
    /// The members to change, `null` to remove; lists are replaced as a whole (RFC 7386).
    Merge(Vec<u8>),
    /// The members to change; lists merge by the keys of their items. Built-in kinds only.
    Strategic(Vec<u8>),
    /// Server-side apply: all fields that the manager wants to own, in YAML or JSON.
    Apply(Vec<u8>),
}

impl Patch {
    /// A JSON patch, such as `json!([{"op": "remove", "path": "/spec/paused"}])`.
    #[inline]
    pub fn json(operations: Value) -> Self {
        Patch::Json(operations.to_string().into_bytes())
    }

    /// A merge patch with these members.
    #[inline]
    pub fn merge(members: Value) -> Self {
        Patch::Merge(members.to_string().into_bytes())
    }

    /// A strategic merge patch with these members.
    #[inline]
    pub fn strategic(members: Value) -> Self {
        Patch::Strategic(members.to_string().into_bytes())
    }

    /// A configuration to apply, with `apiVersion` and `kind`.
    #[inline]
    pub fn apply(configuration: Value) -> Self {
        Patch::Apply(configuration.to_string().into_bytes())
    }

    /// The merge patch from `original` to `modified`. Concurrent changes to other fields are
    /// preserved.
    ///
    /// With [`if_unchanged`](Self::if_unchanged) any concurrent change is a conflict.
    ///
    /// ```
    /// use kubewright_core::{DynamicObject, options::Patch};
    /// let before: DynamicObject = r#"{"kind":"Foo","metadata":{"name":"a"},"spec":{"size":1}}"#.parse()?;
    /// let mut after = before.clone();
    /// after.set(&["spec", "size"], 2)?;
    /// assert_eq!(Patch::merge_from(&before, &after)?, Patch::Merge(br#"{"spec":{"size":2}}"#.to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If one of them does not decode from its own encoding, which holds for none of our types.
    #[doc(alias = "MergeFrom")]
    pub fn merge_from<T: crate::Object>(original: &T, modified: &T) -> Result<Self, crate::DecodeError> {
        let (original, modified) = (Value::from_json(&original.to_json())?, Value::from_json(&modified.to_json())?);
        Ok(Patch::merge(original.merge_patch_to(&modified)))
    }

    /// Makes the patch conditional on the version of `object`: if it has changed, the server
    /// returns a conflict.
    ///
    /// A JSON patch gets an additional operation that sets the version. A configuration to apply
    /// also gets the uid, so that a deleted object is not recreated; it must be JSON, not other
    /// YAML.
    ///
    /// # Errors
    /// If the object has no version, because it was not read from a server, or if the patch body
    /// cannot contain one. The patch would be unconditional.
    #[doc(alias = "MergeFromWithOptimisticLock")]
    pub fn if_unchanged(self, object: &impl crate::Object) -> Result<Self, UnconditionalPatch> {
        if object.resource_version().is_empty() {
            return Err(UnconditionalPatch::NoVersion);
        }
        let version = Value::from(object.resource_version());
        let kind = self.patch_type();
        let mut body = Value::from_json(self.body()).map_err(|_| UnconditionalPatch::Body(kind))?;
        match (kind, &mut body) {
            (PatchType::Json, Value::Array(operations)) => {
                let path = "/metadata/resourceVersion";
                operations.push(crate::json!({"op": "replace", "path": path, "value": version}));
            }
            (PatchType::Merge | PatchType::Strategic | PatchType::Apply, Value::Object(members)) => {
                if members.get("metadata").is_none() {
                    members.insert("metadata", Value::Object(Default::default()));
                }
                let metadata = members.get_mut("metadata").and_then(Value::as_object_mut);
                let metadata = metadata.ok_or(UnconditionalPatch::Body(kind))?;
                metadata.insert("resourceVersion", version);
                if kind == PatchType::Apply {
                    metadata.insert("uid", Value::from(object.uid()));
                }
            }
            _ => return Err(UnconditionalPatch::Body(kind)),
        }
        Ok(kind.with_body(body.to_string()))
    }

    /// The kind of patch.
    #[inline]
    pub fn patch_type(&self) -> PatchType {
        match self {
            Patch::Json(_) => PatchType::Json,
            Patch::Merge(_) => PatchType::Merge,
            Patch::Strategic(_) => PatchType::Strategic,
            Patch::Apply(_) => PatchType::Apply,
        }
    }

    /// The `Content-Type` to send it with.
    #[inline]
    pub fn content_type(&self) -> &'static str {
        self.patch_type().content_type()
    }

    /// The body to send.
    #[inline]
    pub fn body(&self) -> &[u8] {
        match self {
            Patch::Json(body) | Patch::Merge(body) | Patch::Strategic(body) | Patch::Apply(body) => body,
        }
    }

    /// The body to send, without a copy.
    #[inline]
    pub fn into_body(self) -> Vec<u8> {
        match self {
            Patch::Json(body) | Patch::Merge(body) | Patch::Strategic(body) | Patch::Apply(body) => body,
        }
    }
}

/// Why a patch cannot be made conditional on a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnconditionalPatch {
    /// The object has no version.
    NoVersion,
    /// The body of this kind of patch cannot contain a version.
    Body(PatchType),
}

impl fmt::Display for UnconditionalPatch {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnconditionalPatch::NoVersion => {
                f.write_str("the object has no resourceVersion to make the patch conditional on")
            }
            UnconditionalPatch::Body(PatchType::Json) => {
                f.write_str("the body of the JSON patch is not a list of operations")
            }
            UnconditionalPatch::Body(kind) => {
                write!(f, "the body of the {} is not a JSON object with metadata", kind.content_type())
            }
        }
    }
}

impl Error for UnconditionalPatch {}

/// The kinds of patches, identified by their media types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchType {
    /// The media type of its bodies.
    #[inline]
    pub const fn content_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }

    /// The kind of patch with this `Content-Type`; parameters are ignored.
    #[inline]
    pub fn from_content_type(text: &str) -> Option<Self> {
        let media_type = text.split(';').next().unwrap_or_default().trim();
        let all = [PatchType::Json, PatchType::Merge, PatchType::Strategic, PatchType::Apply];
        all.into_iter().find(|kind| kind.content_type().eq_ignore_ascii_case(media_type))
    }

    /// A patch of this kind with this body.
    pub fn with_body(self, body: impl Into<Vec<u8>>) -> Patch {
        let body = body.into();
        match self {
            PatchType::Json => Patch::Json(body),
            PatchType::Merge => Patch::Merge(body),
            PatchType::Strategic => Patch::Strategic(body),
            PatchType::Apply => Patch::Apply(body),
        }
    }
}

/// Options of a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Whether to skip storing the object. Off by default.
    pub dry_run: bool,
    /// The field manager. Unset by default: the client's user agent, or an error for server-side
    /// apply.
    pub field_manager: Option<Str>,
    /// How unknown and duplicate fields are handled. Unset by default: the server's default is to
    /// warn.
    pub field_validation: Option<FieldValidation>,
    /// Whether server-side apply takes fields over from other managers. Unset by default: it does
    /// not.
    pub force: Option<bool>,
}

impl PatchOptions {
    /// Runs the request without storing the object.
    #[must_use]
    #[inline]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the field manager.
    #[must_use]
    pub fn field_manager(mut self, manager: impl Into<Str>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// How unknown and duplicate fields are handled.
    #[must_use]
    #[inline]
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Takes fields over from other managers; only for server-side apply.
    #[must_use]
    #[inline]
    pub fn force(mut self) -> Self {
        self.force = Some(true);
        self
    }

    /// Appends these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        append_write(query, self.dry_run, &self.field_manager, self.field_validation);
        append_some(query, "force", &self.force);
    }

    /// Parses and validates the options of a request with this kind of patch.
    ///
    /// # Errors
    /// The server's status for invalid options.
    #[inline]
    pub fn from_query(query: &QueryParameters, patch: PatchType) -> Result<Self, Box<Status>> {
        let options = PatchOptions {
            dry_run: query.get("dryRun").is_some(),
            field_manager: query.text("fieldManager").map(Str::from),
            field_validation: query.text("fieldValidation").and_then(FieldValidation::from_name),
            force: query.flag("force"),
        };
        let mut causes = options.apply_causes(patch);
        causes.extend(write_causes(query));
        check("PatchOptions", causes)?;
        Ok(options)
    }

    /// Checks the options as a server would for this kind of patch.
    ///
    /// # Errors
    /// The server's status: server-side apply needs a manager, and only it can be forced.
    #[inline]
    pub fn validate(&self, patch: PatchType) -> Result<(), Box<Status>> {
        let mut causes = self.apply_causes(patch);
        causes.extend(field_manager_causes(self.field_manager.as_deref()));
        check("PatchOptions", causes)
    }

    #[inline]
    fn apply_causes(&self, patch: PatchType) -> Vec<StatusCause> {
        let has_manager = self.field_manager.as_ref().is_some_and(|manager| !manager.is_empty());
        match patch {
            PatchType::Apply if !has_manager => {
                vec![StatusCause::required("fieldManager", "is required for apply patch")]
            }
            PatchType::Json | PatchType::Merge | PatchType::Strategic if self.force.is_some() => {
                vec![StatusCause::forbidden("force", "may not be specified for non-apply patch")]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_known_by_their_media_type() {
        for kind in [PatchType::Json, PatchType::Merge, PatchType::Strategic, PatchType::Apply] {
            let patch = kind.with_body("{}");
            assert_eq!(PatchType::from_content_type(patch.content_type()), Some(kind));
            assert_eq!((patch.patch_type(), patch.body()), (kind, &b"{}"[..]));
            assert_eq!(patch.into_body(), b"{}");
        }
        let with_parameters = PatchType::from_content_type("application/merge-patch+json; charset=utf-8");
        assert_eq!(with_parameters, Some(PatchType::Merge));
        assert_eq!(PatchType::from_content_type("application/json"), None);
    }

    #[test]
    fn a_patch_can_be_for_one_version_only() {
        let mut object = crate::DynamicObject::default();
        crate::Object::set_resource_version(&mut object, "7");
        object.metadata.uid = Some("5".into());
        let body = |patch: Patch| String::from_utf8(patch.if_unchanged(&object).unwrap().into_body()).unwrap();
        let labelled = Patch::merge(crate::json!({"metadata": {"labels": {"a": "b"}}}));
        assert_eq!(body(labelled), r#"{"metadata":{"labels":{"a":"b"},"resourceVersion":"7"}}"#);
        let strategic = Patch::strategic(crate::json!({"spec": 1}));
        assert_eq!(body(strategic), r#"{"metadata":{"resourceVersion":"7"},"spec":1}"#);
        assert_eq!(
            body(Patch::json(crate::json!([{"op": "remove", "path": "/spec"}]))),
            r#"[{"op":"remove","path":"/spec"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"}]"#
        );
        assert_eq!(body(Patch::apply(crate::json!({}))), r#"{"metadata":{"resourceVersion":"7","uid":"5"}}"#);
    }

    #[test]
    fn a_patch_that_cannot_be_conditional_is_an_error() {
        let mut object = crate::DynamicObject::default();
        assert_eq!(Patch::merge(crate::json!({})).if_unchanged(&object), Err(UnconditionalPatch::NoVersion));
        crate::Object::set_resource_version(&mut object, "7");
        for (kind, text) in [
            (PatchType::Json, "{}"),
            (PatchType::Json, "["),
            (PatchType::Merge, "[]"),
            (PatchType::Merge, r#"{"metadata":null}"#),
            (PatchType::Strategic, "spec: 1"),
            (PatchType::Apply, "kind: ConfigMap"),
        ] {
            let got = kind.with_body(text).if_unchanged(&object);
            assert_eq!(got, Err(UnconditionalPatch::Body(kind)), "{text}");
        }
    }

    #[test]
    fn invalid_options_are_rejected_like_kube_apiserver() {
        for (text, kind, message) in [
            ("", PatchType::Apply, "fieldManager: Required value: is required for apply patch"),
            ("force=true", PatchType::Merge, "force: Forbidden: may not be specified for non-apply patch"),
            ("force=false", PatchType::Json, "force: Forbidden: may not be specified for non-apply patch"),
            (
                "fieldManager=a%07b",
                PatchType::Apply,
                "fieldManager: Invalid value: \"a\\ab\": invalid character U+0007 (at position 1)",
            ),
        ] {
            let answer = PatchOptions::from_query(&QueryParameters::parse(text), kind).unwrap_err();
            assert_eq!(answer.to_string(), format!("PatchOptions.meta.k8s.io \"\" is invalid: {message}"));
        }
        assert!(PatchOptions::default().force().validate(PatchType::Strategic).is_err());
        assert_eq!(PatchOptions::default().field_manager("m").force().validate(PatchType::Apply), Ok(()));
    }

    #[test]
    fn options_are_written_and_read() {
        let mut options = PatchOptions::default().dry_run().field_manager("kubectl");
        options = options.field_validation(FieldValidation::Warn);
        options.force = Some(false);
        let mut query = String::new();
        options.append_query(&mut query);
        assert_eq!(query, "dryRun=All&fieldManager=kubectl&fieldValidation=Warn&force=false");
        assert_eq!(PatchOptions::from_query(&QueryParameters::parse(&query), PatchType::Apply), Ok(options));
    }
}
