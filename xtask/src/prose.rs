//! `cargo xtask prose --check`: form of comments and Markdown.
//!
//! Prose is wrapped at 100 columns. A sentence has a subject: it does not open with a relative
//! pronoun, such as "Which came first". Generated files, the changelog and translations are not
//! checked.

use std::path::{Path, PathBuf};

const WIDTH: usize = 100;

/// First words of sentences without a subject.
const HEADLESS: [&str; 7] = ["What", "Who", "Whoever", "Whose", "Whom", "Those", "Which"];
/// Second words, after "Of".
const AFTER_OF: [&str; 13] =
    ["which", "whom", "how", "one", "such", "several", "a", "an", "the", "what", "those", "these", "it"];

/// Files that are written by programs or follow other rules.
const EXEMPT: [&str; 5] = ["LATEST.md", "PARTIAL.md", "CHANGELOG.md", "go-names.md", ".zh.md"];

/// Reports success, or prints the lines with problems.
pub fn run() -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut count = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let is_markdown = file.extension().is_some_and(|extension| extension == "md");
        for problem in problems(&text, is_markdown) {
            println!("{}:{problem}", file.strip_prefix(root).unwrap_or(file).display());
            count += 1;
        }
    }
    if count == 0 {
        Ok(format!("the prose of {} files is in form", files.len()))
    } else {
        Err(format!("{count} lines"))
    }
}

/// All Rust and Markdown files below a folder but hidden, generated, built and exempt ones.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || matches!(&*name, "target" | "generated") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if (name.ends_with(".rs") || name.ends_with(".md")) && !EXEMPT.iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    Ok(())
}

/// The numbers of the lines with problems, each with a description.
fn problems(text: &str, is_markdown: bool) -> Vec<String> {
    let mut found = Vec::new();
    let (mut in_code, mut previous) = (false, "");
    for (index, line) in text.lines().enumerate() {
        let mut prose = if is_markdown { Some(line) } else { comment(line) };
        if prose.is_some_and(|prose| prose.trim_start().starts_with("```")) {
            in_code = !in_code;
            prose = None;
        } else if prose.is_none() {
            in_code = false;
        }
        let is_other = |prose: &&str| in_code || is_markdown && is_markup(prose);
        let Some(prose) = prose.filter(|prose| !is_other(prose)) else {
            previous = "";
            continue;
        };
        let starts = previous.trim_end().is_empty() || previous.trim_end().ends_with(['.', ':', '!', '?']);
        previous = prose;
        if starts && is_headless(prose) {
            found.push(format!("{}: the sentence has no subject: {}", index + 1, prose.trim()));
        }
        if line.chars().count() > WIDTH && !has_long_address(line) {
            found.push(format!("{}: wider than {WIDTH} columns", index + 1));
        }
    }
    found
}

/// The text of a line comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    let text = text.strip_prefix(['/', '!']).unwrap_or(text);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// Whether a line of Markdown is a table, a heading, code or an image.
fn is_markup(line: &str) -> bool {
    ["|", "#", "    ", "<", "![", "["].iter().any(|start| line.starts_with(start))
}

fn is_headless(prose: &str) -> bool {
    let mut words = prose.split(|character: char| !character.is_alphanumeric());
    match words.next() {
        Some("Of") => words.next().is_some_and(|word| AFTER_OF.contains(&word)),
        Some("That") => words.next() == Some("which"),
        Some(word) => HEADLESS.contains(&word),
        None => false,
    }
}

/// Whether a line has an address that cannot be wrapped.
fn has_long_address(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        ["http://", "https://"].iter().any(|scheme| word.split_once(scheme).is_some_and(|(_, rest)| rest.len() >= 40))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_and_sentences_without_a_subject_are_problems() {
        let wide = "x".repeat(98);
        let code =
            format!("/// What is rare.\n/// Whole objects.\nlet what = 1;\n// {wide}\n\n//! Of which the\n// end");
        let found = problems(&code, false);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("1: the sentence") && found[1] == "4: wider than 100 columns");
        assert!(found[2].starts_with("6: the sentence"));
    }

    #[test]
    fn code_tables_addresses_and_continued_sentences_are_no_problem() {
        let address = format!("see https://example.com/{}", "x".repeat(90));
        let table = format!("| {} |", "x".repeat(100));
        let text = format!("A sentence\nWhat goes on.\n\n```\nWhat\n```\n{table}\n{address}\n# Who\n");
        assert_eq!(problems(&text, true), [""; 0]);
        assert_eq!(problems("/// ```\n/// What\n/// ```\nfn f() {}\n// That is it.\n", false), [""; 0]);
    }
}
