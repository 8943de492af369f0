//! The module tree of a crate, and what each module imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::imports::Imports;

/// One module that has a file of its own.
pub struct Module {
    pub imports: BTreeSet<Vec<String>>,
    exports: Vec<(String, Vec<String>)>,
    /// The entries of the `src` folder that lead to its file. `mod.rs`, or a file beside a folder
    /// of its name, is the entry `mod.rs` of that folder.
    place: Vec<String>,
}

/// All modules, by their paths below the crate: the crate itself has none.
pub struct Modules {
    modules: BTreeMap<Vec<String>, Module>,
}

impl Modules {
    /// Reads all Rust files below a `src` folder but tests and generated code.
    pub fn read(source: &Path) -> Result<Modules, String> {
        let mut files = Vec::new();
        collect(source, &mut files)?;
        let paths: Vec<Vec<String>> = files.iter().map(|file| module_path(source, file)).collect();
        let mut modules = BTreeMap::new();
        for (file, path) in files.iter().zip(&paths) {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            let is_child = |other: &&Vec<String>| other.len() == path.len() + 1 && other.starts_with(path);
            let children = paths.iter().filter(is_child).filter_map(|child| child.last().cloned()).collect();
            let imports = Imports::read(&text, &children).map_err(|error| format!("{}: {error}", file.display()))?;
            let mut place = path.clone();
            let has_folder = paths.iter().any(|other| other.len() > path.len() && other.starts_with(path));
            if has_folder {
                place.push("mod.rs".to_owned());
            }
            modules.insert(path.clone(), Module { imports: imports.paths, exports: imports.exports, place });
        }
        Ok(Modules { modules })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Vec<String>, &Module)> {
        self.modules.iter()
    }

    /// The path of a module's file.
    pub fn place(&self, path: &[String]) -> Option<&[String]> {
        self.modules.get(path).map(|module| module.place.as_slice())
    }

    /// The module that defines the item at `import`, seen from the module `from`.
    pub fn resolve(&self, from: &[String], import: &[String]) -> Option<Vec<String>> {
        self.follow(from, import, 0)
    }

    fn follow(&self, from: &[String], import: &[String], depth: usize) -> Option<Vec<String>> {
        let mut module = from.to_vec();
        for (index, segment) in import.iter().enumerate() {
            match segment.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                name => {
                    let mut child = module.clone();
                    child.push(name.to_owned());
                    if self.modules.contains_key(&child) {
                        module = child;
                        continue;
                    }
                    let exports = &self.modules.get(&module)?.exports;
                    let Some((_, target)) = exports.iter().find(|(exported, _)| exported == name) else { break };
                    // Chains of re-exports are finite, because the code compiles.
                    if depth > 16 {
                        return None;
                    }
                    let target: Vec<String> = target.iter().chain(&import[index + 1..]).cloned().collect();
                    return self.follow(&module, &target, depth + 1);
                }
            }
        }
        Some(module)
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name == "generated" || name.ends_with("_tests") || name == "bin" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

fn module_path(source: &Path, file: &Path) -> Vec<String> {
    let relative = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let mut path: Vec<String> =
        relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let is_root = path.len() == 1 && matches!(path[0].as_str(), "lib" | "main");
    if is_root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}
