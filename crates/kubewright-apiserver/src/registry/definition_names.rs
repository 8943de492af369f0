//! The index terms of CustomResourceDefinitions.

use kubewright_core::{Str, Value};
use kubewright_storage::Key;

use kubewright_objects::lookup::IndexTerm;
use kubewright_objects::object::{texts, tree};

/// The accepted names of a definition, and whether it waits for others.
pub(super) fn name_terms(_: &Key, definition: &Value) -> Vec<IndexTerm> {
    let group = Str::from(tree::text(definition, &["spec", "group"]));
    let accepted = tree::get(definition, &["status", "acceptedNames"]);
    let text = |field: &str| accepted.and_then(|names| names.get(field)).and_then(Value::as_str).map(Str::from);
    let short = texts(accepted.and_then(|names| names.get("shortNames")));
    let names = ["plural", "singular"].into_iter().filter_map(text).chain(short);
    let mut terms: Vec<IndexTerm> = names.map(|name| IndexTerm::ResourceName { group: group.clone(), name }).collect();
    let kinds = ["kind", "listKind"].into_iter().filter_map(text);
    terms.extend(kinds.map(|name| IndexTerm::Kind { group: group.clone(), name }));
    if tree::get(definition, &["spec", "names"]) != accepted {
        terms.push(IndexTerm::WaitingForNames { group });
    }
    terms
}
