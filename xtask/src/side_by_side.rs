//! The page of the book that shows each program of `examples/side-by-side` in Go, with kube-rs and
//! with kubewright, and counts their lines.

use std::fmt::Write as _;
use std::path::Path;

const FOLDER: &str = "examples/side-by-side";
const PAGE: &str = "docs/src/side-by-side.md";

/// One program in three versions.
struct Program {
    folder: String,
    title: String,
    text: String,
    go: Version,
    kube: Version,
    ours: Version,
}

/// A version of a program.
struct Version {
    file: &'static str,
    lines: usize,
}

/// Writes the page, or checks that it is up to date.
pub fn run(is_check: bool) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let introduction = read(&root.join(FOLDER).join("README.md"))?;
    let programs = programs(&root.join(FOLDER))?;
    let page = page(&introduction, &programs);
    let path = root.join(PAGE);
    if std::fs::read_to_string(&path).is_ok_and(|written| written == page) {
        return Ok(format!("{PAGE} is up to date, {} programs", programs.len()));
    }
    if is_check {
        return Err(format!("{PAGE} is not up to date: cargo xtask side-by-side"));
    }
    std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{PAGE} has {} programs", programs.len()))
}

/// The programs, by their numbers.
fn programs(folder: &Path) -> Result<Vec<Program>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect();
    names.sort();
    names.into_iter().map(|name| program(&folder.join(&name), name)).collect()
}

fn program(path: &Path, folder: String) -> Result<Program, String> {
    let about = read(&path.join("README.md"))?;
    let (title, text) = about.split_once("\n\n").ok_or_else(|| format!("{folder}/README.md has no text"))?;
    let title = title.strip_prefix("# ").ok_or_else(|| format!("{folder}/README.md has no title"))?;
    let version = |file: &'static str| Ok::<_, String>(Version { file, lines: lines(&read(&path.join(file))?) });
    let go = if path.join("main_test.go").exists() { "main_test.go" } else { "main.go" };
    let (title, text) = (title.to_owned(), text.trim_end().to_owned());
    Ok(Program { title, text, go: version(go)?, kube: version("kube.rs")?, ours: version("kubewright.rs")?, folder })
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Number of lines that are neither empty nor a comment.
fn lines(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

fn page(introduction: &str, programs: &[Program]) -> String {
    let mut page =
        format!("{}\n\n| program | Go | kube-rs | kubewright |\n| --- | --- | --- | --- |\n", introduction.trim_end());
    let mut total = [0; 3];
    for program in programs {
        let counts = [program.go.lines, program.kube.lines, program.ours.lines];
        let [go, kube, ours] = counts;
        let anchor = anchor(&program.title);
        let _ = writeln!(page, "| [{}](#{anchor}) | {go} | {kube} | {ours} |", program.title);
        total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    let [go, kube, ours] = total;
    let _ = writeln!(page, "| all {} programs | {go} | {kube} | {ours} |", programs.len());
    for program in programs {
        let _ = writeln!(page, "\n## {}\n\n{}", program.title, program.text);
        let include = |version: &Version, language: &str| {
            format!("```{language}\n{{{{#include ../../{FOLDER}/{}/{}}}}}\n```\n", program.folder, version.file)
        };
        let _ = write!(page, "\n{}", include(&program.ours, "rust,ignore"));
        for (name, version, language) in [("kube-rs", &program.kube, "rust,ignore"), ("Go", &program.go, "go")] {
            let code = include(version, language);
            let _ =
                write!(page, "\n<details><summary>{name}, {} lines</summary>\n\n{code}\n</details>\n", version.lines);
        }
    }
    page
}

/// The anchor that mdBook gives to a heading.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_and_comments_are_not_counted() {
        assert_eq!(lines("// Prints.\npackage main\n\nfunc main() {\n\t// Later.\n\tf() // now\n}\n"), 4);
    }

    #[test]
    fn a_program_has_a_row_and_a_section() {
        let version = |file, lines| Version { file, lines };
        let program = Program {
            folder: "01-a".to_owned(),
            title: "List pods".to_owned(),
            text: "It lists.".to_owned(),
            go: version("main.go", 20),
            kube: version("kube.rs", 10),
            ours: version("kubewright.rs", 9),
        };
        let page = page("# Side by side\n", &[program]);
        assert!(
            page.contains("| [List pods](#list-pods) | 20 | 10 | 9 |\n| all 1 programs | 20 | 10 | 9 |\n"),
            "{page}"
        );
        assert!(page.contains("## List pods\n\nIt lists.\n\n```rust,ignore\n{{#include ../../examples/side-by-side/01-a/kubewright.rs}}\n```\n"));
        assert!(page.contains("<details><summary>Go, 20 lines</summary>\n\n```go\n"));
    }
}
