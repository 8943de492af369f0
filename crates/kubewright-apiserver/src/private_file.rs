//! Files that only their owner reads: keys, and what belongs to them.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file whole or not at all, however the process ends: half a key would keep the next server from starting.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    // One that a process left which died, or a link that somebody laid.
    let _ = std::fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}
