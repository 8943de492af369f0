//! Extracts the objects of a manifest, as `kubectl apply -f` does.

use std::error::Error;
use std::fmt;

use super::{YamlError, parse_all};
use kubewright_core::{DecodeError, DynamicObject, Value};

/// Why a manifest cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is not YAML.
    Syntax(YamlError),
    /// A document is not an object.
    Object {
        /// Its number, counted from 1.
        document: usize,
        /// The error.
        source: DecodeError,
    },
    /// A document lacks a mandatory field, or has a duplicate one.
    Malformed {
        /// Its number, counted from 1.
        document: usize,
        /// The error.
        message: String,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Syntax(_) => f.write_str("not YAML"),
            ManifestError::Object { document, .. } => write!(f, "document {document} is no object"),
            ManifestError::Malformed { document, message } => write!(f, "document {document}: {message}"),
        }
    }
}

impl Error for ManifestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ManifestError::Syntax(source) => Some(source),
            ManifestError::Object { source, .. } => Some(source),
            ManifestError::Malformed { .. } => None,
        }
    }
}

/// The objects of all documents of a manifest, in order. A list is replaced by its items. JSON is
/// accepted as YAML.
///
/// ```
/// use kubewright_core::Object;
/// use kubewright_yaml as yaml;
/// let objects = yaml::objects("
/// apiVersion: v1
/// kind: Namespace
/// metadata: {name: team}
/// ---
/// apiVersion: v1
/// kind: List
/// items:
/// - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: team}, data: {colour: blue}}
/// ")?;
/// assert_eq!(objects.iter().map(|object| object.key().to_string()).collect::<Vec<_>>(), ["team", "team/settings"]);
/// # Ok::<(), yaml::ManifestError>(())
/// ```
///
/// # Errors
/// If the text is not YAML, or a document is not an object with `apiVersion` and `kind`.
#[doc(alias = "NewYAMLOrJSONDecoder")]
#[doc(alias = "YAMLOrJSONDecoder")]
pub fn objects(text: &str) -> Result<Vec<DynamicObject>, ManifestError> {
    let mut objects = Vec::new();
    for (at, document) in parse_all(text).map_err(ManifestError::Syntax)?.into_iter().enumerate() {
        let number = at + 1;
        if let Some(twice) = document.duplicates.first() {
            return Err(ManifestError::Malformed { document: number, message: twice.clone() });
        }
        take(document.value, number, &mut objects)?;
    }
    Ok(objects)
}

/// Collects an object, or the items of a list.
fn take(value: Value, document: usize, objects: &mut Vec<DynamicObject>) -> Result<(), ManifestError> {
    for field in ["apiVersion", "kind"] {
        if value.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(ManifestError::Malformed { document, message: format!("{field} is missing") });
        }
    }
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    if is_list && let Some(Value::Array(items)) = value.get("items") {
        return items.iter().try_for_each(|item| take(item.clone(), document, objects));
    }
    objects.push(DynamicObject::try_from(value).map_err(|source| ManifestError::Object { document, source })?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_core::Object;

    #[test]
    fn documents_and_list_items_keep_their_order() {
        let text = "---\n# nothing\n---\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMapList\",\"items\":[
            {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}]}
---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
        let names: Vec<String> = objects(text).unwrap().iter().map(|object| object.name().to_owned()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(objects("").unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_document() {
        let said = |text: &str| {
            let error = objects(text).unwrap_err();
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}")
        };
        let good = "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n---\n";
        assert_eq!(said(&format!("{good}kind: Secret")), "document 2: apiVersion is missing");
        assert_eq!(said(&format!("{good}- 1")), "document 2: apiVersion is missing");
        assert!(
            said(&format!("{good}apiVersion: v1\nkind: A\nmetadata: 1"))
                .starts_with("document 2 is no object: metadata")
        );
        assert!(said("apiVersion: v1\nkind: A\nkind: B").contains("kind"));
        assert!(said("a: [").starts_with("not YAML: "));
    }
}
