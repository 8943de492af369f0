//! Stops on the signals by which processes are asked to.

use tokio_util::sync::CancellationToken;

/// A token that SIGTERM or SIGINT cancels; a second one ends the process at once, with code 1.
///
/// To be called within a tokio runtime. Elsewhere than on Unix, only Ctrl-C counts.
#[doc(alias = "SetupSignalHandler")]
#[inline]
pub fn shutdown_on_signals() -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let mut signals = Signals::new();
        signals.next().await;
        cancelled.cancel();
        signals.next().await;
        tracing::warn!("told to stop a second time");
        std::process::exit(1);
    });
    token
}

#[cfg(unix)]
struct Signals {
    terminate: Option<tokio::signal::unix::Signal>,
    interrupt: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    #[inline]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        // Fails only where the process may not have handlers, which then has nothing to wait for.
        Signals { terminate: signal(SignalKind::terminate()).ok(), interrupt: signal(SignalKind::interrupt()).ok() }
    }

    #[inline]
    async fn next(&mut self) {
        let one = async |signal: &mut Option<tokio::signal::unix::Signal>| {
            if let Some(signal) = signal
                && signal.recv().await.is_some()
            {
                return;
            }
            std::future::pending().await
        };
        tokio::select! {
            () = one(&mut self.terminate) => {}
            () = one(&mut self.interrupt) => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[inline]
    fn new() -> Self {
        Signals
    }

    #[inline]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
