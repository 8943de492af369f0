//! `kubewright new`: creates a controller project.
//!
//! The template is in `templates/new/`: a working controller of `Widget` objects. The examples
//! compile and test it, so it cannot become outdated; here its names are replaced.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_core::validation::dns1123_label;

/// The files of the template with their target paths.
const FILES: [(&str, &str); 11] = [
    ("Cargo.toml", include_str!("../templates/new/Cargo.toml.in")),
    (".gitignore", include_str!("../templates/new/gitignore")),
    ("README.md", include_str!("../templates/new/README.md")),
    ("src/main.rs", include_str!("../templates/new/src/main.rs")),
    ("src/reconciler.rs", include_str!("../templates/new/src/reconciler.rs")),
    ("src/resource.rs", include_str!("../templates/new/src/resource.rs")),
    ("src/tests.rs", include_str!("../templates/new/src/tests.rs")),
    ("manifests/crd.yaml", include_str!("../templates/new/manifests/crd.yaml")),
    ("manifests/deployment.yaml", include_str!("../templates/new/manifests/deployment.yaml")),
    ("manifests/example.yaml", include_str!("../templates/new/manifests/example.yaml")),
    ("manifests/rbac.yaml", include_str!("../templates/new/manifests/rbac.yaml")),
];

pub const HELP: &str = "\
Examples:
  kubewright new cache-operator                              a controller of Cache objects of the group example.com
  kubewright new shop --group shop.example.org --kind Order  a controller of Order objects, in the folder shop";

/// Names of the project.
#[derive(Debug, Args)]
pub struct NewOptions {
    /// The folder to create; its last part is the program name, in lower-case letters, digits and
    /// dashes.
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// The API group of the custom resource: a DNS name that you own.
    #[arg(long, default_value = "example.com")]
    group: String,
    /// The kind of the custom resource, in CamelCase; derived from NAME by default.
    #[arg(long)]
    kind: Option<String>,
    /// Depends on this checkout of kubewright, instead of a release.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// The names to insert.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    project: String,
    group: String,
    kind: String,
}

/// Creates the project.
pub fn new(options: &NewOptions) -> Result<(), Box<dyn Error>> {
    let project = options.folder.file_name().and_then(|name| name.to_str()).ok_or("NAME has to end in a name")?;
    let names = Names::new(project, &options.group, options.kind.as_deref())?;
    let dependency = dependency(options.path.as_deref())?;
    let folder = &options.folder;
    // Never overwrites existing files.
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!("{} exists already, and is left as it is", folder.display()).into()
        }
        _ => Box::<dyn Error>::from(error),
    })?;
    for part in ["src", "manifests"] {
        fs::create_dir(folder.join(part))?;
    }
    for (name, template) in FILES {
        fs::write(folder.join(name), names.fill(&template.replace("KUBEWRIGHT", &dependency)))?;
    }
    let Names { kind, group, .. } = &names;
    let (folder, plural) = (folder.display(), plural_of(kind));
    let made = format!("made {folder}: a controller of {kind} objects ({plural}.{group})\n");
    Ok(crate::output::print(format!("{made}next:  cd {folder} && cargo test\n"))?)
}

/// The dependency on this library in the project's manifest.
fn dependency(path: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let Some(path) = path else { return Ok(format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))) };
    let library = path.join("crates/kubewright");
    if !library.join("Cargo.toml").is_file() {
        return Err(format!("{} is no checkout of kubewright: it has no crates/kubewright", path.display()).into());
    }
    let library = library.canonicalize()?;
    let library = library.to_str().ok_or("--path is no text")?;
    Ok(format!("path = '{library}'"))
}

impl Names {
    fn new(project: &str, group: &str, kind: Option<&str>) -> Result<Self, String> {
        let is_name = dns1123_label(project).is_empty() && project.starts_with(|c: char| c.is_ascii_lowercase());
        // Reserved by Cargo, or the name of a dependency.
        let is_taken = ["test", "core", "std", "alloc", "kubewright", "serde", "schemars", "tokio"].contains(&project);
        if !is_name || is_taken {
            return Err(format!("{project:?} is no name for a program: lower case letters, digits and dashes"));
        }
        if !group.contains('.') || !group.split('.').all(|label| dns1123_label(label).is_empty()) {
            return Err(format!("{group:?} is no group: a DNS name with a dot, as `example.com`"));
        }
        let kind = kind.map_or_else(|| kind_of(project), str::to_owned);
        let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.len() < 60
            && kind.chars().all(|c| c.is_ascii_alphanumeric());
        if !is_kind {
            return Err(format!("{kind:?} is no kind: one word in CamelCase, as `--kind CronTab`"));
        }
        Ok(Names { project: project.to_owned(), group: group.to_owned(), kind })
    }

    /// The template with these names, replaced in one pass: a name may contain another.
    fn fill(&self, template: &str) -> String {
        let (plural, singular) = (plural_of(&self.kind), self.kind.to_ascii_lowercase());
        let exchanged = [
            ("widget-operator", &self.project),
            ("example.com", &self.group),
            ("widgets", &plural),
            ("Widget", &self.kind),
            ("widget", &singular),
        ];
        let (mut out, mut rest) = (String::with_capacity(template.len()), template);
        while let Some(first) = rest.chars().next() {
            match exchanged.iter().find(|(from, _)| rest.starts_with(from)) {
                Some((from, to)) => {
                    out += to;
                    rest = &rest[from.len()..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }
}

/// `cron-tab-operator` is for a `CronTab`.
fn kind_of(project: &str) -> String {
    let subject = ["-operator", "-controller"].iter().find_map(|end| project.strip_suffix(end)).unwrap_or(project);
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    subject.split('-').map(word).collect()
}

/// The usual plural of a kind, as in the derive macro.
fn plural_of(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| lower.ends_with(end)) {
        return format!("{lower}es");
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{lower}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_derived_from_the_project_name() {
        let names = Names::new("cron-tab-operator", "example.com", None);
        assert_eq!(names.map(|names| names.kind), Ok("CronTab".to_owned()));
        for (project, group, kind) in [
            ("Shop", "example.com", None),
            ("9shop", "example.com", None),
            ("test", "example.com", None),
            ("shop", "example", None),
            ("shop", "example.com", Some("order")),
            ("shop", "example.com", Some("Or-der")),
        ] {
            assert!(Names::new(project, group, kind).is_err(), "{project} {group} {kind:?}");
        }
    }

    #[test]
    fn names_that_contain_each_other_are_exchanged_once() {
        let names = Names::new("widget-operator-widgets", "widget.example.com", Some("MyWidget")).expect("fine names");
        let filled = names.fill("widget-operator Widget widgets.example.com widget");
        assert_eq!(filled, "widget-operator-widgets MyWidget mywidgets.widget.example.com mywidget");
    }
}
