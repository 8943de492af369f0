//! Finds the path of `kubewright_runtime`: directly, or as part of `kubewright`.
//!
//! A macro cannot see the dependencies of its user, so it reads the manifest.

use std::path::PathBuf;
use std::{env, fs};

use syn::{Path, parse_quote};

/// The path of `kubewright_runtime` in the crate being compiled, according to its manifest.
pub(crate) fn of_this_crate() -> Path {
    let directory = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = directory.and_then(|directory| fs::read_to_string(directory.join("Cargo.toml")).ok());
    of_manifest(&manifest.unwrap_or_default())
}

fn of_manifest(manifest: &str) -> Path {
    if depends_on(manifest, "kubewright") && !depends_on(manifest, "kubewright-runtime") {
        parse_quote!(::kubewright::runtime)
    } else {
        parse_quote!(::kubewright_runtime)
    }
}

/// Whether a dependency table contains this name, as `name = …`, `name.workspace = true` or
/// `[dependencies.name]`.
fn depends_on(manifest: &str, name: &str) -> bool {
    let mut among_dependencies = false;
    manifest.lines().map(str::trim).any(|line| {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.split(']').next().unwrap_or_default().trim();
            among_dependencies = table.ends_with("dependencies");
            let (parent, last) = table.rsplit_once('.').unwrap_or_default();
            return parent.ends_with("dependencies") && unquoted(last) == name;
        }
        among_dependencies && line.split(['=', '.']).next().is_some_and(|key| unquoted(key) == name)
    })
}

fn unquoted(key: &str) -> &str {
    key.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    #[test]
    fn the_whole_is_taken_where_the_part_is_no_dependency() {
        let whole = ":: kubewright :: runtime";
        let part = ":: kubewright_runtime";
        for (manifest, expected) in [
            ("[dependencies]\nkubewright = \"1\"", whole),
            ("[package]\nname = \"x\"\n[dependencies]\nkubewright.workspace = true # all\n", whole),
            ("[dependencies.kubewright]\npath = \"..\"", whole),
            ("[target.'cfg(unix)'.dependencies]\n\"kubewright\" = { version = \"1\" }", whole),
            ("[dependencies]\nkubewright = \"1\"\n[dev-dependencies]\nkubewright-runtime = \"1\"", part),
            ("[dependencies]\nkubewright-runtime = { path = \"..\" }", part),
            ("[package]\nname = \"kubewright\"\n[features]\nkubewright = []", part),
            ("", part),
        ] {
            assert_eq!(of_manifest(manifest).to_token_stream().to_string(), expected, "{manifest}");
        }
    }
}
