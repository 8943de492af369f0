//! Writes changes back to the files that the entries came from.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use kubewright_core::{List, Map, Value};
use kubewright_yaml as yaml;

use super::document::{Kubeconfig, parse_tree};
use super::fields::Section;
use super::file::{LockFile, real_path, replace};
use super::loading::{LoadingRules, resolved};
use crate::error::ConfigError;

/// Fields that contain paths, which may be relative to the file.
const PATHS: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];
/// Known top-level fields of a kubeconfig.
const OWN_FIELDS: [&str; 7] = ["apiVersion", "kind", "clusters", "users", "contexts", "current-context", "extensions"];

impl LoadingRules {
    /// Changes the kubeconfig and writes the difference while holding a lock.
    ///
    /// Blocks the thread, for seconds while another writer holds the lock. In async code call it
    /// through `tokio::task::spawn_blocking`.
    ///
    /// An entry is written to, and removed from, the file it came from; if another file has one of
    /// the same name, that one takes effect after a removal. A new entry goes to the [default
    /// file](Self::default_file). So do the current context, extensions and other top-level fields,
    /// since that file has precedence; these are removed from all files. Everything else in the
    /// files stays, including unknown fields, but not comments. Files are replaced atomically and
    /// readable only by their owner: the previous owner if the process may change it, as root may,
    /// and otherwise the user of the process.
    ///
    /// # Errors
    /// If a file cannot be read or written, or another process holds its lock.
    #[doc(alias = "ModifyConfig")]
    pub fn edit(&self, change: impl FnOnce(&mut Kubeconfig)) -> Result<(), ConfigError> {
        let mut files: Vec<PathBuf> =
            self.files().into_iter().chain(self.default_file()).map(real_path).collect::<Result<_, _>>()?;
        // Sorted, so that two writers cannot deadlock.
        files.sort_unstable();
        files.dedup();
        let _locks = files.iter().map(|file| LockFile::take(file)).collect::<Result<Vec<_>, _>>()?;
        let before = match self.load() {
            // A missing file counts as empty.
            Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Kubeconfig::default(),
            loaded => loaded?,
        };
        let mut changed = before.clone();
        change(&mut changed);
        let sources = self.files().into_iter().map(real_path).collect::<Result<_, _>>()?;
        let mut edits = Edits { default: self.default_file().map(real_path).transpose()?, sources, trees: Vec::new() };
        edits
            .entries("clusters", "cluster", &before.clusters, &changed.clusters, |cluster| cluster.origin.as_deref())?;
        edits.entries("users", "user", &before.users, &changed.users, |user| user.origin.as_deref())?;
        edits
            .entries("contexts", "context", &before.contexts, &changed.contexts, |context| context.origin.as_deref())?;
        match &changed.current_context {
            same if *same == before.current_context => {}
            Some(name) => drop(edits.tree(None)?.insert("current-context", name.as_str().into())),
            // Any file may name it; if it were left in one, that would become current.
            None => edits.in_all(|tree| {
                if let Some(name) = tree.get_mut("current-context") {
                    *name = "".into();
                }
            })?,
        }
        edits.extensions(&before.extensions, &changed.extensions)?;
        edits.rest(&before.unknown, &changed.unknown)?;
        edits.write()
    }
}

impl Kubeconfig {
    /// Writes the kubeconfig to one file, readable only by its owner. Blocks briefly.
    ///
    /// # Errors
    /// If the file cannot be written, or is part of a link cycle; it is then unchanged.
    #[inline]
    pub fn write(&self, file: &Path) -> Result<(), ConfigError> {
        let file = real_path(file)?;
        let _lock = LockFile::take(&file)?;
        replace(&file, self.to_yaml().as_bytes()).map_err(|source| ConfigError::Write { file, source })
    }
}

/// The files to change, as trees.
struct Edits {
    default: Option<PathBuf>,
    /// All files that were read or are missing.
    sources: Vec<PathBuf>,
    trees: Vec<Tree>,
}

struct Tree {
    file: PathBuf,
    before: Map<Value>,
    after: Map<Value>,
}

impl Edits {
    /// The tree of a file, or of the default file.
    #[inline]
    fn tree(&mut self, file: Option<&Path>) -> Result<&mut Map<Value>, ConfigError> {
        let file = file.map(real_path).transpose()?.or_else(|| self.default.clone()).ok_or(ConfigError::Empty)?;
        let known = self.trees.iter().position(|known| known.file == file);
        let place = known.unwrap_or(self.trees.len());
        if known.is_none() {
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                Err(source) => return Err(ConfigError::Read { file, source }),
            };
            let mut tree = match parse_tree(&text, &file)? {
                Value::Object(tree) => tree,
                _ => Map::new(),
            };
            tree.get_or_insert_with("apiVersion", || "v1".into());
            tree.get_or_insert_with("kind", || "Config".into());
            self.trees.push(Tree { file, before: tree.clone(), after: tree });
        }
        Ok(&mut self.trees[place].after)
    }

    /// Changes the trees of all files.
    fn in_all(&mut self, change: impl Fn(&mut Map<Value>)) -> Result<(), ConfigError> {
        for file in self.sources.clone() {
            change(self.tree(Some(&file))?);
        }
        Ok(())
    }

    /// Writes the files whose trees have changed.
    #[inline]
    fn write(self) -> Result<(), ConfigError> {
        for Tree { file, after, .. } in self.trees.into_iter().filter(|tree| tree.before != tree.after) {
            let mut text = String::new();
            yaml::write(&Value::Object(after), &mut text);
            replace(&file, text.as_bytes()).map_err(|source| ConfigError::Write { file, source })?;
        }
        Ok(())
    }

    fn entries<S: Section + PartialEq>(
        &mut self,
        plural: &str,
        singular: &str,
        before: &BTreeMap<String, S>,
        after: &BTreeMap<String, S>,
        origin: impl Fn(&S) -> Option<&Path>,
    ) -> Result<(), ConfigError> {
        for (name, section) in after.iter().filter(|(name, section)| before.get(*name) != Some(section)) {
            let file = origin(section).or_else(|| before.get(name).and_then(&origin));
            let directory = file.and_then(Path::parent).map(Path::to_owned);
            put(items(self.tree(file)?, plural), name, singular, |old| {
                keep_relative(old, section.to_value(), directory.as_deref())
            });
        }
        for (name, section) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            items(self.tree(origin(section))?, plural).retain(|item| !is_named(item, name));
        }
        Ok(())
    }

    #[inline]
    fn extensions(
        &mut self,
        before: &BTreeMap<String, Value>,
        after: &BTreeMap<String, Value>,
    ) -> Result<(), ConfigError> {
        for (name, extension) in after.iter().filter(|(name, extension)| before.get(*name) != Some(extension)) {
            put(items(self.tree(None)?, "extensions"), name, "extension", |_| extension.clone());
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            self.in_all(|tree| {
                if let Some(Value::Array(items)) = tree.get_mut("extensions") {
                    items.retain(|item| !is_named(item, name));
                }
            })?;
        }
        Ok(())
    }

    /// Unknown top-level fields, such as `preferences`.
    #[inline]
    fn rest(&mut self, before: &Map<Value>, after: &Map<Value>) -> Result<(), ConfigError> {
        let is_free = |name: &str| !OWN_FIELDS.contains(&name);
        for (name, value) in after.iter().filter(|(name, value)| is_free(name) && before.get(name) != Some(value)) {
            self.tree(None)?.insert(name.clone(), value.clone());
        }
        for (name, _) in before.iter().filter(|(name, _)| is_free(name) && after.get(name).is_none()) {
            self.in_all(|tree| drop(tree.remove(name)))?;
        }
        Ok(())
    }
}

#[inline]
fn is_named(item: &Value, name: &str) -> bool {
    item.get("name").and_then(Value::as_str) == Some(name)
}

/// Replaces the item of this name with the result of `make`, or appends it.
fn put(items: &mut List<Value>, name: &str, field: &str, make: impl FnOnce(Option<&Value>) -> Value) {
    match items.iter_mut().find(|item| is_named(item, name)) {
        Some(Value::Object(item)) => {
            let value = make(item.get(field));
            item.insert(field, value);
        }
        _ => items.push(Value::Object(Map::from([("name", Value::from(name)), (field, make(None))]))),
    }
}

#[inline]
fn items<'a>(tree: &'a mut Map<Value>, plural: &str) -> &'a mut List<Value> {
    let list = tree.get_or_insert_with(plural, || Value::Array(List::new()));
    if !matches!(list, Value::Array(_)) {
        *list = Value::Array(List::new());
    }
    match list {
        Value::Array(items) => items,
        _ => unreachable!("made a list two lines up"),
    }
}

/// Keeps relative paths of the file if their meaning is unchanged.
#[inline]
fn keep_relative(old: Option<&Value>, mut new: Value, directory: Option<&Path>) -> Value {
    let (Some(old), Some(directory), Some(map)) = (old, directory, new.as_object_mut()) else { return new };
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let keep = |before: Option<&Value>, after: Option<&mut Value>| {
        let (Some(before), Some(after)) = (before.and_then(Value::as_str), after) else { return };
        let is_same = after.as_str() == Some(&*resolved(Path::new(before), &directory).to_string_lossy());
        if is_same {
            *after = before.into();
        }
    };
    for name in PATHS {
        keep(old.get(name), map.get_mut(name));
    }
    if let (Some(old), Some(Value::Object(exec))) = (old.get("exec"), map.get_mut("exec")) {
        // A bare name is looked up in PATH and is not a file in the directory.
        let is_path = |command: &&Value| command.as_str().is_some_and(|text| text.contains(std::path::is_separator));
        keep(old.get("command").filter(is_path), exec.get_mut("command"));
    }
    new
}
