//! Environment variables for configurations.

use std::fmt;
use std::path::PathBuf;

/// Variables of the process, or given ones for tests and for programs with many clients.
#[derive(Clone, Default)]
pub struct EnvironmentVariables {
    /// `None` means the process. The last value of a repeated name wins.
    variables: Option<Vec<(String, String)>>,
}

impl EnvironmentVariables {
    /// The variables of this process.
    pub fn process() -> Self {
        EnvironmentVariables::default()
    }

    /// Only these variables.
    pub fn of<K: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        EnvironmentVariables { variables: Some(variables.collect()) }
    }

    /// The value of a variable, unless it is empty.
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match &self.variables {
            Some(variables) => {
                let found = variables.iter().rev().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone())
            }
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The home directory of the user.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        match &self.variables {
            Some(_) => self.get("HOME").map(PathBuf::from),
            None => std::env::home_dir(),
        }
    }
}

/// Prints names only: the URL of a proxy may contain a password.
impl fmt::Debug for EnvironmentVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variables {
            Some(variables) => f.debug_set().entries(variables.iter().map(|(name, _)| name)).finish(),
            None => f.write_str("process"),
        }
    }
}
