//! `new` and `create`: what they write, refuse, and leave alone.

use std::path::Path;
use std::process::Command;

use crate::process::{Scratch, text};

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs the command in a folder, and returns its exit code and its output.
pub fn run(folder: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    let output = command.current_dir(folder).args(arguments).output().expect("the command was built");
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Runs the command, which succeeds.
pub fn done(folder: &str, arguments: &[&str]) -> String {
    let (code, said) = run(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

/// A new project `shop` in a scratch folder.
pub fn shop() -> (Scratch, String) {
    let scratch = Scratch::new("projects");
    std::fs::create_dir(&scratch.0).expect("it is new");
    let said = done(scratch.path(), &["new", "shop", "--group", "shop.example.org", "--kind", "Order", "--path", ROOT]);
    assert!(said.contains("next:  cd shop && kubewright dev"), "{said}");
    let folder = format!("{}/shop", scratch.path());
    (scratch, folder)
}

fn read(folder: &str, file: &str) -> String {
    std::fs::read_to_string(Path::new(folder).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// All files with their contents.
fn contents(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left = vec![Path::new(folder).to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("it is a folder").map(|entry| entry.expect("an entry").path()));
        } else {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).expect("it is text")));
        }
    }
    found.sort();
    found
}

#[test]
fn kinds_versions_and_webhooks_are_added_beside_the_files_of_the_user() {
    let (_scratch, folder) = shop();
    // The user edits whatever is theirs.
    for file in ["src/main.rs", "src/kinds/order/controller.rs", "kustomization.yaml", "kubewright.yaml"] {
        let comment = if file.ends_with(".rs") { "// mine\n" } else { "# mine\n" };
        std::fs::write(Path::new(&folder).join(file), comment.to_owned() + &read(&folder, file)).expect("it is there");
    }
    let before = contents(&folder);
    let said = done(&folder, &["create", "api", "--version", "v1beta1", "--kind", "Order"]);
    assert!(said.contains("next:  cargo run -- manifests && cargo test"), "{said}");
    done(&folder, &["create", "api", "--version", "v1", "--kind", "Option"]);
    done(&folder, &["create", "api", "--group", "pay.example.org", "--version", "v1", "--kind", "Type"]);
    let order = ["--group", "shop.example.org", "--version", "v1alpha1", "--kind", "Order"];
    let webhook = |flags: &[&'static str]| [&["create", "webhook"], &order[..], flags].concat();
    done(&folder, &webhook(&["--defaulting", "--validating"]));
    done(&folder, &webhook(&["--conversion"]));
    done(&folder, &["create", "api", "--group", "shop.example.org", "--version", "v1", "--kind", "Order"]);

    let after = contents(&folder);
    let of_the_tool = ["kubewright.yaml", "kustomization.yaml", "src/kinds.rs"];
    for (file, text) in &before {
        let now = after.iter().find(|(name, _)| name == file).map(|(_, text)| text);
        if of_the_tool.iter().any(|name| file.ends_with(name)) {
            let is_longer = now.is_some_and(|now| now.starts_with(text.as_str()) && now.len() > text.len());
            assert!(is_longer || file.ends_with("kinds.rs"), "{file} has lines at its end: {now:?}");
        } else {
            assert_eq!(now, Some(text), "{file}");
        }
    }
    let kinds = read(&folder, "src/kinds.rs");
    for part in ["fn order_versions()", "pub mod option {", "pub mod type_ {", ".validate(order::validating::validate)"]
    {
        assert!(kinds.contains(part), "{part}: {kinds}");
    }
    assert!(read(&folder, "src/kinds/order/v1beta1.rs").contains("not_stored"));
    assert!(read(&folder, "src/kinds/option/v1.rs").contains("struct = \"OptionResource\""));
    assert!(read(&folder, "src/kinds/order/conversion/v1.rs").contains("v1::Order"));
    assert!(read(&folder, "kustomization.yaml").ends_with("- manifests/40-webhooks.yaml\n"));
}

#[test]
fn what_would_lose_an_edit_is_refused_before_anything_is_written() {
    let (_scratch, folder) = shop();
    let path = |file: &str| Path::new(&folder).join(file);
    let refused = |arguments: &[&str], told: &str| {
        let before = contents(&folder);
        let (code, said) = run(&folder, arguments);
        assert!(code == Some(1) && said.contains(told), "{arguments:?}: {said}");
        assert_eq!(contents(&folder), before, "nothing was written");
    };
    std::fs::create_dir_all(path("src/kinds/invoice")).expect("it is new");
    std::fs::write(path("src/kinds/invoice/controller.rs"), "// mine").expect("it is writable");
    refused(&["create", "api", "--version", "v1", "--kind", "Invoice"], "exists, and is left as it is");
    refused(&["create", "api", "--version", "v1alpha1", "--kind", "Order"], "has the version v1alpha1 already");
    refused(&["create", "api", "--version", "v1", "--kind", "order"], "is no kind");
    refused(&["create", "webhook", "--version", "v1alpha1", "--kind", "Order", "--conversion"], "nothing to convert");
    refused(&["create", "webhook", "--version", "v1", "--kind", "Other", "--defaulting"], "there is no Other");

    let kinds = read(&folder, "src/kinds.rs");
    std::fs::write(path("src/kinds.rs"), format!("{kinds}\npub mod mine;\n")).expect("it is writable");
    refused(&["create", "api", "--version", "v1", "--kind", "Bill"], "src/kinds.rs was edited");
    std::fs::write(path("src/kinds.rs"), kinds).expect("it is writable");

    let record = read(&folder, "kubewright.yaml");
    std::fs::write(path("kubewright.yaml"), format!("{record}owner: me\n")).expect("it is writable");
    refused(&["create", "api", "--version", "v1", "--kind", "Bill"], "which is not its last field");
    std::fs::write(path("kubewright.yaml"), record).expect("it is writable");
    done(&folder, &["create", "api", "--version", "v1", "--kind", "Bill"]);
}

#[test]
fn errors_say_what_to_do() {
    let scratch = Scratch::new("projects");
    std::fs::create_dir(&scratch.0).expect("it is new");
    let folder = scratch.path();
    for (arguments, told) in [
        (&["new", "shop"][..], "kubewright new shop --path "),
        (&["new", "shop", "--path", "/nowhere"], "is no checkout of kubewright"),
        (&["new", "shop", "--path", ROOT, "--group", "shop"], "is no group"),
        (&["new", "shop", "--path", ROOT, "--kind", "order"], "is no kind"),
        (&["new", "match", "--path", ROOT], "a word of Rust"),
        (&["create", "api", "--version", "v1", "--kind", "Order"], "create one with `kubewright new NAME`"),
        (&["dev"], "create one with `kubewright new NAME`"),
        (&["rbac"], "create one with `kubewright new NAME`"),
    ] {
        let (code, said) = run(folder, arguments);
        assert!(code == Some(1) && said.contains(told), "{arguments:?}: {said}");
    }
    assert_eq!(contents(folder), [], "nothing was written");
    done(folder, &["new", "shop", "--path", ROOT]);
    let (code, said) = run(folder, &["new", "shop", "--path", ROOT]);
    assert!(code == Some(1) && said.contains("exists already, and is left as it is"), "{said}");
}
