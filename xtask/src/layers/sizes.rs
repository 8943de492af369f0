//! The size of each crate. A larger one has parts that stand on their own.

use std::path::{Path, PathBuf};

/// Maximum number of lines of a crate, tests included, without generated code.
const MAX_LINES: usize = 20_000;

/// The crates that are too large, as text. `sources` are their `src` folders.
pub fn problems(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for source in sources {
        let lines = lines(source)?;
        if lines > MAX_LINES {
            let place = source.strip_prefix(root).unwrap_or(source).display();
            problems.push(format!("{place} has {lines} lines; move a part of it into a crate of its own"));
        }
    }
    Ok(problems)
}

fn lines(folder: &Path) -> Result<usize, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut count = 0;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            count += if path.ends_with("generated") { 0 } else { lines(&path)? };
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            count += text.lines().count();
        }
    }
    Ok(count)
}
