//! Defaults of CustomResourceDefinitions.

use kubewright_core::{Value, tree};

/// Sets the defaults of a definition: derived names, and the conversion strategy.
pub(super) fn definition(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    let kind = tree::text(spec, &["names", "kind"]).to_owned();
    if let Some(names) = tree::field_mut(spec, "names") {
        tree::default_zero(names, "singular", kind.to_lowercase());
        tree::default_zero(names, "listKind", if kind.is_empty() { String::new() } else { format!("{kind}List") });
    }
    tree::default(spec, "conversion", tree::map([("strategy", "None".into())]));
    if let Some(Value::Object(client)) = tree::field_mut(spec, "conversion")
        .and_then(|conversion| tree::field_mut(conversion, "webhook")?.as_object_mut()?.get_mut("clientConfig"))
        && let Some(service) = client.get_mut("service")
    {
        tree::default(service, "port", 443);
    }
}
