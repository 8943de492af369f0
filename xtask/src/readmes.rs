//! The README of each crate: its documentation, as the registry shows it.
//!
//! The text is the crate documentation of `lib.rs`, so that examples are tested and nothing is
//! written twice. Links within the code become plain text, and hidden lines of examples are left
//! out. The facade has the README of the project.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const REPOSITORY: &str = "https://github.com/kubewright/kubewright";

/// Writes the READMEs, or checks that they are up to date.
pub fn run(is_check: bool) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let (mut count, mut stale) = (0, Vec::new());
    for folder in public_crates(&root.join("crates"))? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = folder.join("src/lib.rs");
        let text = std::fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let readme = readme(&name, &text).map_err(|error| format!("{}: {error}", source.display()))?;
        let path = folder.join("README.md");
        count += 1;
        if std::fs::read_to_string(&path).is_ok_and(|written| written == readme) {
            continue;
        }
        if is_check {
            stale.push(name);
        } else {
            std::fs::write(&path, readme).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    if stale.is_empty() {
        return Ok(format!("the READMEs of {count} crates are up to date"));
    }
    Err(format!("the READMEs of {} are not up to date: cargo xtask readmes", stale.join(", ")))
}

/// The folders of published libraries, but the facade's.
fn public_crates(crates: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let mut folders = Vec::new();
    for folder in entries.flatten().map(|entry| entry.path()) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let is_facade = folder.ends_with("kubewright");
        if folder.join("src/lib.rs").exists() && !is_facade && !manifest.contains("publish = false") {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}

fn readme(name: &str, source: &str) -> Result<String, String> {
    let mut text = format!("# {name}\n\n");
    let (mut in_code, mut has_example) = (false, false);
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if let Some(language) = line.strip_prefix("```") {
            in_code = !in_code;
            // As rustdoc, which takes a block without a language for Rust.
            let is_rust = matches!(language, "" | "no_run" | "ignore");
            has_example |= in_code && (is_rust || language == "rust");
            text += if in_code && is_rust {
                "```rust\n"
            } else if in_code {
                line
            } else {
                "```\n"
            };
            if in_code && !is_rust {
                text.push('\n');
            }
        } else if in_code {
            if !line.starts_with("# ") && line != "#" {
                text += line;
                text.push('\n');
            }
        } else {
            text += &plain(line);
            text.push('\n');
        }
    }
    if !has_example {
        return Err("the crate documentation has no example".to_owned());
    }
    let _ = write!(
        text,
        "\nPart of [kubewright]({REPOSITORY}), a toolkit for Kubernetes\n\
         controllers. [Documentation](https://docs.rs/{name}). Licence: Apache-2.0.\n"
    );
    Ok(text)
}

/// A line without links to items, which only rustdoc can resolve: `` [`Api`](api::Api) `` becomes
/// `` `Api` ``.
fn plain(line: &str) -> String {
    let (mut text, mut rest) = (String::new(), line);
    while let Some(start) = rest.find('[') {
        let Some(length) = rest[start..].find(']') else { break };
        let (label, after) = (&rest[start + 1..start + length], &rest[start + length + 1..]);
        let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let is_web = target.is_some_and(|(target, _)| target.starts_with("http"));
        text += &rest[..start];
        if is_web || (target.is_none() && !label.starts_with('`')) {
            text += &rest[start..=start + length];
            rest = after;
        } else {
            text += label;
            rest = target.map_or(after, |(_, after)| after);
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_items_become_text_and_hidden_lines_are_left_out() {
        let lines = [
            "//! A [`Queue`](crate::Queue) of [keys](Key), see [`Map`] and [Go](https://go.dev).",
            "//!",
            "//! ```",
            "//! # fn main() {",
            "//! let a = [1];",
            "//! #",
            "//! # }",
            "//! ```",
            "",
            "mod a;",
        ];
        let expected = "# some\n\nA `Queue` of keys, see `Map` and [Go](https://go.dev).\n\n```rust\nlet a = [1];\n```\n\n\
                        Part of [kubewright](https://github.com/kubewright/kubewright), a toolkit for Kubernetes\n\
                        controllers. [Documentation](https://docs.rs/some). Licence: Apache-2.0.\n";
        assert_eq!(readme("some", &lines.join("\n")).as_deref(), Ok(expected));
        assert!(readme("some", "//! No example.").is_err());
    }
}
