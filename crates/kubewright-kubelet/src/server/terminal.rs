//! The terminal of a process: it echoes keys, edits the line, and turns ends of lines into those of
//! a terminal. Clients with `-t` send every key at once, and show only what they receive.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::shell::{Input, Interrupt, Output, Streams};

/// The status of a command that Ctrl-C has ended.
const INTERRUPTED: i32 = 128 + 2;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;
const ESCAPE: u8 = 27;
/// Maximum length of a line.
const LINE_MAX: usize = 64 << 10;
const QUEUED: usize = 8;

/// A terminal between a client and a process.
pub(super) struct Terminal {
    keys: mpsc::Receiver<Bytes>,
    screen: mpsc::Sender<Bytes>,
    lines: mpsc::Sender<Bytes>,
    printed: mpsc::Receiver<Bytes>,
}

impl Terminal {
    /// A terminal, and the streams of its process.
    pub(super) fn new(keys: mpsc::Receiver<Bytes>, screen: mpsc::Sender<Bytes>) -> (Self, Streams) {
        let (lines, input) = mpsc::channel(QUEUED);
        let (print, printed) = mpsc::channel(QUEUED);
        let output = Output::Channel(print);
        let streams = Streams { input: Input::live(input), output: output.clone(), error: output };
        (Terminal { keys, screen, lines, printed }, streams)
    }

    /// Runs the process until it ends, or is interrupted.
    pub(super) async fn run(self, process: impl Future<Output = Result<i32, Interrupt>>) -> Result<i32, Interrupt> {
        let Terminal { mut keys, screen, lines, mut printed } = self;
        let printing = async {
            while let Some(bytes) = printed.recv().await {
                if screen.send(for_terminal(&bytes)).await.is_err() {
                    break;
                }
            }
        };
        let typing = async {
            let (mut line, mut lines) = (Vec::new(), Some(lines));
            while let Some(typed) = keys.recv().await {
                let mut echo = Vec::new();
                for key in typed {
                    match key {
                        b'\r' | b'\n' => {
                            echo.extend(b"\r\n");
                            line.push(b'\n');
                            if let Some(lines) = &lines {
                                let _ = screen.send(std::mem::take(&mut echo).into()).await;
                                let _ = lines.send(std::mem::take(&mut line).into()).await;
                            }
                            line.clear();
                        }
                        CTRL_C => return,
                        CTRL_D if line.is_empty() => lines = None,
                        BACKSPACE | DELETE if line.pop().is_some() => echo.extend(b"\x08 \x08"),
                        // Keys such as arrows are ignored, with what follows their first byte.
                        ESCAPE => break,
                        key if is_printable(key) && line.len() < LINE_MAX => {
                            line.push(key);
                            echo.push(key);
                        }
                        _ => {}
                    }
                }
                if !echo.is_empty() {
                    let _ = screen.send(echo.into()).await;
                }
            }
            drop(lines);
            // The process goes on without input.
            std::future::pending().await
        };
        let running = async { tokio::join!(process, printing).0 };
        tokio::select! {
            ended = running => ended,
            () = typing => Err(Interrupt::Exit(INTERRUPTED)),
        }
    }
}

/// Whether a key stands for itself. Others are control characters.
fn is_printable(key: u8) -> bool {
    key == b'\t' || (key >= b' ' && key != DELETE)
}

/// Output with a carriage return before each line feed.
fn for_terminal(bytes: &Bytes) -> Bytes {
    if !bytes.contains(&b'\n') {
        return bytes.clone();
    }
    let mut shown = Vec::with_capacity(bytes.len() + 16);
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        match part.strip_suffix(b"\n") {
            Some(line) => {
                shown.extend(line);
                shown.extend(b"\r\n");
            }
            None => shown.extend(part),
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_are_echoed_and_lines_edited() {
        let (to, keys) = mpsc::channel(8);
        let (screen, mut shown) = mpsc::channel(64);
        let (terminal, streams) = Terminal::new(keys, screen);
        for typed in ["ec", "hx\x7f", "o\r", "\x04"] {
            to.send(Bytes::from(typed)).await.unwrap();
        }
        let process = async move {
            let line = streams.input.line().await;
            let end = streams.input.line().await;
            streams.output.write(Default::default(), "a\nb").await?;
            drop(streams);
            assert_eq!((line, end), (Some(b"echo\n".to_vec()), None));
            Ok(0)
        };
        assert_eq!(terminal.run(process).await, Ok(0));
        let mut text = Vec::new();
        while let Ok(bytes) = shown.try_recv() {
            text.extend(bytes);
        }
        assert_eq!(String::from_utf8_lossy(&text), "echx\x08 \x08o\r\na\r\nb");
    }

    #[tokio::test]
    async fn control_c_ends_the_process() {
        let (to, keys) = mpsc::channel(8);
        let (screen, _shown) = mpsc::channel(64);
        let (terminal, _streams) = Terminal::new(keys, screen);
        to.send(Bytes::from_static(b"\x03")).await.unwrap();
        assert_eq!(terminal.run(std::future::pending()).await, Err(Interrupt::Exit(INTERRUPTED)));
    }
}
