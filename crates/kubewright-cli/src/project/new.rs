//! `kubewright new`: creates a project with one kind.
//!
//! The template is in `templates/new/`: a working controller of `Widget` objects. The examples
//! compile and test it, so it cannot become outdated; here its names are replaced.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::files::PlannedFiles;
use super::names::{check_group, check_kind, check_plural, check_project, check_version, kind_of, plural_of};
use super::record::{Created, ProjectRecord};
use super::template::{KIND, Names, PROJECT};
use super::{kinds, record};

/// Whether this version can be had from crates.io.
const IS_RELEASED: bool = false;

pub const HELP: &str = "\
Examples:
  kubewright new cache-operator --path ~/kubewright          a controller of Cache objects of the group example.com
  kubewright new shop --group shop.example.org --kind Order  a controller of Order objects, in the folder shop

Then: kubewright create api adds kinds and versions, kubewright create webhook adds webhooks,
kubewright dev runs the project.";

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
    /// The version of the custom resource.
    #[arg(long, default_value = "v1alpha1")]
    version: String,
    /// The kind of the custom resource, in CamelCase; derived from NAME by default.
    #[arg(long)]
    kind: Option<String>,
    /// The plural name of the kind; derived from it by default.
    #[arg(long)]
    plural: Option<String>,
    /// Depends on this checkout of kubewright, instead of a release.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// Creates the project.
pub fn new(options: &NewOptions) -> Result<(), Box<dyn Error>> {
    let project = options.folder.file_name().and_then(|name| name.to_str()).ok_or("NAME has to end in a name")?;
    check_project(project)?;
    let (group, version) = (options.group.clone(), options.version.clone());
    let kind = options.kind.clone().unwrap_or_else(|| kind_of(project));
    let plural = options.plural.clone().unwrap_or_else(|| plural_of(&kind));
    check_group(&group)?;
    check_version(&version)?;
    check_kind(&kind)?;
    check_plural(&plural)?;
    let dependency = dependency(project, options.path.as_deref())?;

    let mut record = ProjectRecord { project: project.to_owned(), kinds: Vec::new() };
    let created =
        Created::Api { group, version: version.clone(), kind, plural, is_namespaced: true, has_controller: true };
    record.add(&created)?;
    let kind = &record.kinds[0];
    let names = Names::new(project, kind, &version);
    let folder = &options.folder;
    let mut files = PlannedFiles::new(folder);
    for file in PROJECT.into_iter().chain(KIND) {
        let (path, text) = names.fill(file);
        let text = match path.as_str() {
            "Cargo.toml" => text.replace("KUBEWRIGHT", &dependency),
            record::FILE => {
                text.lines().filter(|line| !line.starts_with("- ")).map(|line| format!("{line}\n")).collect::<String>()
                    + &created.line()
            }
            _ => text,
        };
        files.create(path, text);
    }
    files.create(kinds::FILE, kinds::generate(&record));
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
    files.write()?;
    let made =
        format!("made {}: a controller of {} objects ({}.{})\n", folder.display(), kind.kind, kind.plural, kind.group);
    Ok(crate::output::print(format!("{made}next:  cd {} && kubewright dev\n", folder.display()))?)
}

/// The dependency on this library in the project's manifest.
fn dependency(project: &str, path: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let Some(path) = path else {
        if IS_RELEASED {
            return Ok(format!("version = \"{}\"", env!("CARGO_PKG_VERSION")));
        }
        return Err(unreleased(project).into());
    };
    let library = path.join("crates/kubewright");
    if !library.join("Cargo.toml").is_file() {
        return Err(format!("{} is no checkout of kubewright: it has no crates/kubewright", path.display()).into());
    }
    let library = library.canonicalize()?;
    let library = library.to_str().ok_or("--path is no text")?;
    Ok(format!("path = '{library}'"))
}

/// The error before there is a release.
fn unreleased(project: &str) -> String {
    let (version, source) = (env!("CARGO_PKG_VERSION"), Path::new(env!("CARGO_MANIFEST_DIR")));
    let checkout = source.ancestors().nth(2).filter(|root| root.join("crates/kubewright/Cargo.toml").is_file());
    let checkout = checkout.map_or("CHECKOUT".to_owned(), |root| root.display().to_string());
    format!(
        "kubewright {version} is not on crates.io, so that a project cannot depend on a release; let it depend on a \
         checkout: kubewright new {project} --path {checkout}"
    )
}
