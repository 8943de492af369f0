//! How many files may be open.

/// What is asked for where there is no highest limit.
#[cfg(unix)]
const ENOUGH: u64 = 10_240;

/// Raises the limit to the highest that this user may have, as Go programs do when they start: a connection is a file, and a shell often
/// gives no more than 1,024.
#[cfg(unix)]
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raise = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum });
    // Where the highest is none at all, as on macOS, it is not given.
    let given = raise(maximum).or_else(|error| match current {
        Some(current) if current < ENOUGH => raise(Some(ENOUGH)),
        _ => Err(error),
    });
    if let Err(error) = given {
        tracing::debug!(?current, %error, "the limit of open files stays as it is");
    }
}

/// There is no such limit.
#[cfg(not(unix))]
pub fn raise_limit() {}
