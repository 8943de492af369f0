//! Stores certificates in files, with the layout of Go's store, so that one can replace the other.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kubewright_core::Time;

use super::error::CertificateError;
use super::issued::IssuedCertificate;
use super::store::CertificateStore;

/// Stores certificates in a directory: each with its key in a file `<prefix>-<time>.pem` that only
/// its owner may read, and a link `<prefix>-current.pem` to the current one.
///
/// The link is replaced atomically, so readers see the old or the new certificate. Old files are
/// not removed.
#[derive(Debug, Clone)]
#[doc(alias = "NewFileStore")]
pub struct FileStore {
    directory: PathBuf,
    prefix: String,
    pair: Option<(PathBuf, PathBuf)>,
}

impl FileStore {
    /// A store in `directory`, which is created on demand. Completes an update that a crashed
    /// process had started.
    ///
    /// # Errors
    /// If the link's path is not a link.
    pub fn new(directory: impl Into<PathBuf>, prefix: impl Into<String>) -> Result<Self, CertificateError> {
        let store = FileStore { directory: directory.into(), prefix: prefix.into(), pair: None };
        store.recover()?;
        Ok(store)
    }

    /// The certificate and key to use while none has been stored. By default `<prefix>.crt` and
    /// `<prefix>.key` in the directory.
    #[must_use]
    pub fn or_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.pair = Some((certificate.into(), key.into()));
        self
    }

    /// The link to the current certificate and key, for programs that read it directly.
    #[doc(alias = "CurrentPath")]
    pub fn current_path(&self) -> PathBuf {
        self.file("current")
    }

    fn file(&self, qualifier: &str) -> PathBuf {
        self.directory.join(format!("{}-{qualifier}.pem", self.prefix))
    }

    /// Completes a pending link update, unless the old link exists.
    fn recover(&self) -> Result<(), CertificateError> {
        let (current, updated) = (self.current_path(), self.file("updated"));
        if current.exists() || !is_link(&updated)? {
            return Ok(());
        }
        std::fs::rename(&updated, &current).map_err(unusable(&current))
    }

    /// Writes the file under a temporary name first, so that readers never see a partial file.
    fn write(&self, certificate: &IssuedCertificate) -> Result<PathBuf, CertificateError> {
        std::fs::create_dir_all(&self.directory).map_err(unusable(&self.directory))?;
        let time = Time::now().to_string().replace(['T', ':'], "-").replace('Z', "");
        // Two certificates of the same second must have different names: the first may be the
        // current one.
        let named = |count: u32| match count {
            0 => self.file(&time),
            count => self.file(&format!("{time}-{count}")),
        };
        let file = (0..).map(named).find(|file| !file.exists()).expect("the numbers do not run out");
        let temporary = self.file(&format!("{time}.{}.tmp", std::process::id()));
        let _ = std::fs::remove_file(&temporary);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut target = options.open(&temporary)?;
            target.write_all(certificate.certificate())?;
            if !certificate.certificate().ends_with(b"\n") {
                target.write_all(b"\n")?;
            }
            target.write_all(certificate.key().expose())?;
            // The content must be on disk before the name.
            target.sync_all()?;
            std::fs::rename(&temporary, &file)
        };
        write().map_err(|error| {
            let _ = std::fs::remove_file(&temporary);
            unusable(&file)(error)
        })?;
        Ok(file)
    }

    /// Atomically replaces the link.
    fn point_to(&self, file: &Path) -> Result<(), CertificateError> {
        let (current, updated) = (self.current_path(), self.file("updated"));
        is_link(&current)?;
        if is_link(&updated)? {
            std::fs::remove_file(&updated).map_err(unusable(&updated))?;
        }
        let target = std::path::absolute(file).map_err(unusable(file))?;
        link(&target, &updated).map_err(unusable(&updated))?;
        std::fs::rename(&updated, &current).map_err(unusable(&current))
    }
}

impl CertificateStore for FileStore {
    fn current(&self) -> Result<Option<IssuedCertificate>, CertificateError> {
        let current = self.current_path();
        if current.exists() {
            return load(&current, &current).map(Some);
        }
        let beside = |extension: &str| self.directory.join(format!("{}.{extension}", self.prefix));
        let pairs = self.pair.clone().into_iter().chain([(beside("crt"), beside("key"))]);
        match pairs.into_iter().find(|(certificate, key)| certificate.exists() && key.exists()) {
            Some((certificate, key)) => load(&certificate, &key).map(Some),
            None => Ok(None),
        }
    }

    fn update(&self, certificate: &IssuedCertificate) -> Result<(), CertificateError> {
        // Checked first, so that no key is left in an unused file.
        is_link(&self.current_path())?;
        let file = self.write(certificate)?;
        self.point_to(&file)
    }
}

fn load(certificate: &Path, key: &Path) -> Result<IssuedCertificate, CertificateError> {
    let read = |file: &Path| std::fs::read(file).map_err(unusable(file));
    IssuedCertificate::from_pem(&read(certificate)?, &read(key)?)
}

/// Whether there is a link. A regular file in its place belongs to somebody else and is not
/// replaced.
fn is_link(path: &Path) -> Result<bool, CertificateError> {
    match std::fs::symlink_metadata(path) {
        // On systems without links, a copy replaces it.
        Ok(metadata) if metadata.is_symlink() || !cfg!(unix) => Ok(true),
        Ok(_) => {
            let problem = "it should be a link, and is a file";
            Err(unusable(path)(io::Error::new(io::ErrorKind::AlreadyExists, problem)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unusable(path)(error)),
    }
}

#[cfg(unix)]
fn link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn link(target: &Path, path: &Path) -> io::Result<()> {
    std::fs::copy(target, path).map(drop)
}

fn unusable(file: &Path) -> impl FnOnce(io::Error) -> CertificateError + use<> {
    let file = file.to_owned();
    move |source| CertificateError::File { file, source }
}
