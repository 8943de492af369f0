//! Kubeconfig: clusters, users and contexts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubewright_core::{ByteString, Map, Value};
use kubewright_yaml as yaml;

use super::extensions::{Extensions, extensions};
use super::fields::{FieldError, FieldValue, FieldVisitor, Section};
use super::user::AuthInfo;
use crate::error::{ConfigError, EntryError};
use crate::secret::Secret;

/// The content of one or several kubeconfig files.
///
/// Entries remember their file, and unknown fields are preserved, so that writing a change alters
/// nothing else.
#[derive(Debug, Clone, PartialEq, Default)]
#[doc(alias = "clientcmdapi.Config")]
pub struct Kubeconfig {
    /// Clusters by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// Users by name.
    pub users: BTreeMap<String, AuthInfo>,
    /// Contexts by name.
    pub contexts: BTreeMap<String, Context>,
    /// The context that is used by default.
    pub current_context: Option<String>,
    /// Extensions of other programs.
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    pub unknown: Map<Value>,
}

/// A server and its connection options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// The URL of the server.
    pub server: Option<String>,
    /// The name that the server's certificate must have, if not the host of the URL.
    pub tls_server_name: Option<String>,
    /// Whether to skip certificate verification. Then an attacker on the network can read and
    /// change everything.
    pub insecure_skip_tls_verify: bool,
    /// A file with the certificate authorities of the server.
    pub certificate_authority: Option<PathBuf>,
    /// The certificate authorities in PEM; takes precedence over the file.
    pub certificate_authority_data: Option<ByteString>,
    /// The proxy: `http`, `https` or `socks5`, optionally with user and password.
    pub proxy_url: Option<Secret<String>>,
    /// Whether to disable response compression.
    pub disable_compression: bool,
    /// Extensions of other programs; exec plugins receive the one named after them.
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    pub unknown: Map<Value>,
    /// The file with this entry.
    pub origin: Option<PathBuf>,
}

/// A cluster, a user, and a namespace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// The name of the cluster.
    pub cluster: Option<String>,
    /// The name of the user.
    pub user: Option<String>,
    /// The namespace of requests without one.
    pub namespace: Option<String>,
    /// Extensions of other programs.
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    pub unknown: Map<Value>,
    /// The file with this entry.
    pub origin: Option<PathBuf>,
}

impl Kubeconfig {
    /// Reads the text of a kubeconfig, in YAML or JSON. `file` is the origin in errors and entries,
    /// and the base of relative paths.
    ///
    /// # Errors
    /// If the text is not YAML, an entry has a field of the wrong type, or two entries have the
    /// same name.
    pub fn parse(text: &str, file: Option<&Path>) -> Result<Self, ConfigError> {
        let shown = file.unwrap_or(Path::new("kubeconfig"));
        let tree = parse_tree(text, shown)?;
        Kubeconfig::from_tree(tree, file)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and if the file cannot be read.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { file: file.to_owned(), source };
        let bytes = std::fs::read(file).map_err(read)?;
        let text = String::from_utf8(bytes).map_err(|_| ConfigError::Syntax {
            file: file.to_owned(),
            source: "it contains bytes that are no UTF-8".into(),
        })?;
        Kubeconfig::parse(&text, Some(file))
    }

    /// The kubeconfig as YAML, including credentials.
    #[inline]
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        yaml::write(&self.to_tree(), &mut text);
        text
    }

    #[inline]
    pub(super) fn to_tree(&self) -> Value {
        let mut map = self.unknown.clone();
        map.insert("apiVersion", "v1".into());
        map.insert("kind", "Config".into());
        map.insert("clusters", named(&self.clusters, "cluster"));
        map.insert("users", named(&self.users, "user"));
        map.insert("contexts", named(&self.contexts, "context"));
        map.insert("current-context", self.current_context.as_deref().unwrap_or_default().into());
        if let Some(extensions) = Extensions(self.extensions.clone()).write() {
            map.insert("extensions", extensions);
        }
        Value::Object(map)
    }

    fn from_tree(tree: Value, file: Option<&Path>) -> Result<Self, ConfigError> {
        let refuse = |error: FieldError| entry_error(file, String::new(), error);
        let mut map = match tree {
            Value::Null => return Ok(Kubeconfig::default()),
            Value::Object(map) => map,
            other => return Err(refuse(FieldError::new("", format!("expected a map, found {}", other.kind())))),
        };
        for (name, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
            if let Some(found) = map.remove(name).filter(|found| !found.is_null() && found.as_str() != Some(""))
                && found.as_str() != Some(expected)
            {
                return Err(refuse(FieldError::new(name, format!("expected {expected}, found {found}"))));
            }
        }
        let current = map.remove("current-context").filter(|value| !value.is_null()).map(Option::<String>::read);
        let extensions = map.remove("extensions").filter(|value| !value.is_null()).map(Extensions::read);
        let mut config = Kubeconfig {
            clusters: read_named(map.remove("clusters"), "clusters", "cluster", file)?,
            users: read_named(map.remove("users"), "users", "user", file)?,
            contexts: read_named(map.remove("contexts"), "contexts", "context", file)?,
            current_context: current.transpose().map_err(|error| refuse(error.within("current-context")))?.flatten(),
            extensions: extensions
                .transpose()
                .map_err(|error| refuse(error.within("extensions")))?
                .unwrap_or_default()
                .0,
            unknown: map,
        };
        if let Some(file) = file {
            config.clusters.values_mut().for_each(|cluster| cluster.origin = Some(file.to_owned()));
            config.users.values_mut().for_each(|user| user.origin = Some(file.to_owned()));
            config.contexts.values_mut().for_each(|context| context.origin = Some(file.to_owned()));
            config.resolve_paths(file);
        }
        Ok(config)
    }
}

/// The tree of YAML or JSON text; empty text is `Null`.
pub(super) fn parse_tree(text: &str, file: &Path) -> Result<Value, ConfigError> {
    // Most JSON is YAML too, but not all of it, for example with tabs.
    if text.trim_start().starts_with('{')
        && let Ok(tree) = Value::from_json(text.as_bytes())
    {
        return Ok(tree);
    }
    let document = yaml::parse(text).map_err(|source| ConfigError::Syntax { file: file.to_owned(), source })?;
    Ok(document.value)
}

/// The entries of a list such as `clusters`. Duplicate names are an error, because they are
/// ambiguous.
fn read_named<S: Section>(
    list: Option<Value>,
    plural: &str,
    singular: &str,
    file: Option<&Path>,
) -> Result<BTreeMap<String, S>, ConfigError> {
    let mut entries = BTreeMap::new();
    let items = match list {
        None | Some(Value::Null) => return Ok(entries),
        Some(Value::Array(items)) => items,
        Some(other) => {
            let problem = format!("expected a list, found {}", other.kind());
            return Err(entry_error(file, plural.to_owned(), FieldError::new("", problem)));
        }
    };
    for (index, item) in items.into_iter().enumerate() {
        let refuse = |problem: String| entry_error(file, format!("{plural}[{index}]"), FieldError::new("", problem));
        let Value::Object(mut item) = item else {
            return Err(refuse(format!("expected a map, found {}", item.kind())));
        };
        let Some(name) = item.remove("name").and_then(|name| name.as_str().map(str::to_owned)) else {
            return Err(refuse("has no name".to_owned()));
        };
        let section = S::from_value(item.remove(singular).unwrap_or_default())
            .map_err(|error| entry_error(file, format!("{plural}[{name:?}]"), error))?;
        if entries.contains_key(&name) {
            return Err(refuse(format!("there is another {singular} {name:?} in the list")));
        }
        entries.insert(name, section);
    }
    Ok(entries)
}

fn named<S: Section>(entries: &BTreeMap<String, S>, singular: &str) -> Value {
    let item = |(name, section): (&String, &S)| {
        Value::Object(Map::from([("name", Value::from(name.as_str())), (singular, section.to_value())]))
    };
    Value::Array(entries.iter().map(item).collect())
}

fn entry_error(file: Option<&Path>, entry: String, error: FieldError) -> ConfigError {
    EntryError { file: file.map(Path::to_owned), entry, field: error.field, problem: error.problem }.into()
}

impl Section for Cluster {
    fn fields(&mut self, fields: &mut FieldVisitor) -> Result<(), FieldError> {
        fields.field("server", &mut self.server)?;
        fields.field("tls-server-name", &mut self.tls_server_name)?;
        fields.field("insecure-skip-tls-verify", &mut self.insecure_skip_tls_verify)?;
        fields.field("certificate-authority", &mut self.certificate_authority)?;
        fields.field("certificate-authority-data", &mut self.certificate_authority_data)?;
        fields.field("proxy-url", &mut self.proxy_url)?;
        fields.field("disable-compression", &mut self.disable_compression)?;
        extensions(fields, &mut self.extensions)
    }

    fn unknown(&mut self) -> &mut Map<Value> {
        &mut self.unknown
    }
}

impl Section for Context {
    fn fields(&mut self, fields: &mut FieldVisitor) -> Result<(), FieldError> {
        fields.field("cluster", &mut self.cluster)?;
        fields.field("user", &mut self.user)?;
        fields.field("namespace", &mut self.namespace)?;
        extensions(fields, &mut self.extensions)
    }

    fn unknown(&mut self) -> &mut Map<Value> {
        &mut self.unknown
    }
}
