//! The conversion webhook of a definition of custom resources.

use kubewright_core::{Value, tree};

/// The supported versions of `ConversionReview`.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// A conversion webhook.
#[derive(Debug)]
pub struct ConversionWebhook {
    /// How to reach the webhook, the `clientConfig` of the definition.
    pub client_config: Value,
    /// The version of `ConversionReview` to send. `None` if the webhook supports none of ours.
    pub review: Option<&'static str>,
}

impl ConversionWebhook {
    /// The webhook that a definition names, if objects are converted by one.
    pub fn from_definition(definition: &Value) -> Option<ConversionWebhook> {
        let conversion = tree::get(definition, &["spec", "conversion"])?;
        if tree::text(conversion, &["strategy"]) != "Webhook" {
            return None;
        }
        let webhook = conversion.get("webhook")?;
        let versions = tree::items(webhook, &["conversionReviewVersions"]).iter().filter_map(Value::as_str);
        let review = versions.filter_map(|version| REVIEWS.into_iter().find(|one| *one == version)).next();
        Some(ConversionWebhook { client_config: webhook.get("clientConfig").cloned().unwrap_or_default(), review })
    }
}
