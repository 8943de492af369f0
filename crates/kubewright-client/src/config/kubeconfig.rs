//! A kubeconfig: clusters, users, and the contexts that join them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubewright_core::{ByteString, Map, Value, yaml};

use super::error::{ConfigError, EntryError};
use super::fields::{Field, FieldError, Fields, Section};
use super::user::AuthInfo;
use crate::secret::Secret;

/// What one or several kubeconfig files say.
///
/// Entries remember the file they came from, and fields that have no meaning here are kept, so that writing a change
/// back alters nothing else.
#[derive(Debug, Clone, PartialEq, Default)]
#[doc(alias = "clientcmdapi.Config")]
pub struct Kubeconfig {
    /// Servers, by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// Who to be, by name.
    pub users: BTreeMap<String, AuthInfo>,
    /// Pairs of server and user, by name.
    pub contexts: BTreeMap<String, Context>,
    /// The context that is used unless another is asked for.
    pub current_context: Option<String>,
    /// What other programs keep here, by their name for it.
    pub extensions: BTreeMap<String, Value>,
    /// Fields without a meaning here.
    pub unknown: Map<Value>,
}

/// A server and how to reach it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// The URL of the server.
    pub server: Option<String>,
    /// The name that the server's certificate has to have, if not the host of the URL.
    pub tls_server_name: Option<String>,
    /// Whether any certificate will do. Then anybody on the way can read and change everything.
    pub insecure_skip_tls_verify: bool,
    /// A file with the authorities that sign the server's certificate.
    pub certificate_authority: Option<PathBuf>,
    /// The same authorities as PEM; wins over the file.
    pub certificate_authority_data: Option<ByteString>,
    /// The proxy to go through: `http`, `https` or `socks5`; may have a user and a password.
    pub proxy_url: Option<Secret<String>>,
    /// Whether answers should come without compression.
    pub disable_compression: bool,
    /// What other programs keep here; exec plugins are given the one named after them.
    pub extensions: BTreeMap<String, Value>,
    /// Fields without a meaning here.
    pub unknown: Map<Value>,
    /// The file that has this entry.
    pub origin: Option<PathBuf>,
}

/// A server, a user, and the namespace to work in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// The name of the cluster.
    pub cluster: Option<String>,
    /// The name of the user.
    pub user: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// What other programs keep here.
    pub extensions: BTreeMap<String, Value>,
    /// Fields without a meaning here.
    pub unknown: Map<Value>,
    /// The file that has this entry.
    pub origin: Option<PathBuf>,
}

impl Kubeconfig {
    /// Reads the text of a kubeconfig, in YAML or JSON. `file` is what errors and entries name as their origin, and
    /// what relative paths start at.
    ///
    /// # Errors
    /// If the text is no YAML, an entry has a field of the wrong type, or two entries have one name.
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

    /// The whole as YAML, credentials included.
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

/// The tree of a text that is YAML or JSON; nothing at all is `Null`.
pub(super) fn parse_tree(text: &str, file: &Path) -> Result<Value, ConfigError> {
    // Most JSON is YAML too, but not all of it, for example tabs.
    if text.trim_start().starts_with('{')
        && let Ok(tree) = Value::from_json(text.as_bytes())
    {
        return Ok(tree);
    }
    let document = yaml::parse(text).map_err(|source| ConfigError::Syntax { file: file.to_owned(), source })?;
    Ok(document.value)
}

/// The entries of a list such as `clusters`. Two of one name are an error: nobody could tell which one counts.
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

/// Extensions are a list of pairs in the file and a map here.
#[derive(Default)]
pub(super) struct Extensions(pub(super) BTreeMap<String, Value>);

impl Field for Extensions {
    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Array(items) = value else {
            return Err(FieldError::new("", format!("expected a list, found {}", value.kind())));
        };
        let mut extensions = BTreeMap::new();
        for item in items {
            let Some(name) = item.get("name").and_then(Value::as_str) else {
                return Err(FieldError::new("", "an extension has no name"));
            };
            let extension = item.get("extension").cloned().unwrap_or_default();
            if extensions.insert(name.to_owned(), extension).is_some() {
                return Err(FieldError::new("", format!("there are two extensions {name:?}")));
            }
        }
        Ok(Extensions(extensions))
    }

    fn write(&self) -> Option<Value> {
        let item = |(name, extension): (&String, &Value)| {
            Value::Object(Map::from([("name", Value::from(name.as_str())), ("extension", extension.clone())]))
        };
        (!self.0.is_empty()).then(|| Value::Array(self.0.iter().map(item).collect()))
    }
}

/// Visits the field `extensions`.
pub(super) fn extensions(fields: &mut Fields, map: &mut BTreeMap<String, Value>) -> Result<(), FieldError> {
    let mut wrapped = Extensions(std::mem::take(map));
    let visited = fields.field("extensions", &mut wrapped);
    *map = wrapped.0;
    visited
}

impl Section for Cluster {
    fn fields(&mut self, fields: &mut Fields) -> Result<(), FieldError> {
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
    fn fields(&mut self, fields: &mut Fields) -> Result<(), FieldError> {
        fields.field("cluster", &mut self.cluster)?;
        fields.field("user", &mut self.user)?;
        fields.field("namespace", &mut self.namespace)?;
        extensions(fields, &mut self.extensions)
    }

    fn unknown(&mut self) -> &mut Map<Value> {
        &mut self.unknown
    }
}
