//! The layer table of ARCHITECTURE.md, compared with the manifests of the crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The heading of the section with the table.
const SECTION: &str = "## Layers";

type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// The differences between the table and the manifests, as text.
pub fn problems(root: &Path) -> Result<Vec<String>, String> {
    let architecture = read(&root.join("ARCHITECTURE.md"))?;
    let listed = listed(&architecture).ok_or_else(|| format!("ARCHITECTURE.md has no section {SECTION:?}"))?;
    let used = used(&root.join("crates"))?;
    let nothing = BTreeSet::new();
    let mut problems = Vec::new();
    for (name, dependencies) in &used {
        let Some(allowed) = listed.get(name) else {
            problems.push(format!("ARCHITECTURE.md: the layer table has no row for {name}"));
            continue;
        };
        for dependency in dependencies.difference(allowed) {
            problems.push(format!("{name} uses {dependency}, which the layer table of ARCHITECTURE.md does not list"));
        }
    }
    for (name, dependencies) in &listed {
        for dependency in dependencies.difference(used.get(name).unwrap_or(&nothing)) {
            problems
                .push(format!("ARCHITECTURE.md: the layer table says that {name} uses {dependency}, but it does not"));
        }
    }
    Ok(problems)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The rows of the table: a crate, and the crates that it uses.
fn listed(architecture: &str) -> Option<Dependencies> {
    let (_, section) = architecture.split_once(SECTION)?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|');
        Some((names(cells.next()?).into_iter().next()?, names(cells.next()?)))
    });
    Some(rows.collect())
}

/// The names between backticks.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The workspace dependencies of each crate, without dev-dependencies.
fn used(crates: &Path) -> Result<Dependencies, String> {
    let entries = std::fs::read_dir(crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let mut used = Dependencies::new();
    for folder in entries.flatten().map(|entry| entry.path()).filter(|path| path.join("Cargo.toml").exists()) {
        let manifest = read(&folder.join("Cargo.toml"))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        used.insert(name, dependencies(&manifest));
    }
    Ok(used)
}

/// Crates of the workspace in the sections `dependencies` and `build-dependencies`, of any target.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut in_dependencies = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        let mut name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if let Some(section) = line.trim().strip_prefix('[') {
            // A section such as `[dependencies.kubewright-core]` names its dependency.
            let (table, dependency) = section.split_once("dependencies").unwrap_or(("dev-", ""));
            in_dependencies = !table.ends_with("dev-");
            name = dependency.trim_matches(['.', ']']);
        }
        if in_dependencies && name.starts_with("kubewright") {
            found.insert(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_from_its_section() {
        let text =
            "# A\n| `x` | `y` |\n## Layers\n\n| crate | uses |\n|---|---|\n| `a` | |\n| `b` | `a`, `c` |\n\n## B\n";
        let listed = listed(text).expect("it has the section");
        assert_eq!(listed["a"], BTreeSet::new());
        assert_eq!(listed["b"], BTreeSet::from(["a".to_owned(), "c".to_owned()]));
        assert_eq!(listed.len(), 2);
    }

    #[test]
    fn dependencies_of_tests_do_not_count() {
        let manifest = "[dependencies]\nkubewright-core.workspace = true\nbytes = \"1\"\n\
                        kubewright-api = { workspace = true }\n[dev-dependencies]\nkubewright-cli.workspace = true\n\
                        [features]\nkubewright-derive = []\n";
        let expected = ["kubewright-api", "kubewright-core"].map(str::to_owned);
        assert_eq!(dependencies(manifest), BTreeSet::from(expected));
    }

    #[test]
    fn dependencies_count_in_any_notation() {
        for manifest in [
            "[build-dependencies]\nkubewright-core.workspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nkubewright-core = { path = \"../kubewright-core\" }\n",
            "[dependencies.kubewright-core]\nworkspace = true\n",
        ] {
            assert_eq!(dependencies(manifest), BTreeSet::from(["kubewright-core".to_owned()]), "{manifest}");
        }
        assert_eq!(dependencies("[dev-dependencies.kubewright-core]\nworkspace = true\n"), BTreeSet::new());
    }
}
