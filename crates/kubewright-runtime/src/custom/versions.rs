//! The versions of a custom resource and the conversions between them, in one declaration.

use kubewright_api::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};
use kubewright_core::{Kind, Value};

use super::definition::{CustomResource, MergeError, merge_definitions};
use crate::error::BoxError;
use crate::webhook::Converter;

/// All versions of a custom resource.
///
/// `H` is the hub: the other versions are converted to and from it. Objects are stored in it,
/// unless [`stored_as`](Self::stored_as) names another version.
///
/// ```
/// use kubewright_core::Object;
/// use kubewright_runtime::custom::{CustomResource, Versions};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
/// #[resource(group = "example.com", version = "v1", kind = "Shelf", plural = "shelves", namespaced)]
/// struct ShelfSpec {
///     millimetres: u32,
/// }
///
/// mod v1beta1 {
///     use kubewright_runtime::custom::CustomResource;
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///
///     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
///     #[resource(group = "example.com", version = "v1beta1", kind = "Shelf", plural = "shelves", namespaced)]
///     pub struct ShelfSpec {
///         pub width: String,
///     }
/// }
///
/// impl TryFrom<v1beta1::Shelf> for Shelf {
///     type Error = std::num::ParseIntError;
///
///     fn try_from(old: v1beta1::Shelf) -> Result<Self, Self::Error> {
///         Ok(Shelf { metadata: old.metadata, spec: ShelfSpec { millimetres: old.spec.width.parse()? } })
///     }
/// }
///
/// impl From<Shelf> for v1beta1::Shelf {
///     fn from(new: Shelf) -> Self {
///         let spec = v1beta1::ShelfSpec { width: new.spec.millimetres.to_string() };
///         v1beta1::Shelf { metadata: new.metadata, spec }
///     }
/// }
///
/// let versions = Versions::<Shelf>::new().with::<v1beta1::Shelf>();
/// versions.check_round_trip(&v1beta1::Shelf::new("a", v1beta1::ShelfSpec { width: "30".into() }))?;
/// # use kubewright_api::apiextensions::v1::WebhookClientConfig;
/// let webhook = WebhookClientConfig { url: Some("https://shelves.example.com/convert".into()), ..Default::default() };
/// let definition = versions.definition(webhook)?;
/// # assert_eq!(definition.spec.versions.iter().map(|one| one.storage).collect::<Vec<_>>(), [true, false]);
/// # assert_eq!(definition.name(), "shelves.example.com");
/// // WebhookServer::new(…).convert("/convert", versions.into_converter())
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Versions<H> {
    definitions: Vec<CustomResourceDefinition>,
    stored: &'static str,
    converter: Converter<H>,
}

impl<H: CustomResource> Versions<H> {
    /// The hub version only.
    pub fn new() -> Self {
        Versions { definitions: vec![H::definition()], stored: H::RESOURCE.kind.version, converter: Converter::new() }
    }

    /// Adds a version with its conversions from and to the hub.
    #[doc(alias = "Convertible")]
    #[must_use]
    pub fn with<S>(mut self) -> Self
    where
        S: CustomResource + TryInto<H> + TryFrom<H>,
        <S as TryInto<H>>::Error: Into<BoxError>,
        <S as TryFrom<H>>::Error: Into<BoxError>,
    {
        self.definitions.push(S::definition());
        self.converter = self.converter.spoke::<S>();
        self
    }

    /// Stores objects in this version, for example while older programs still need it.
    #[must_use]
    pub fn stored_as<S: CustomResource>(mut self) -> Self {
        self.stored = S::RESOURCE.kind.version;
        self
    }

    /// The definition with all versions, converted by the webhook that answers with
    /// [`into_converter`](Self::into_converter). Whether a version is stored is decided here, and
    /// `not_stored` of the types is ignored.
    ///
    /// # Errors
    /// If the types are not versions of one resource, or the stored version is none of them.
    pub fn definition(&self, webhook: WebhookClientConfig) -> Result<CustomResourceDefinition, MergeError> {
        let mut merged = merge_definitions(self.definitions.iter().cloned())?;
        let mut versions: Vec<_> = merged.spec.versions.iter().cloned().collect();
        versions.iter_mut().for_each(|version| version.storage = version.name == self.stored);
        let stored = versions.iter().filter(|version| version.storage).count();
        if stored != 1 {
            return Err(MergeError::Stored { stored });
        }
        merged.spec.versions = versions.into_iter().collect();
        let client_config = Some(webhook.into());
        let webhook = WebhookConversion { client_config, conversion_review_versions: ["v1".into()].into() };
        let conversion = CustomResourceConversion { strategy: "Webhook".into(), webhook: Some(webhook.into()) };
        merged.spec.conversion = Some(conversion.into());
        Ok(merged)
    }

    /// Checks that an object survives the conversion to the hub and back, for unit tests.
    ///
    /// A version that loses fields loses data: a client that reads and writes an object in that
    /// version removes them.
    ///
    /// # Errors
    /// If a conversion fails, or the result differs.
    pub fn check_round_trip<S: Kind>(&self, object: &S) -> Result<(), BoxError> {
        let before = Value::from_json(&object.to_json())?;
        let hub = self.converter.convert(&before, H::RESOURCE.kind.api_version)?;
        let after = self.converter.convert(&hub, S::RESOURCE.kind.api_version)?;
        if after == before {
            return Ok(());
        }
        let versions = (S::RESOURCE.kind.version, H::RESOURCE.kind.version);
        Err(format!(
            "{} {:?} changes when it is converted from {} to {} and back: {}",
            S::RESOURCE.kind.kind,
            object.name(),
            versions.0,
            versions.1,
            before.merge_patch_to(&after)
        )
        .into())
    }

    /// The conversions, for a webhook server.
    pub fn into_converter(self) -> Converter<H> {
        self.converter
    }
}

impl<H: CustomResource> Default for Versions<H> {
    fn default() -> Self {
        Versions::new()
    }
}
