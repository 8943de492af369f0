//! HTTP proxies: `CONNECT`.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::secret::Secret;
use crate::transport::BoxedStream;

/// Size limit of the proxy's response.
const ANSWER_MAX: usize = 16 << 10;

/// Requests a connection to `host`.
pub(super) async fn pass(
    mut stream: BoxedStream,
    host: &str,
    port: u16,
    authorization: Option<Secret<String>>,
) -> io::Result<BoxedStream> {
    let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(authorization) = authorization {
        request.push_str(&format!("Proxy-Authorization: {}\r\n", authorization.expose()));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;

    // Byte by byte, so that nothing after the response is consumed.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= ANSWER_MAX {
            return Err(io::Error::other("the proxy's answer has no end"));
        }
        answer.push(stream.read_u8().await?);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=299) => Ok(stream),
        Some(code) => Err(io::Error::other(format!("the proxy answered {code}"))),
        None => Err(io::Error::other("the proxy does not speak HTTP")),
    }
}
