//! rustdoc and `kubectl explain` show the same sentences.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use crate::model::types;

/// The comment of a struct, and the comments of its fields. Each is one line.
#[derive(Default)]
struct Comments {
    of_struct: String,
    of_fields: HashSet<String>,
}

/// Collects the comments of all structs in the files of a folder.
fn collect(folder: &Path, found: &mut HashMap<String, Vec<Comments>>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            collect_file(&fs::read_to_string(&path).expect("it can be read"), found);
        }
    }
}

fn collect_file(text: &str, found: &mut HashMap<String, Vec<Comments>>) {
    let mut comment: Vec<&str> = Vec::new();
    let mut current: Option<(String, Comments)> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        // The first paragraph is the description; the generator appends rules of the field. It
        // escapes what rustdoc would take for a link.
        let first = comment.split(|line| line.is_empty()).next().unwrap_or_default().join(" ").replace('\\', "");
        comment.clear();
        if let Some(name) = line.strip_prefix("pub struct ") {
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            current = Some((name.to_owned(), Comments { of_struct: first, of_fields: HashSet::new() }));
        } else if line == "}" {
            if let Some((name, comments)) = current.take() {
                found.entry(name).or_default().push(comments);
            }
        } else if line.starts_with("pub ")
            && let Some((_, comments)) = &mut current
        {
            comments.of_fields.insert(first);
        }
    }
}

#[test]
fn rustdoc_and_explain_show_the_same_sentences() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it has a parent");
    let mut comments = HashMap::new();
    for folder in ["kubewright-api/src/generated", "kubewright-core/src/generated"] {
        collect(&crates.join(folder), &mut comments);
    }
    let none = Vec::new();
    let mut compared = 0;
    for entry in types() {
        let name = entry.info.name.rsplit('.').next().unwrap_or_default();
        let structs = comments.get(name).unwrap_or(&none);
        let rare = comments.get(&format!("{name}Rare")).unwrap_or(&none);
        assert!(structs.iter().any(|found| found.of_struct == entry.doc), "{name}: {:?}", entry.doc);
        for doc in entry.field_docs {
            let is_shown = structs.iter().chain(rare).any(|found| found.of_fields.contains(*doc));
            assert!(is_shown, "{name}: {doc:?} is not in rustdoc");
            compared += 1;
        }
    }
    assert!(compared > 2000, "only {compared} fields were compared");
}
