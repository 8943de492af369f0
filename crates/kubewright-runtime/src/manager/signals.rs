//! Shutdown on signals.

use tokio_util::sync::CancellationToken;

/// A token that SIGTERM or SIGINT cancels; a second signal exits immediately with code 1.
///
/// The handlers are installed when this returns, so that a signal during start-up is not lost. Call
/// it first, within a tokio runtime. Outside of Unix, only Ctrl-C counts.
#[doc(alias = "SetupSignalHandler")]
#[inline]
pub fn shutdown_on_signals() -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let mut signals = Signals::new();
    tokio::spawn(async move {
        signals.next().await;
        cancelled.cancel();
        signals.next().await;
        tracing::warn!("second signal; exiting");
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
        let install = |kind: SignalKind| {
            let told = |error| tracing::warn!(%error, signal = kind.as_raw_value(), "cannot install a signal handler");
            signal(kind).map_err(told).ok()
        };
        Signals { terminate: install(SignalKind::terminate()), interrupt: install(SignalKind::interrupt()) }
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

#[cfg(windows)]
struct Signals {
    interrupt: Option<tokio::signal::windows::CtrlC>,
}

#[cfg(windows)]
impl Signals {
    #[inline]
    fn new() -> Self {
        Signals { interrupt: tokio::signal::windows::ctrl_c().ok() }
    }

    #[inline]
    async fn next(&mut self) {
        if let Some(interrupt) = &mut self.interrupt
            && interrupt.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(not(any(unix, windows)))]
struct Signals;

#[cfg(not(any(unix, windows)))]
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
