//! SOCKS 5 proxies (RFC 1928), with passwords (RFC 1929).

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::secret::Secret;
use crate::transport::BoxedStream;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;

/// Requests a connection to `host`, whose name the proxy resolves.
pub(super) async fn pass(
    mut stream: BoxedStream,
    host: &str,
    port: u16,
    user: Option<&(Secret<String>, Secret<String>)>,
) -> io::Result<BoxedStream> {
    let methods: &[u8] = if user.is_some() { &[NO_AUTHENTICATION, PASSWORD] } else { &[NO_AUTHENTICATION] };
    let mut greeting = vec![VERSION, u8::try_from(methods.len()).map_err(io::Error::other)?];
    greeting.extend(methods);
    stream.write_all(&greeting).await?;
    stream.flush().await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match (answer, user) {
        ([VERSION, NO_AUTHENTICATION], _) => {}
        ([VERSION, PASSWORD], Some((name, password))) => log_in(&mut stream, name, password).await?,
        ([VERSION, _], _) => return Err(io::Error::other("the proxy wants another way to log in")),
        _ => return Err(io::Error::other("the proxy does not speak SOCKS 5")),
    }

    let mut request = vec![VERSION, 1, 0];
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
        Err(_) => {
            request.push(3);
            append(&mut request, host)?;
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;

    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    match head {
        [VERSION, 0, ..] => {}
        [VERSION, code, ..] => return Err(io::Error::other(format!("the proxy refused: {}", reason(code)))),
        _ => return Err(io::Error::other("the proxy does not speak SOCKS 5")),
    }
    let length = match head[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(io::Error::other("the proxy names an address of unknown kind")),
    };
    // The bound address is irrelevant but precedes the server's data.
    let mut address = vec![0; length + 2];
    stream.read_exact(&mut address).await?;
    Ok(stream)
}

async fn log_in(stream: &mut BoxedStream, name: &Secret<String>, password: &Secret<String>) -> io::Result<()> {
    let mut request = vec![1];
    append(&mut request, name.expose())?;
    append(&mut request, password.expose())?;
    stream.write_all(&request).await?;
    stream.flush().await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match answer[1] {
        0 => Ok(()),
        _ => Err(io::Error::other("the proxy refused the user name or password")),
    }
}

fn append(request: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let length = u8::try_from(text.len()).map_err(|_| io::Error::other("a name is too long for SOCKS 5"))?;
    request.push(length);
    request.extend(text.as_bytes());
    Ok(())
}

fn reason(code: u8) -> &'static str {
    match code {
        2 => "not allowed",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        _ => "it failed",
    }
}
