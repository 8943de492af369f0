//! Termination signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Termination signals, recorded from construction on.
///
/// Includes SIGHUP and SIGQUIT: their default action would end the process before the terminal is
/// restored.
pub struct TerminationSignals {
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl TerminationSignals {
    /// Installs the handlers, so that an early signal is not lost.
    pub fn new() -> std::io::Result<Self> {
        Ok(TerminationSignals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one of them. Cancel safe.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.hangup.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
