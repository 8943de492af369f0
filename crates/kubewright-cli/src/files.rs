//! How many files may be open.

/// Raises the limit to the highest that this user may have, as Go programs do when they start: a connection is a file, and a shell often
/// gives no more than 1,024.
#[cfg(unix)]
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(?current, %error, "the limit of open files stays as it is");
    }
}

/// There is no such limit.
#[cfg(not(unix))]
pub fn raise_limit() {}
