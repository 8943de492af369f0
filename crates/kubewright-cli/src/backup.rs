//! `kubewright backup` and `kubewright restore`: all objects of a kubewright API server in a file.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_apiserver::backup;

use crate::connection::Connection;
use crate::output::print;
use crate::private_file::PrivateFile;

/// The path of the backup endpoint.
const PATH: &str = "/kubewright/backup";

/// Maximum length of the last line of a backup.
const TRAILER_MAX: usize = 256;

/// The server, and the file for the backup.
#[derive(Debug, Args)]
pub struct BackupOptions {
    /// The file to write. It holds all Secrets, and only its owner can read it.
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

/// The backup, and the directory for the objects.
#[derive(Debug, Args)]
pub struct RestoreOptions {
    /// The file that `kubewright backup` wrote.
    file: PathBuf,
    /// The data directory for `kubewright up --data` or `kubewright apiserver --data`. It must not
    /// have objects.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Writes a backup of a running server.
pub async fn backup(options: &BackupOptions) -> Result<(), Box<dyn Error>> {
    let request = options.connection.client()?.rest().get().absolute_path(PATH);
    let streaming = request.stream().await.map_err(|error| {
        if error.is_not_found() {
            let why = "this server has no backup: it is not the API server of kubewright. For any cluster there is \
                       `kubewright export`";
            return Box::<dyn Error>::from(why);
        }
        error.into()
    })?;
    let unwritten = |error| format!("cannot write {}: {error}", options.file.display());
    let mut file = PrivateFile::create(&options.file).map_err(unwritten)?;
    let mut body = streaming.into_body();
    let mut end = Vec::new();
    let mut bytes = 0;
    while let Some(chunk) = body.chunk().await? {
        file.write_all(&chunk).map_err(unwritten)?;
        bytes += chunk.len();
        end.extend_from_slice(&chunk);
        end.drain(..end.len().saturating_sub(TRAILER_MAX));
    }
    // The last line has the checksum.
    let last_line = end.strip_suffix(b"\n").and_then(|end| end.rsplit(|byte| *byte == b'\n').next());
    if !last_line.is_some_and(|line| line.starts_with(b"{\"checksum\":")) {
        return Err("the server stopped before the backup was complete".into());
    }
    file.publish().map_err(unwritten)?;
    Ok(print(format!("wrote {} ({bytes} bytes)\n", options.file.display()))?)
}

/// Creates a data directory from a backup.
pub fn restore(RestoreOptions { file, data }: &RestoreOptions) -> Result<(), Box<dyn Error>> {
    let source = File::open(file).map_err(|error| about(file, &error))?;
    let restored = backup::restore(BufReader::new(source), data).map_err(|error| about(file, &error))?;
    let backup::Restored { objects, revision } = restored;
    let data = data.display();
    Ok(print(format!("restored {objects} objects of revision {revision}; kubewright up --data {data} serves them\n"))?)
}

fn about(file: &Path, error: &dyn Error) -> String {
    format!("{}: {error}", file.display())
}
