//! The list of Go names in the book, from the aliases in the code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/src/go-names.md";

/// Writes the list, or checks that it is up to date.
pub fn run(is_check: bool) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let mut rows = BTreeSet::new();
    for file in sources(&root.join("crates"))? {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let inside = file.strip_prefix(root.join("crates")).unwrap_or(&file);
        let crate_name = inside.iter().next().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        rows.extend(names_in(&text).into_iter().map(|(go, ours)| (go, ours, crate_name.clone())));
    }
    let page = page(&rows);
    let path = root.join(PAGE);
    if std::fs::read_to_string(&path).is_ok_and(|written| written == page) {
        return Ok(format!("{PAGE} is up to date, {} names", rows.len()));
    }
    if is_check {
        return Err(format!("{PAGE} is not up to date: cargo xtask names"));
    }
    std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{PAGE} has {} names", rows.len()))
}

/// All public Rust files in a stable order. Generated resources are skipped, because their aliases
/// equal their Go names.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = Vec::new();
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && !["tests", "generated", "target", "benches"].contains(&name.as_str()) {
            files.extend(sources(&path)?);
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Pairs of a Go name and the item that has it as an alias: a method with its type.
fn names_in(text: &str) -> Vec<(String, String)> {
    let (mut names, mut waiting, mut owner) = (Vec::new(), Vec::new(), String::new());
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(rest) = trimmed.strip_prefix("#[doc(alias = \"") {
            waiting.extend(rest.split_once('"').map(|(name, _)| name.to_owned()));
            continue;
        }
        if line.starts_with("impl") || line.starts_with("pub trait ") {
            owner = type_of(line);
        } else if line == "}" {
            owner.clear();
        }
        if waiting.is_empty() || trimmed.is_empty() || trimmed.starts_with(['#', '/', ')', ']', '"']) {
            continue;
        }
        let item = item_of(trimmed)
            .filter(|_| trimmed.starts_with("pub ") || trimmed.starts_with("fn ") || is_variant(trimmed));
        if let Some(item) = item {
            let is_inside = line.starts_with(' ') && !owner.is_empty();
            let ours = if is_inside { format!("{owner}::{item}") } else { item };
            names.extend(waiting.drain(..).map(|go| (go, ours.clone())));
        }
        waiting.clear();
    }
    names
}

/// The type that an `impl` is of, without parameters.
fn type_of(line: &str) -> String {
    let mut line = line.trim_end_matches('{').trim();
    // The parameters of the `impl` itself.
    if let Some(rest) = line.strip_prefix("impl<") {
        let mut depth = 1;
        let end = rest.find(|character| {
            depth += match character {
                '<' => 1,
                '>' => -1,
                _ => 0,
            };
            depth == 0
        });
        line = &rest[end.map_or(0, |end| end + 1)..];
    }
    let line = line.trim_start_matches("impl").trim_start_matches("pub trait").trim();
    let line = line.rsplit_once(" for ").map_or(line, |(_, own)| own);
    line.split(['<', ' ', ':']).next().unwrap_or_default().to_owned()
}

/// The name of a declaration.
fn item_of(line: &str) -> Option<String> {
    let words = ["pub", "async", "const", "fn", "struct", "enum", "trait", "type", "static", "use", "mod", "unsafe"];
    let mut parts =
        line.split(|character: char| !character.is_alphanumeric() && character != '_').filter(|word| !word.is_empty());
    if line.starts_with("pub(") || line.starts_with("pub use") {
        return None;
    }
    parts.find(|word| !words.contains(word)).map(str::to_owned)
}

fn is_variant(line: &str) -> bool {
    line.starts_with(|character: char| character.is_ascii_uppercase())
}

fn page(rows: &BTreeSet<(String, String, String)>) -> String {
    let mut page = "# Every Go name\n\nWritten by `cargo xtask names` from the aliases in the code. Resources of the API have their Go \
        names everywhere: `client.core_v1().pods(\"default\")`, `Pod`, `PodSpec`.\n\n| Go | here | crate |\n| --- | --- | --- |\n"
        .to_owned();
    for (go, ours, crate_name) in rows {
        let _ = writeln!(page, "| `{go}` | `{ours}` | {crate_name} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_names_the_item_below_it() {
        let text = "#[doc(alias = \"NewQueue\")]\n#[must_use]\npub struct Queue<T> {\n}\n\nimpl<K: Into<Str>> Queue<K> {\n    \
                    #[doc(alias = \"AddAfter\")]\n    pub fn add_after(&self) {}\n    #[doc(alias = \"hidden\")]\n    pub(crate) fn own() {}\n}\n";
        let names = names_in(text);
        assert_eq!(names, [("NewQueue".into(), "Queue".into()), ("AddAfter".into(), "Queue::add_after".into())]);
    }
}
