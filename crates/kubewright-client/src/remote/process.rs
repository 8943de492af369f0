//! A remote process with its streams.

use std::convert::Infallible;
use std::fmt;

use kubewright_core::Decoder;
use kubewright_core::meta::v1::Status;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::channel::{Channels, Receiver, Sender, side_by_side};
use super::exec::{AttachOptions, TerminalSize};
use super::spdy::StreamOpening;
use super::{ExitStatus, RemoteError};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// Buffer of a stream with a slow reader, and maximum message size.
const BUFFER: usize = 32 << 10;

/// A process in a container. Dropping it closes the connection, which kills a process started by
/// exec.
///
/// Connected outputs must be read: unread output blocks the process, and so [`wait`](Self::wait). A
/// dropped output is discarded.
pub struct Process {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    sizes: mpsc::UnboundedSender<TerminalSize>,
    task: Option<JoinHandle<Result<ExitStatus, RemoteError>>>,
}

impl Process {
    /// Connects to a process over `stream` after a WebSocket handshake. Must be called within a
    /// runtime.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, options: &AttachOptions) -> Self {
        Self::start(Channels::web_socket(stream), options)
    }

    /// Connects to a process over `stream` after a SPDY handshake with `protocol`. Must be called
    /// within a runtime.
    pub fn over_spdy(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        protocol: &str,
        options: &AttachOptions,
    ) -> Self {
        // The first two versions have no resize stream.
        let has_sizes = protocol.starts_with("v3") || protocol.starts_with("v4");
        let streams = [
            (ERROR, "error", true),
            (STDIN, "stdin", options.stdin),
            (STDOUT, "stdout", options.stdout),
            (STDERR, "stderr", options.stderr && !options.tty),
            (RESIZE, "resize", options.tty && has_sizes),
        ];
        let openings = streams.into_iter().filter(|(.., wanted)| *wanted).map(|(channel, kind, _)| StreamOpening {
            channel,
            is_read: !matches!(channel, STDIN | RESIZE),
            headers: vec![("streamType", kind.to_owned())],
        });
        Self::start(std::future::ready(Channels::spdy(stream, openings.collect())), options)
    }

    fn start<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        channels: impl Future<Output = Channels<S>> + Send + 'static,
        options: &AttachOptions,
    ) -> Self {
        let pipe = |wanted: bool| wanted.then(|| duplex(BUFFER)).unzip();
        let (stdin, stdin_out) = pipe(options.stdin);
        let (stdout, stdout_in) = pipe(options.stdout);
        let (stderr, stderr_in) = pipe(options.stderr && !options.tty);
        let (sizes, wanted_sizes) = mpsc::unbounded_channel();
        let pipes = Pipes { stdin: stdin_out, stdout: stdout_in, stderr: stderr_in, sizes: wanted_sizes };
        let task = tokio::spawn(async move { pipes.run(channels.await).await });
        Process { stdin, stdout, stderr, sizes, task: Some(task) }
    }

    /// The process's stdin; dropping it is its end of file. `None` if not connected, or taken
    /// before.
    pub fn stdin(&mut self) -> Option<impl AsyncWrite + Unpin + Send + use<>> {
        self.stdin.take()
    }

    /// The process's stdout. `None` if not connected, or taken before.
    pub fn stdout(&mut self) -> Option<impl AsyncRead + Unpin + Send + use<>> {
        self.stdout.take()
    }

    /// The process's stderr. `None` if not connected, or taken before.
    pub fn stderr(&mut self) -> Option<impl AsyncRead + Unpin + Send + use<>> {
        self.stderr.take()
    }

    /// Resizes the terminal.
    #[doc(alias = "TerminalSizeQueue")]
    pub fn resize(&self, size: TerminalSize) {
        // Ignored after the end of the process.
        let _ = self.sizes.send(size);
    }

    /// Waits for the end of the process. Streams that were not taken are discarded.
    ///
    /// # Errors
    /// If the connection breaks before the exit status was received.
    #[doc(alias = "StreamWithContext")]
    pub async fn wait(mut self) -> Result<ExitStatus, RemoteError> {
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
        let task = self.task.as_mut().expect("only `wait` and `drop` take it");
        match task.await {
            Ok(ended) => ended,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process")
    }
}

/// Our ends of the streams.
struct Pipes {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    sizes: mpsc::UnboundedReceiver<TerminalSize>,
}

impl Pipes {
    async fn run<S: AsyncRead + AsyncWrite + Unpin>(self, channels: Channels<S>) -> Result<ExitStatus, RemoteError> {
        let Channels { mut receiver, mut sender } = channels;
        let mut exit = None;
        let reading = listen(&mut receiver, self.stdout, self.stderr, &mut exit);
        let (heard, broken) = side_by_side(reading, speak(&mut sender, self.stdin, self.sizes)).await;
        sender.end().await;
        if exit.is_none() && receiver.has_ended(ERROR) {
            // Over SPDY, an empty error stream means success.
            exit = Some(Ok(ExitStatus::new(Box::new(Status::success()))));
        }
        let untold = || RemoteError::Protocol("the connection ended without the status of the process".to_owned());
        exit.unwrap_or_else(|| Err(broken.or(heard.err()).unwrap_or_else(untold)))
    }
}

/// Delivers the process's output, and stores its exit status.
async fn listen<S: AsyncRead + AsyncWrite + Unpin>(
    receiver: &mut Receiver<S>,
    mut stdout: Option<DuplexStream>,
    mut stderr: Option<DuplexStream>,
    exit: &mut Option<Result<ExitStatus, RemoteError>>,
) -> Result<(), RemoteError> {
    while let Some((channel, bytes)) = receiver.receive().await? {
        match channel {
            STDOUT => pass_on(&mut stdout, &bytes).await,
            STDERR => pass_on(&mut stderr, &bytes).await,
            ERROR if !bytes.is_empty() => {
                let told = exit.insert(exit_status(&bytes));
                if told.is_err() {
                    break;
                }
            }
            // Unknown channels are ignored.
            _ => {}
        }
    }
    Ok(())
}

/// Sends stdin and terminal sizes until that fails.
async fn speak<S: AsyncRead + AsyncWrite + Unpin>(
    sender: &mut Sender<S>,
    mut stdin: Option<DuplexStream>,
    mut sizes: mpsc::UnboundedReceiver<TerminalSize>,
) -> Result<Infallible, RemoteError> {
    sender.open().await?;
    let mut buffer = vec![0; BUFFER];
    loop {
        tokio::select! {
            due = sender.due() => sender.live(due).await?,
            length = read(&mut stdin, &mut buffer) => match length {
                0 => {
                    stdin = None;
                    sender.close(STDIN).await?;
                }
                length => sender.send(STDIN, &buffer[..length]).await?,
            },
            Some(TerminalSize { width, height }) = sizes.recv() => {
                let json = format!(r#"{{"Width":{width},"Height":{height}}}"#);
                sender.send(RESIZE, json.as_bytes()).await?;
            }
        }
    }
}

/// The next bytes written by the user; pending forever if stdin is not connected. Cancel safe.
///
/// An in-memory pipe fails only when its other end is dropped, which is its end.
async fn read(stdin: &mut Option<DuplexStream>, buffer: &mut [u8]) -> usize {
    match stdin {
        Some(stdin) => stdin.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Writes to a reader that may have been dropped.
async fn pass_on(output: &mut Option<DuplexStream>, bytes: &[u8]) {
    if let Some(pipe) = output
        && pipe.write_all(bytes).await.is_err()
    {
        *output = None;
    }
}

fn exit_status(bytes: &[u8]) -> Result<ExitStatus, RemoteError> {
    let status: Status = Decoder::new()
        .json(bytes)
        .map_err(|_| RemoteError::Refused(String::from_utf8_lossy(bytes).trim().to_owned()))?;
    Ok(ExitStatus::new(Box::new(status)))
}
