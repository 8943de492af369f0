//! Generates `src/kinds.rs` from the record.

use std::fmt::Write as _;

use super::names::struct_of;
use super::record::{KindRecord, ProjectRecord};

/// The path of the file in the project.
pub const FILE: &str = "src/kinds.rs";

/// The comment before the checksum.
const MARK: &str = "// checksum: ";

const HEAD: &str = "\
//! The kinds of this project.
//!
//! Written by `kubewright create` from `kubewright.yaml`, and replaced by it. Do not edit this
//! file; the modules below are yours.

";

/// The file, with its checksum.
pub fn generate(record: &ProjectRecord) -> String {
    let body = body(record);
    format!("{HEAD}{MARK}{}\n\n{body}", checksum(&body))
}

/// Whether someone has edited the file. Formatting does not count.
pub fn is_edited(text: &str) -> bool {
    let Some((_, rest)) = text.split_once(MARK) else { return true };
    let Some((sum, body)) = rest.split_once('\n') else { return true };
    checksum(body) != sum.trim()
}

/// FNV-1a of the text without white space, commas and braces, which rustfmt changes. It would also
/// sort imports and modules, so the generated text is sorted.
fn checksum(text: &str) -> String {
    let counts = |byte: &u8| !byte.is_ascii_whitespace() && *byte != b',' && *byte != b'{' && *byte != b'}';
    let sum = text
        .bytes()
        .filter(counts)
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{sum:016x}")
}

fn body(record: &ProjectRecord) -> String {
    let mut text = imports(record);
    let mut kinds: Vec<&KindRecord> = record.kinds.iter().collect();
    kinds.sort_by(|a, b| a.module.cmp(&b.module));
    kinds.iter().for_each(|kind| text += &modules(kind));
    text += "/// The definitions of all kinds.\n";
    text += "pub fn definitions() -> Result<Vec<CustomResourceDefinition>, BoxError> {\n    Ok(vec![\n";
    for kind in &record.kinds {
        let _ = writeln!(text, "        {},", definition(kind));
    }
    text += "    ])\n}\n\n/// Adds the controllers of all kinds to `manager`.\n";
    text += "pub fn add_to(manager: &mut Manager) -> Result<(), BoxError> {\n";
    let controlled: Vec<&KindRecord> = record.kinds.iter().filter(|kind| kind.has_controller).collect();
    for kind in &controlled {
        let _ = writeln!(text, "    {}::controller::add_to(manager)?;", kind.module);
    }
    if controlled.is_empty() {
        text += "    let _ = manager;\n";
    }
    text += "    Ok(())\n}\n\n/// The webhooks of all kinds, if there are any.\n";
    text += "pub fn webhooks() -> Option<Webhooks> {\n";
    let calls: Vec<String> = record.kinds.iter().flat_map(calls).collect();
    if calls.is_empty() {
        text += "    None\n";
    } else {
        text += "    let webhooks = Webhooks::new()";
        calls.iter().for_each(|call| {
            let _ = write!(text, "\n        {call}");
        });
        text += ";\n    Some(webhooks)\n";
    }
    text += "}\n";
    for kind in record.kinds.iter().filter(|kind| kind.has_conversion) {
        text += &conversion(kind);
    }
    text
}

fn imports(record: &ProjectRecord) -> String {
    let has_conversion = record.kinds.iter().any(|kind| kind.has_conversion);
    let has_merged = record.kinds.iter().any(|kind| !kind.has_conversion && kind.versions.len() > 1);
    let has_single = record.kinds.iter().any(|kind| !kind.has_conversion);
    let mut custom = Vec::new();
    if has_single {
        custom.push("CustomResource");
    }
    if has_conversion {
        custom.push("Versions");
    }
    if has_merged {
        custom.push("merge_versions");
    }
    let custom = if let [one] = custom[..] { one.to_owned() } else { format!("{{{}}}", custom.join(", ")) };
    let mut text = String::from("use kubewright::api::apiextensions::v1::CustomResourceDefinition;\n");
    let _ = writeln!(text, "use kubewright::runtime::custom::{custom};");
    text += "use kubewright::runtime::webhook::Webhooks;\nuse kubewright::runtime::{BoxError, Manager};\n\n";
    if has_conversion {
        text += "use crate::manifests;\n\n";
    }
    text
}

fn modules(kind: &KindRecord) -> String {
    let mut names: Vec<(String, String)> =
        kind.versions.iter().map(|version| (version.clone(), format!("    pub mod {version};\n"))).collect();
    let mut add = |name: &str, text: String| names.push((name.to_owned(), text));
    if kind.has_controller {
        add("controller", "    pub mod controller;\n".into());
    }
    if kind.defaulting.is_some() {
        add("defaulting", "    pub mod defaulting;\n".into());
    }
    if kind.validating.is_some() {
        add("validating", "    pub mod validating;\n".into());
    }
    if kind.has_conversion {
        let mut spokes: Vec<&String> = kind.versions.iter().skip(1).collect();
        spokes.sort();
        let spokes: String = spokes.iter().map(|spoke| format!("        mod {spoke};\n")).collect();
        add("conversion", format!("    mod conversion {{\n{spokes}    }}\n"));
    }
    names.sort();
    let mut text = format!("pub mod {} {{\n", kind.module);
    names.iter().for_each(|(_, line)| text += line);
    if kind.has_controller {
        text += "\n    #[cfg(test)]\n    mod tests;\n";
    }
    text + "}\n\n"
}

/// The type of a version.
fn type_of(kind: &KindRecord, version: &str) -> String {
    format!("{}::{version}::{}", kind.module, struct_of(&kind.kind))
}

fn definition(kind: &KindRecord) -> String {
    if kind.has_conversion {
        let path = conversion_path(kind);
        return format!("{}_versions().definition(manifests::conversion_webhook(\"{path}\"))?", kind.module);
    }
    let definitions: Vec<String> =
        kind.versions.iter().map(|version| format!("{}::definition()", type_of(kind, version))).collect();
    match &definitions[..] {
        [one] => one.clone(),
        several => format!("merge_versions([{}])?", several.join(", ")),
    }
}

fn calls(kind: &KindRecord) -> Vec<String> {
    let module = &kind.module;
    let mut calls = Vec::new();
    if kind.defaulting.is_some() {
        calls.push(format!(".set_defaults({module}::defaulting::set_defaults)"));
    }
    if kind.validating.is_some() {
        calls.push(format!(".validate({module}::validating::validate)"));
    }
    if kind.has_conversion {
        calls.push(format!(".convert(\"{}\", {module}_versions().into_converter())", conversion_path(kind)));
    }
    calls
}

fn conversion_path(kind: &KindRecord) -> String {
    format!("/convert-{}-{}", kind.group.replace('.', "-"), kind.plural)
}

fn conversion(kind: &KindRecord) -> String {
    let hub = type_of(kind, &kind.versions[0]);
    let spokes: String =
        kind.versions.iter().skip(1).map(|version| format!(".with::<{}>()", type_of(kind, version))).collect();
    format!(
        "\n/// Objects of {} are stored in the version {}.\nfn {}_versions() -> Versions<{hub}> {{\n    \
         Versions::new(){spokes}\n}}\n",
        kind.kind, kind.versions[0], kind.module
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = include_str!("../../templates/new/kubewright.yaml");

    #[test]
    fn the_template_has_what_is_generated_for_its_record() {
        let record = ProjectRecord::read(RECORD).expect("it is valid");
        let generated = generate(&record);
        if std::env::var_os("KUBEWRIGHT_UPDATE").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/new/src/kinds.rs"), &generated).unwrap();
        }
        let template = include_str!("../../templates/new/src/kinds.rs");
        assert!(!is_edited(template), "run the test with KUBEWRIGHT_UPDATE=1");
        let sum = |text: &str| text.split_once(MARK).and_then(|(_, rest)| rest.lines().next()).map(str::to_owned);
        assert_eq!(sum(template), sum(&generated), "run the test with KUBEWRIGHT_UPDATE=1");
    }

    #[test]
    fn edits_are_noticed_and_formatting_is_not() {
        let text = generate(&ProjectRecord::read(RECORD).expect("it is valid"));
        assert!(!is_edited(&text));
        assert!(!is_edited(&text.replace("    Ok(vec![\n        ", "    Ok(vec![").replace(",\n    ])", "])")));
        assert!(is_edited(&text.replace("pub mod controller;", "pub mod controller;\n    pub mod mine;")));
        assert!(is_edited("mod mine;"));
    }

    #[test]
    fn versions_and_webhooks_become_calls() {
        let more = "\
- api: {group: example.com, version: v1beta1, kind: Widget, plural: widgets, namespaced: true}
- webhook: {group: example.com, version: v1alpha1, kind: Widget, defaulting: true, conversion: true}
- api: {group: b.com, version: v1, kind: Self, plural: selves, namespaced: true, controller: false}
- api: {group: b.com, version: v2, kind: Self, plural: selves, namespaced: true}
";
        let text = generate(&ProjectRecord::read(&format!("{RECORD}{more}")).expect("it is valid"));
        for part in [
            "    mod conversion {\n        mod v1beta1;\n    }\n",
            "merge_versions([self_::v1::SelfResource::definition(), self_::v2::SelfResource::definition()])?",
            "widget_versions().definition(manifests::conversion_webhook(\"/convert-example-com-widgets\"))?",
            ".set_defaults(widget::defaulting::set_defaults)",
            "fn widget_versions() -> Versions<widget::v1alpha1::Widget> {\n    Versions::new().with::<widget::v1beta1::Widget>()",
            "use kubewright::runtime::custom::{CustomResource, Versions, merge_versions};",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
