//! Error reports: message, causes, and a hint.

use std::error::Error;
use std::process::ExitCode;

use kubewright_client::config::ConfigError;

/// An error with its causes, each once.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some error messages include their cause.
        if !text.ends_with(&next) {
            text += &format!(": {next}");
        }
        cause = error.source();
    }
    text
}

/// Prints the error, and returns the exit code.
pub fn report(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe is not an error.
        Err(error) if is_io(&*error, std::io::ErrorKind::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            print(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Fails with the last of these errors, after printing the others.
pub fn all(mut errors: Vec<Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let Some(last) = errors.pop() else { return Ok(()) };
    errors.iter().for_each(|error| print(&**error));
    Err(last)
}

/// Prints an error and a hint on standard error.
#[allow(clippy::print_stderr)]
fn print(error: &(dyn Error + 'static)) {
    eprintln!("error: {}", chain(error));
    if let Some(hint) = hint(error) {
        eprintln!("hint: {hint}");
    }
}

fn is_io(error: &(dyn Error + 'static), kind: std::io::ErrorKind) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == kind)
}

/// A hint for an error, if there is one.
fn hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut causes = vec![error];
    while let Some(cause) = causes[causes.len() - 1].source() {
        causes.push(cause);
    }
    let any = |matches: &dyn Fn(&(dyn Error + 'static)) -> bool| causes.iter().any(|cause| matches(*cause));
    if any(&|cause| is_io(cause, std::io::ErrorKind::AddrInUse)) {
        return Some("another process has the port; --listen 127.0.0.1:0 picks a free one");
    }
    if any(&|cause| is_io(cause, std::io::ErrorKind::ConnectionRefused)) {
        return Some(
            "nobody listens there; `kubewright up` starts a cluster, --kubeconfig and --context say which one is meant",
        );
    }
    if any(&|cause| cause.to_string().starts_with("invalid peer certificate")) {
        return Some(
            "the server is not the one that the kubeconfig was written for, or has new certificates, as `kubewright up` \
             has without --data: take the kubeconfig that it writes now",
        );
    }
    if any(&|cause| cause.to_string().contains("InvalidContentType")) {
        return Some("what answers there speaks no TLS: is the server's address http://, and not https://?");
    }
    if let Some(config) = causes.iter().find_map(|cause| cause.downcast_ref::<ConfigError>()) {
        return config.is_empty().then_some(
            "--kubeconfig FILE or $KUBECONFIG say where the cluster is, --context which one; `kubewright up --write-kubeconfig \
             FILE` starts one",
        );
    }
    let client = causes.iter().find_map(|cause| cause.downcast_ref::<kubewright_client::Error>())?;
    if client.is_forbidden() {
        return Some("the account may not do this: grant it a role, or use another --context");
    }
    if client.is_unauthorized() {
        return Some("the credentials of the kubeconfig are not accepted; are they of this cluster, and still valid?");
    }
    client
        .is_connection_refused()
        .then_some("the address is that of the kubeconfig; --kubeconfig and --context say which cluster is meant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_printed_once() {
        let error = std::io::Error::other(std::io::Error::other("no disk"));
        assert_eq!(chain(&error), "no disk");
    }

    #[test]
    fn the_error_for_a_used_port_suggests_another() {
        let error = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        assert!(hint(&error).is_some_and(|hint| hint.contains("127.0.0.1:0")));
        assert_eq!(hint(&std::io::Error::other("unknown")), None);
    }
}
