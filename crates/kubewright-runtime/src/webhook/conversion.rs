//! Conversion of custom resources between their versions.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use kubewright_core::meta::v1::Status;
use kubewright_core::{Kind, List, Map, Str, Value};

use super::tree;
use crate::error::BoxError;
use crate::unwind::caught;

type Read<H> = Box<dyn Fn(&Value) -> Result<H, BoxError> + Send + Sync>;
type Write<H> = Box<dyn Fn(H) -> Result<Value, BoxError> + Send + Sync>;

/// Converts between versions of one resource through `H`, the hub version.
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
    /// Decoder and encoder of each version, by `apiVersion`.
    codecs: BTreeMap<Str, (Read<H>, Write<H>)>,
    hub: PhantomData<fn() -> H>,
}

impl<H: Kind> Converter<H> {
    /// A converter with the hub only.
    pub fn new() -> Self {
        let mut converter = Converter { codecs: BTreeMap::new(), hub: PhantomData };
        let codecs: (Read<H>, Write<H>) =
            (Box::new(|value| Ok(tree::to_object(value)?)), Box::new(|hub| Ok(tree::of_object(&hub)?)));
        converter.codecs.insert(H::RESOURCE.kind.api_version.into(), codecs);
        converter
    }

    /// Adds a spoke version with its conversions from and to the hub.
    #[doc(alias = "Convertible")]
    #[must_use]
    pub fn spoke<S>(mut self) -> Self
    where
        S: Kind + TryInto<H> + TryFrom<H>,
        <S as TryInto<H>>::Error: Into<BoxError>,
        <S as TryFrom<H>>::Error: Into<BoxError>,
    {
        let codecs: (Read<H>, Write<H>) = (
            Box::new(|value| tree::to_object::<S>(value)?.try_into().map_err(Into::into)),
            Box::new(|hub| Ok(tree::of_object(&S::try_from(hub).map_err(Into::into)?)?)),
        );
        self.codecs.insert(S::RESOURCE.kind.api_version.into(), codecs);
        self
    }

    /// Converts an object to another version.
    ///
    /// # Errors
    /// If one of the versions is unknown, or the conversion fails.
    pub fn convert(&self, object: &Value, desired: &str) -> Result<Value, BoxError> {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if version == desired {
            return Ok(object.clone());
        }
        let way = |version: &str| self.codecs.get(version).ok_or_else(|| format!("version {version:?} is not known"));
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
            // All or nothing, as servers require.
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
        f.debug_struct("Converter").field("versions", &self.codecs.keys().collect::<Vec<_>>()).finish()
    }
}
