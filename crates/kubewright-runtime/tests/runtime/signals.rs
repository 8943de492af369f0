//! Shutdown signals, in a separate process.

use std::process::{Command, Stdio};

use kubewright_runtime::shutdown_on_signals;

/// Set in the process that receives the signal.
const CHILD: &str = "KUBEWRIGHT_TEST_SIGNAL_CHILD";

/// Sends SIGTERM to this process, and waits until it has been sent.
fn terminate_self() {
    let status = Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()));
}

// The handlers are there when the token is: a signal before anything is polled neither ends the
// process nor is lost.
#[test]
fn a_signal_at_the_very_beginning_cancels_the_token() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let token = shutdown_on_signals();
            terminate_self();
            token.cancelled().await;
            println!("cancelled in time");
        });
        return;
    }
    let name = "signals::a_signal_at_the_very_beginning_cancels_the_token";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("cancelled in time"), "{:?}: {text}", child.status);
}
