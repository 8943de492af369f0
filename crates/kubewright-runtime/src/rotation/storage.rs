//! Where replicas share their certificates: a Secret, or a directory.
//!
//! A write replaces only what its writer has read. The first replica wins, and the others read
//! again. In a directory each write creates the next generation, which must not exist yet.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use kubewright_api::core::v1::Secret;
use kubewright_client::{Api, Client};
use kubewright_core::{ByteString, Map, Object, Str, Value};
use tokio::task::spawn_blocking;

use super::error::RotationError;
use super::issued::IssuedCertificates;
use super::pair::ServedPair;

const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Where replicas share their certificates and keys.
#[derive(Debug, Clone)]
pub struct CertificateStorage {
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Secret { namespace: Str, name: Str },
    Directory(PathBuf),
}

impl CertificateStorage {
    /// A Secret with the keys `ca.crt`, `ca.key`, `tls.crt` and `tls.key`. It is created if it does
    /// not exist.
    ///
    /// The process needs `get` and `update` on this Secret, and `create` on Secrets of its
    /// namespace.
    pub fn secret(namespace: impl Into<Str>, name: impl Into<Str>) -> Self {
        CertificateStorage { place: Place::Secret { namespace: namespace.into(), name: name.into() } }
    }

    /// A directory, which only its owner can read. On a volume that replicas share, or for a single
    /// process.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        CertificateStorage { place: Place::Directory(path.into()) }
    }

    /// The stored certificates, and the version to replace.
    pub(super) async fn load(
        &self,
        client: &Client,
    ) -> Result<(Option<IssuedCertificates>, CertificateVersion), RotationError> {
        match &self.place {
            Place::Secret { namespace, name } => {
                let found = Api::<Secret>::namespaced(client, namespace.clone()).get_opt(name).await;
                let found = found.map_err(|source| failed(namespace, name, source))?;
                let certificates = found.as_ref().and_then(|secret| {
                    read(|field| std::str::from_utf8(secret.data.get(field)?).ok().map(str::to_owned))
                });
                Ok((
                    certificates,
                    found.map_or(CertificateVersion::Absent, |secret| CertificateVersion::Secret(secret.into())),
                ))
            }
            Place::Directory(directory) => on_blocking_thread(directory, newest).await,
        }
    }

    /// Replaces `version`; `false` if it is no longer the newest.
    pub(super) async fn store(
        &self,
        client: &Client,
        certificates: &IssuedCertificates,
        version: CertificateVersion,
    ) -> Result<bool, RotationError> {
        match &self.place {
            Place::Secret { namespace, name } => {
                let secrets = Api::<Secret>::namespaced(client, namespace.clone());
                let (stored, is_update) = match version {
                    CertificateVersion::Secret(mut secret) => {
                        write(certificates, |field, text| drop(secret.data.insert(field, ByteString::from(text))));
                        (secrets.update(&secret).await, true)
                    }
                    _ => {
                        let mut secret = Secret { type_: Some("kubernetes.io/tls".into()), ..Secret::default() };
                        secret.set_name(name);
                        write(certificates, |field, text| drop(secret.data.insert(field, ByteString::from(text))));
                        (secrets.create(&secret).await, false)
                    }
                };
                match stored {
                    Ok(_) => Ok(true),
                    Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
                    // Deleted meanwhile. For a creation it is the namespace that is missing.
                    Err(error) if is_update && error.is_not_found() => Ok(false),
                    Err(source) => Err(failed(namespace, name, source)),
                }
            }
            Place::Directory(directory) => {
                let mut fields = Map::new();
                write(certificates, |field, text| drop(fields.insert(field, Value::from(text))));
                let text = Value::Object(fields).to_string();
                on_blocking_thread(directory, move |directory| create_next(directory, &version, &text)).await
            }
        }
    }
}

impl fmt::Display for CertificateStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Secret { namespace, name } => write!(f, "the secret {namespace}/{name}"),
            Place::Directory(directory) => write!(f, "{}", directory.display()),
        }
    }
}

/// The stored version that a write replaces.
pub(super) enum CertificateVersion {
    Absent,
    Secret(Box<Secret>),
    Generation(u64),
}

/// The certificates with these fields, if all are present.
fn read(field: impl Fn(&str) -> Option<String>) -> Option<IssuedCertificates> {
    Some(IssuedCertificates {
        authorities: field(AUTHORITIES)?,
        authority_key: field(AUTHORITY_KEY)?,
        serving: ServedPair { certificate: field(CERTIFICATE)?, key: field(KEY)? },
    })
}

fn write(certificates: &IssuedCertificates, mut insert: impl FnMut(&'static str, &str)) {
    insert(AUTHORITIES, &certificates.authorities);
    insert(AUTHORITY_KEY, &certificates.authority_key);
    insert(CERTIFICATE, &certificates.serving.certificate);
    insert(KEY, &certificates.serving.key);
}

fn failed(namespace: &str, name: &str, source: kubewright_client::Error) -> RotationError {
    RotationError::Secret { namespace: namespace.to_owned(), name: name.to_owned(), source }
}

async fn on_blocking_thread<R: Send + 'static>(
    directory: &Path,
    work: impl FnOnce(&Path) -> io::Result<R> + Send + 'static,
) -> Result<R, RotationError> {
    let path = directory.to_owned();
    let done = spawn_blocking(move || work(&path)).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|source| RotationError::Directory { path: directory.to_owned(), source })
}

fn file_of(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("certificates-{generation}.json"))
}

/// The generations in a directory, in ascending order.
fn generations(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("certificates-")?.strip_suffix(".json"));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// The newest certificates in a directory.
fn newest(directory: &Path) -> io::Result<(Option<IssuedCertificates>, CertificateVersion)> {
    let newest = match generations(directory) {
        Ok(found) => found.last().copied(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some(generation) = newest else { return Ok((None, CertificateVersion::Absent)) };
    let text = fs::read(file_of(directory, generation))?;
    let fields = Value::from_json(&text).ok();
    let certificates = read(|field| fields.as_ref()?.get(field)?.as_str().map(str::to_owned));
    Ok((certificates, CertificateVersion::Generation(generation)))
}

/// Creates the generation after `version`; `false` if it exists. The file appears with its whole
/// content, because it is linked to its name after it was written.
fn create_next(directory: &Path, version: &CertificateVersion, text: &str) -> io::Result<bool> {
    create_private_directory(directory)?;
    let next = match version {
        CertificateVersion::Generation(generation) => generation + 1,
        _ => 1,
    };
    let draft = directory.join(format!(".draft-{}", crate::random::uuid()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let linked = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&draft, file_of(directory, next)));
    fs::remove_file(&draft)?;
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    }
    // The previous generation stays, since another replica may be reading it.
    for old in generations(directory)?.into_iter().filter(|old| old + 1 < next) {
        // Another replica may have removed it.
        let _ = fs::remove_file(file_of(directory, old));
    }
    Ok(true)
}

fn create_private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
