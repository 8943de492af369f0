//! `cargo xtask layers`: the dependencies between crates and between the modules of a crate.
//!
//! A crate may use only the crates that the layer table of ARCHITECTURE.md lists for it. Modules
//! of a crate may not import each other in a cycle that passes through a folder: a folder is a part
//! of the architecture, and parts are understood one after the other. Files of one folder may
//! import each other.
//!
//! A crate has at most 20,000 lines.
//!
//! Imports of tests are not checked, and neither is generated code.

mod graph;
mod imports;
mod modules;
mod sizes;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use graph::Graph;
use modules::Modules;

/// Reports success, or prints the problems. `shows_files` adds cycles between the files of
/// one folder.
pub fn run(shows_files: bool) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let problems = problems(root, shows_files)?;
    if problems.is_empty() {
        return Ok("the crates use what ARCHITECTURE.md lists, without cycles between folders, and none is too large"
            .to_owned());
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    Err(format!("{} problems with layers", problems.len()))
}

/// The problems of the workspace in the folder `root`, as text.
fn problems(root: &Path, shows_files: bool) -> Result<Vec<String>, String> {
    let mut problems = table::problems(root)?;
    let sources = source_folders(root)?;
    problems.extend(sizes::problems(root, &sources)?);
    for source in &sources {
        problems.extend(cycles(root, source, shows_files)?);
    }
    Ok(problems)
}

/// The `src` folders of all crates of the workspace, sorted.
fn source_folders(root: &Path) -> Result<Vec<PathBuf>, String> {
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path().join("src")).collect();
    folders.push(root.join("xtask/src"));
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    Ok(folders)
}

/// The import cycles of a crate, as text.
fn cycles(root: &Path, source: &Path, shows_files: bool) -> Result<Vec<String>, String> {
    let modules = Modules::read(source)?;
    let mut graphs: BTreeMap<Vec<String>, Graph> = BTreeMap::new();
    for (from, module) in modules.iter() {
        for import in &module.imports {
            let Some(to) = modules.resolve(from, import) else { continue };
            let (Some(from), Some(to)) = (modules.place(from), modules.place(&to)) else { continue };
            let common = from.iter().zip(to).take_while(|(from, to)| from == to).count();
            let (Some(one), Some(other)) = (from.get(common), to.get(common)) else { continue };
            let graph = graphs.entry(from[..common].to_vec()).or_default();
            let one = (one.as_str(), from.len() > common + 1);
            graph.add(one, (other.as_str(), to.len() > common + 1), &import.join("::"));
        }
    }
    let mut found = Vec::new();
    for (folder, graph) in graphs {
        let place = source.join(folder.join("/"));
        let place = place.strip_prefix(root).unwrap_or(&place).display().to_string();
        for cycle in graph.cycles().into_iter().filter(|cycle| shows_files || cycle.has_folder) {
            found.push(format!("{place}: {} import each other:\n{}", cycle.nodes.join(", "), cycle.edges.join("\n")));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a workspace of two crates, where `a` has a folder `disk` beside `store.rs`.
    fn problems_of(test: &str, manifest: &str, disk: &str, store: &str) -> Vec<String> {
        let root = std::env::temp_dir().join(format!("xtask-layers-{test}-{}", std::process::id()));
        let table = "## Layers\n\n| crate | uses |\n|---|---|\n| `kubewright-a` | |\n| `kubewright-b` | |\n";
        for (file, text) in [
            ("ARCHITECTURE.md", table),
            ("crates/kubewright-a/Cargo.toml", manifest),
            ("crates/kubewright-a/src/lib.rs", "mod disk;\nmod store;\n"),
            ("crates/kubewright-a/src/disk/mod.rs", "mod file;\n"),
            ("crates/kubewright-a/src/disk/file.rs", disk),
            ("crates/kubewright-a/src/store.rs", store),
            ("crates/kubewright-b/Cargo.toml", ""),
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().expect("it is in the root")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let problems = problems(&root, false);
        std::fs::remove_dir_all(root).expect("it was created above");
        problems.expect("the workspace is readable")
    }

    #[test]
    fn an_unlisted_dependency_is_a_problem() {
        let problems = problems_of("dependency", "[dependencies]\nkubewright-b.workspace = true\n", "", "");
        assert_eq!(
            problems,
            ["kubewright-a uses kubewright-b, which the layer table of ARCHITECTURE.md does not list"]
        );
    }

    #[test]
    fn a_cycle_through_a_folder_is_a_problem() {
        let problems = problems_of("cycle", "", "use crate::store::Store;", "use crate::disk::file::File;");
        let imports = "  disk -> store: crate::store::Store\n  store -> disk: crate::disk::file::File";
        assert_eq!(problems, [format!("crates/kubewright-a/src: disk, store import each other:\n{imports}")]);
    }

    #[test]
    fn a_crate_of_too_many_lines_is_a_problem() {
        let problems = problems_of("size", "", &"\n".repeat(19_996), "");
        assert_eq!(problems, [""; 0]);
        let problems = problems_of("size", "", &"\n".repeat(20_000), "");
        let want = "crates/kubewright-a/src has 20003 lines; move a part of it into a crate of its own";
        assert_eq!(problems, [want]);
    }

    #[test]
    fn imports_in_one_direction_are_no_problem() {
        assert_eq!(problems_of("downwards", "", "", "use crate::disk::file::File;"), [""; 0]);
    }
}
