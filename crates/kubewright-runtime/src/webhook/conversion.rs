//! Conversion of custom resources between their versions.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use kubewright_core::meta::v1::Status;
use kubewright_core::{Kind, List, Map, Str, Value};

use super::tree;
use crate::controller::BoxError;
use crate::unwind::caught;

type Read<H> = Box<dyn Fn(&Value) -> Result<H, BoxError> + Send + Sync>;
type Write<H> = Box<dyn Fn(H) -> Result<Value, BoxError> + Send + Sync>;

/// Converts between versions of one resource by way of `H`, the version that all others can be made of and into.
///
/// ```
/// # use kubewright_core::Kind;
/// # use kubewright_runtime::webhook::Converter;
/// # fn example<FooV1: Kind + TryFrom<FooV2, Error = String> + TryInto<FooV2, Error = String>, FooV2: Kind>() -> Converter<FooV2> {
/// Converter::<FooV2>::new().spoke::<FooV1>()
/// # }
/// ```
#[doc(alias = "Hub")]
pub struct Converter<H> {
    /// How objects of each version come and go, by `apiVersion`.
    ways: BTreeMap<Str, (Read<H>, Write<H>)>,
    hub: PhantomData<fn() -> H>,
}

impl<H: Kind> Converter<H> {
    /// Knows the hub only.
    pub fn new() -> Self {
        let mut converter = Converter { ways: BTreeMap::new(), hub: PhantomData };
        let ways: (Read<H>, Write<H>) =
            (Box::new(|value| Ok(tree::to_object(value)?)), Box::new(|hub| Ok(tree::of_object(&hub)?)));
        converter.ways.insert(H::RESOURCE.kind.api_version.into(), ways);
        converter
    }

    /// Knows one more version, and how it becomes the hub and comes of it.
    #[doc(alias = "Convertible")]
    #[must_use]
    pub fn spoke<S>(mut self) -> Self
    where
        S: Kind + TryInto<H> + TryFrom<H>,
        <S as TryInto<H>>::Error: Into<BoxError>,
        <S as TryFrom<H>>::Error: Into<BoxError>,
    {
        let ways: (Read<H>, Write<H>) = (
            Box::new(|value| tree::to_object::<S>(value)?.try_into().map_err(Into::into)),
            Box::new(|hub| Ok(tree::of_object(&S::try_from(hub).map_err(Into::into)?)?)),
        );
        self.ways.insert(S::RESOURCE.kind.api_version.into(), ways);
        self
    }

    /// One object in another version.
    ///
    /// # Errors
    /// If one of the versions is not known, or the object cannot be converted.
    pub fn convert(&self, object: &Value, desired: &str) -> Result<Value, BoxError> {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if version == desired {
            return Ok(object.clone());
        }
        let way = |version: &str| self.ways.get(version).ok_or_else(|| format!("version {version:?} is not known"));
        let ((read, _), (_, write)) = (way(version)?, way(desired)?);
        write(read(object)?)
    }

    /// Answers the `request` of a review.
    pub(super) fn answer(&self, request: &Value) -> Value {
        let desired = request.get("desiredAPIVersion").and_then(Value::as_str).unwrap_or_default();
        let objects = request.get("objects").and_then(Value::as_array).map(|objects| &**objects).unwrap_or_default();
        let convert = || objects.iter().map(|object| self.convert(object, desired)).collect();
        let converted: Result<Result<List<Value>, BoxError>, String> = caught(convert);
        let (result, converted) = match converted {
            Ok(Ok(converted)) => (Status::success(), converted),
            // All or nothing, as servers want it.
            Ok(Err(error)) => (Status::bad_request(error.to_string()), List::new()),
            Err(panic) => (Status::internal(format!("the conversion panicked: {panic}")), List::new()),
        };
        let mut response = Map::new();
        response.insert("uid", request.get("uid").cloned().unwrap_or_default());
        response.insert("convertedObjects", Value::Array(converted));
        response.insert("result", tree::of_status(&result));
        Value::Object(response)
    }
}

impl<H: Kind> Default for Converter<H> {
    fn default() -> Self {
        Converter::new()
    }
}

impl<H> fmt::Debug for Converter<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converter").field("versions", &self.ways.keys().collect::<Vec<_>>()).finish()
    }
}
