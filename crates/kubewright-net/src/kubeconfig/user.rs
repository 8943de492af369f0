//! Users of a kubeconfig.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubewright_core::{ByteString, Map, Value};

use super::extensions::extensions;
use super::fields::{FieldError, FieldValue, FieldVisitor, Section};
use crate::secret::Secret;

/// A user with its credentials.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AuthInfo {
    /// A file with the client certificate in PEM.
    pub client_certificate: Option<PathBuf>,
    /// The client certificate in PEM; takes precedence over the file.
    pub client_certificate_data: Option<ByteString>,
    /// A file with the key of the certificate in PEM.
    pub client_key: Option<PathBuf>,
    /// The key in PEM; takes precedence over the file.
    pub client_key_data: Option<Secret<ByteString>>,
    /// A bearer token. If there is a token file too, this is used until the file has been read.
    pub token: Option<Secret<String>>,
    /// A file with a bearer token, which is reloaded periodically.
    pub token_file: Option<PathBuf>,
    /// The user to impersonate.
    pub impersonate: Option<String>,
    /// The uid of the impersonated user.
    pub impersonate_uid: Option<String>,
    /// The groups of the impersonated user.
    pub impersonate_groups: Vec<String>,
    /// Extra attributes of the impersonated user.
    pub impersonate_user_extra: BTreeMap<String, Vec<String>>,
    /// A user name, for basic authentication.
    pub username: Option<String>,
    /// The password for it.
    pub password: Option<Secret<String>>,
    /// An authentication provider; only `oidc` is supported.
    pub auth_provider: Option<AuthProvider>,
    /// An exec plugin.
    pub exec: Option<ExecConfig>,
    /// Extensions of other programs.
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    pub unknown: Map<Value>,
    /// The file with this entry.
    pub origin: Option<PathBuf>,
}

/// An authentication provider and its settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AuthProvider {
    /// Its name.
    pub name: Option<String>,
    /// Its settings, including tokens.
    pub config: BTreeMap<String, Secret<String>>,
    /// Unknown fields.
    pub unknown: Map<Value>,
}

/// The current API version of exec plugins.
pub(crate) const EXEC_V1: &str = "client.authentication.k8s.io/v1";
/// The previous API version of exec plugins.
pub(crate) const EXEC_V1BETA1: &str = "client.authentication.k8s.io/v1beta1";

/// Whether this API version of exec plugins is supported.
pub(crate) fn is_supported(version: &str) -> bool {
    version == EXEC_V1 || version == EXEC_V1BETA1
}

/// An exec plugin: a program that prints credentials.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecConfig {
    /// The program, by name or path.
    pub command: Option<String>,
    /// Its arguments, which may contain secrets.
    pub args: Secret<Vec<String>>,
    /// Additional environment variables.
    pub env: Vec<ExecEnv>,
    /// The API version: `client.authentication.k8s.io/v1` or `v1beta1`.
    pub api_version: Option<String>,
    /// Installation instructions for the program.
    pub install_hint: Option<String>,
    /// Whether to pass the cluster info to the program.
    pub provide_cluster_info: bool,
    /// Whether the program may use the terminal.
    pub interactive_mode: Option<InteractiveMode>,
    /// Unknown fields.
    pub unknown: Map<Value>,
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecEnv {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret<String>,
}

/// Whether a program may use the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteractiveMode {
    /// Never.
    Never,
    /// If there is a terminal.
    IfAvailable,
    /// Always; without a terminal it is not run.
    Always,
}

impl Section for AuthInfo {
    fn fields(&mut self, fields: &mut FieldVisitor) -> Result<(), FieldError> {
        fields.field("client-certificate", &mut self.client_certificate)?;
        fields.field("client-certificate-data", &mut self.client_certificate_data)?;
        fields.field("client-key", &mut self.client_key)?;
        fields.field("client-key-data", &mut self.client_key_data)?;
        fields.field("token", &mut self.token)?;
        fields.field("tokenFile", &mut self.token_file)?;
        fields.field("as", &mut self.impersonate)?;
        fields.field("as-uid", &mut self.impersonate_uid)?;
        fields.field("as-groups", &mut self.impersonate_groups)?;
        fields.field("as-user-extra", &mut self.impersonate_user_extra)?;
        fields.field("username", &mut self.username)?;
        fields.field("password", &mut self.password)?;
        fields.section("auth-provider", &mut self.auth_provider)?;
        fields.section("exec", &mut self.exec)?;
        extensions(fields, &mut self.extensions)
    }

    fn unknown(&mut self) -> &mut Map<Value> {
        &mut self.unknown
    }
}

impl Section for AuthProvider {
    fn fields(&mut self, fields: &mut FieldVisitor) -> Result<(), FieldError> {
        fields.field("name", &mut self.name)?;
        fields.field("config", &mut self.config)
    }

    fn unknown(&mut self) -> &mut Map<Value> {
        &mut self.unknown
    }
}

impl Section for ExecConfig {
    fn fields(&mut self, fields: &mut FieldVisitor) -> Result<(), FieldError> {
        fields.field("command", &mut self.command)?;
        fields.field("args", &mut self.args)?;
        fields.field("env", &mut self.env)?;
        fields.field("apiVersion", &mut self.api_version)?;
        fields.field("installHint", &mut self.install_hint)?;
        fields.field("provideClusterInfo", &mut self.provide_cluster_info)?;
        fields.field("interactiveMode", &mut self.interactive_mode)
    }

    fn unknown(&mut self) -> &mut Map<Value> {
        &mut self.unknown
    }
}

impl FieldValue for Secret<String> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Ok(Secret::new(Option::<String>::read(value)?.unwrap_or_default()))
    }

    fn write(&self) -> Option<Value> {
        Some(Value::from(self.expose().as_str()))
    }
}

impl FieldValue for Secret<Vec<String>> {
    fn read(value: Value) -> Result<Self, FieldError> {
        Vec::read(value).map(Secret::new)
    }

    fn write(&self) -> Option<Value> {
        self.expose().write()
    }
}

impl FieldValue for Vec<ExecEnv> {
    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Array(items) = value else {
            return Err(FieldError::new("", format!("expected a list, found {}", value.kind())));
        };
        let variable = |(index, item): (usize, Value)| {
            let Value::Object(map) = item else {
                return Err(FieldError::new(&format!("[{index}]"), format!("expected a map, found {}", item.kind())));
            };
            let (mut fields, mut name, mut value) = (FieldVisitor::Reading(map), None::<String>, Secret::default());
            let read = fields.field("name", &mut name).and_then(|()| fields.field("value", &mut value));
            read.map_err(|error| error.within(&format!("[{index}]")))?;
            Ok(ExecEnv { name: name.unwrap_or_default(), value })
        };
        items.into_iter().enumerate().map(variable).collect()
    }

    fn write(&self) -> Option<Value> {
        let item = |variable: &ExecEnv| {
            let (name, value) = (variable.name.as_str(), variable.value.expose().as_str());
            Value::Object(Map::from([("name", Value::from(name)), ("value", Value::from(value))]))
        };
        (!self.is_empty()).then(|| Value::Array(self.iter().map(item).collect()))
    }
}

impl FieldValue for Option<InteractiveMode> {
    fn read(value: Value) -> Result<Self, FieldError> {
        match value.as_str() {
            Some("") => Ok(None),
            Some("Never") => Ok(Some(InteractiveMode::Never)),
            Some("IfAvailable") => Ok(Some(InteractiveMode::IfAvailable)),
            Some("Always") => Ok(Some(InteractiveMode::Always)),
            _ => Err(FieldError::new("", format!("expected Never, IfAvailable or Always, found {value}"))),
        }
    }

    fn write(&self) -> Option<Value> {
        self.map(|mode| match mode {
            InteractiveMode::Never => "Never".into(),
            InteractiveMode::IfAvailable => "IfAvailable".into(),
            InteractiveMode::Always => "Always".into(),
        })
    }
}
