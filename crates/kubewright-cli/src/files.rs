//! The open-file limit.

/// The requested limit if there is no hard limit.
#[cfg(unix)]
const DEFAULT_LIMIT: u64 = 10_240;

/// Raises the limit to the hard limit, as Go programs do: each connection is a file, and shells
/// often allow only 1,024.
#[cfg(unix)]
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raise = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum });
    // An infinite hard limit, as on macOS, cannot be set.
    let given = raise(maximum).or_else(|error| match current {
        Some(current) if current < DEFAULT_LIMIT => raise(Some(DEFAULT_LIMIT)),
        _ => Err(error),
    });
    if let Err(error) = given {
        tracing::debug!(?current, %error, "the limit of open files stays as it is");
    }
}

/// There is no such limit.
#[cfg(not(unix))]
pub fn raise_limit() {}
