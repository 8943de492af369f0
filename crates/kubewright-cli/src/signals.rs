//! The signals that end the command.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the command, from when this is made.
///
/// SIGHUP and SIGQUIT are among them: their default would end the process before it has given the
/// terminal back.
pub struct Signals {
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl Signals {
    /// Signals count from here on, so that an early one is not lost.
    pub fn new() -> std::io::Result<Self> {
        Ok(Signals {
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
