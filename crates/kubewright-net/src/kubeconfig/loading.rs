//! Finds and merges kubeconfig files.

use std::path::{Component, Path, PathBuf};

use super::document::Kubeconfig;
use super::user::ExecConfig;
use crate::environment::EnvironmentVariables;
use crate::error::ConfigError;

/// The kubeconfig files to read, in order.
#[derive(Debug, Clone, Default)]
#[doc(alias = "ClientConfigLoadingRules")]
pub struct LoadingRules {
    explicit: Option<PathBuf>,
    precedence: Vec<PathBuf>,
    /// Whether `KUBECONFIG` names the files, so that missing ones deserve a warning.
    is_asked_for: bool,
    default_file: Option<PathBuf>,
}

impl LoadingRules {
    /// The files of `KUBECONFIG`, or else `.kube/config` in the home directory.
    #[doc(alias = "NewDefaultClientConfigLoadingRules")]
    pub fn from_environment(environment: &EnvironmentVariables) -> Self {
        let home = environment.home().map(|home| home.join(".kube").join("config"));
        let listed = environment.get("KUBECONFIG");
        let mut precedence: Vec<PathBuf> = Vec::new();
        let listed_paths = listed.iter().flat_map(std::env::split_paths).filter(|path| !path.as_os_str().is_empty());
        for path in listed_paths {
            if !precedence.contains(&path) {
                precedence.push(path);
            }
        }
        let is_asked_for = !precedence.is_empty();
        if !is_asked_for {
            precedence.extend(home.clone());
        }
        LoadingRules { explicit: None, precedence, is_asked_for, default_file: home }
    }

    /// Only this file, which must exist.
    pub fn explicit(file: impl Into<PathBuf>) -> Self {
        LoadingRules { explicit: Some(file.into()), ..LoadingRules::default() }
    }

    /// The files in order of precedence.
    pub fn files(&self) -> Vec<&Path> {
        match &self.explicit {
            Some(file) => vec![file],
            None => self.precedence.iter().map(PathBuf::as_path).collect(),
        }
    }

    /// The file for new entries: the explicit one, the first that exists, or the last of the list.
    pub fn default_file(&self) -> Option<&Path> {
        if let Some(file) = &self.explicit {
            return Some(file);
        }
        let existing = self.precedence.iter().find(|file| file.exists());
        existing.or(self.precedence.last()).or(self.default_file.as_ref()).map(PathBuf::as_path)
    }

    /// Reads and merges the files. If several contain an entry, the first one wins as a whole.
    ///
    /// Missing files are skipped, unless the file is explicit. Without any file the kubeconfig is
    /// empty.
    ///
    /// # Errors
    /// If files cannot be read; all of them are named. [`load_partially`](Self::load_partially)
    /// returns the rest.
    pub fn load(&self) -> Result<Kubeconfig, ConfigError> {
        let (merged, errors) = self.load_partially();
        ConfigError::of_all(errors).map_or(Ok(merged), Err)
    }

    /// Reads and merges the readable files, and returns the errors of the others.
    pub fn load_partially(&self) -> (Kubeconfig, Vec<ConfigError>) {
        let (mut merged, mut errors, mut found) = (Kubeconfig::default(), Vec::new(), 0);
        for file in self.files() {
            match Kubeconfig::read(file) {
                Ok(config) => {
                    found += 1;
                    merged.merge(config);
                }
                Err(ConfigError::Read { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && self.explicit.is_none() => {}
                Err(error) => {
                    found += 1;
                    errors.push(error);
                }
            }
        }
        if found == 0 && self.is_asked_for {
            tracing::warn!(files = ?self.precedence, "none of the files that KUBECONFIG names exists");
        }
        (merged, errors)
    }
}

impl Kubeconfig {
    /// Adds entries of `other` that are missing here. Entries are never merged: the first one of a
    /// name wins.
    pub fn merge(&mut self, other: Kubeconfig) {
        for (name, cluster) in other.clusters {
            self.clusters.entry(name).or_insert(cluster);
        }
        for (name, user) in other.users {
            self.users.entry(name).or_insert(user);
        }
        for (name, context) in other.contexts {
            self.contexts.entry(name).or_insert(context);
        }
        for (name, extension) in other.extensions {
            self.extensions.entry(name).or_insert(extension);
        }
        for (name, value) in other.unknown {
            self.unknown.get_or_insert_with(name, || value);
        }
        if self.current_context.is_none() {
            self.current_context = other.current_context;
        }
    }

    /// Resolves relative paths of all entries against the directory of `file`.
    pub(super) fn resolve_paths(&mut self, file: &Path) {
        let directory = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let directory = directory.parent().unwrap_or(Path::new("/"));
        for cluster in self.clusters.values_mut() {
            resolve(&mut cluster.certificate_authority, directory);
        }
        for user in self.users.values_mut() {
            resolve(&mut user.client_certificate, directory);
            resolve(&mut user.client_key, directory);
            resolve(&mut user.token_file, directory);
            if let Some(ExecConfig { command: Some(command), .. }) = &mut user.exec {
                // A bare name is looked up in PATH.
                if command.contains(std::path::is_separator) {
                    *command = resolved(Path::new(&*command), directory).to_string_lossy().into_owned();
                }
            }
        }
    }
}

fn resolve(path: &mut Option<PathBuf>, directory: &Path) {
    if let Some(path) = path {
        *path = resolved(path, directory);
    }
}

/// Resolves a path against a directory and simplifies it where that is safe.
pub(super) fn resolved(path: &Path, directory: &Path) -> PathBuf {
    let joined = directory.join(path);
    joined.components().filter(|component| !matches!(component, Component::CurDir)).collect()
}
