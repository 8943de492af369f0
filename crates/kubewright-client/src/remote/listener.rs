//! Local ports that forward to a pod.

use std::fmt;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{PortForward, RemoteError};

/// Idle timeout of a pod port after the local side has closed its writing half, if the protocol
/// cannot signal that: the port may wait for more data forever.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);
/// Size of the copy buffer.
const BUFFER: usize = 8 << 10;

/// A local port and the pod port that it forwards to.
///
/// Written `8888:5000`, `5000` for the same on both sides, or `:5000` for any free local port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "ForwardedPort")]
pub struct PortPair {
    /// The local port; 0 picks a free one.
    pub local: u16,
    /// The port of the pod.
    pub remote: u16,
}

impl FromStr for PortPair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |part: &str| part.parse::<u16>().map_err(|_| format!("{part:?} in {text:?} is no port"));
        let (local, remote) = match text.split_once(':') {
            Some(("", remote)) => (0, port(remote)?),
            Some((local, remote)) => (port(local)?, port(remote)?),
            None => (port(text)?, port(text)?),
        };
        if remote == 0 {
            return Err(format!("{text:?} names no port of the pod"));
        }
        Ok(PortPair { local, remote })
    }
}

/// Listens on local ports and forwards each connection to a port of a pod. Stops on drop.
///
/// A half-closed connection can be read until the pod closes it. Servers before 1.30 may not
/// propagate the half-close; then the connection ends after the port was idle for a minute.
pub struct PortListener {
    addresses: Vec<(SocketAddr, u16)>,
    /// Aborted on drop.
    _tasks: JoinSet<()>,
}

impl PortListener {
    /// Listens on each of `ports` at each of `hosts`, which are addresses or `localhost`.
    ///
    /// `connect` opens a connection to a port of the pod; it is called for each local connection.
    /// `localhost` means `127.0.0.1` and `::1`, one of which suffices; all other addresses must
    /// exist.
    ///
    /// # Errors
    /// If a port cannot be bound.
    #[doc(alias = "ForwardPorts")]
    #[doc(alias = "NewOnAddresses")]
    pub async fn bind<C, F>(hosts: &[&str], ports: &[PortPair], connect: C) -> io::Result<Self>
    where
        C: Fn(u16) -> F + Send + Sync + 'static,
        F: Future<Output = Result<PortForward, RemoteError>> + Send + 'static,
    {
        let connect = Arc::new(connect);
        let mut listener = PortListener { addresses: Vec::new(), _tasks: JoinSet::new() };
        for host in hosts {
            for pair in ports {
                for socket in sockets(host, pair.local).await? {
                    listener.addresses.push((socket.local_addr()?, pair.remote));
                    listener._tasks.spawn(accept(socket, pair.remote, Arc::clone(&connect)));
                }
            }
        }
        Ok(listener)
    }

    /// The listening addresses, and the pod port of each.
    #[doc(alias = "GetPorts")]
    pub fn addresses(&self) -> &[(SocketAddr, u16)] {
        &self.addresses
    }
}

impl fmt::Debug for PortListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PortListener").field(&self.addresses).finish()
    }
}

async fn sockets(host: &str, port: u16) -> io::Result<Vec<TcpListener>> {
    if host != "localhost" {
        let address: IpAddr =
            host.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{host:?} is no address")))?;
        return Ok(vec![TcpListener::bind((address, port)).await?]);
    }
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    // A port picked for one address family is requested for the other.
    let port = first.as_ref().ok().and_then(|socket| socket.local_addr().ok()).map_or(port, |address| address.port());
    match (first, TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await) {
        (Err(error), Err(_)) => Err(error),
        (first, second) => Ok(first.into_iter().chain(second).collect()),
    }
}

async fn accept<C, F>(socket: TcpListener, port: u16, connect: Arc<C>)
where
    C: Fn(u16) -> F + Send + Sync + 'static,
    F: Future<Output = Result<PortForward, RemoteError>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(lead(stream, connect(port)))),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, port, "cannot accept a connection");
                    // Most such errors are a shortage of resources that may be released.
                    sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Copies bytes in both directions until the pod closes, or the local side is gone. The local side
/// may half-close.
async fn lead(here: impl AsyncRead + AsyncWrite, connecting: impl Future<Output = Result<PortForward, RemoteError>>) {
    let mut forward = match connecting.await {
        Ok(forward) => forward,
        Err(error) => return tracing::warn!(error = &error as &dyn std::error::Error, "cannot reach the port"),
    };
    let Some(there) = forward.take(0) else { return };
    let ((mut from_here, mut to_here), (mut from_there, mut to_there)) = (split(here), split(there));
    let tells_end = forward.tells_end();
    // Whether the local side has half-closed without the port knowing.
    let (is_untold, mut untold) = watch::channel(false);
    let outward = async {
        match copy(&mut from_here, &mut to_there).await {
            // The pod has closed; its last bytes are still being copied.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            copied => drop(copied?),
        }
        let _ = to_there.shutdown().await;
        is_untold.send_replace(!tells_end);
        pending::<io::Result<()>>().await
    };
    let inward = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = tokio::select! {
                read = from_there.read(&mut buffer) => read?,
                () = last_words(&mut untold) => return Err(io::ErrorKind::TimedOut.into()),
            };
            if length == 0 {
                let _ = to_here.shutdown().await;
                return Ok(());
            }
            to_here.write_all(&buffer[..length]).await?;
        }
    };
    let carried = tokio::select! {
        carried = inward => carried,
        carried = outward => carried,
    };
    match carried {
        Ok(()) => {
            if let Err(error) = forward.wait().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a forwarded connection broke");
            }
        }
        // The local side is gone.
        Err(error) => tracing::debug!(%error, "a forwarded connection was given up"),
    }
}

/// Waits for the half-close, then for the idle timeout. Cancel safe.
async fn last_words(untold: &mut watch::Receiver<bool>) {
    let _ = untold.wait_for(|is_untold| *is_untold).await;
    sleep(HALF_CLOSED_TIMEOUT).await;
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt, StreamExt};
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, timeout};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// A local connection whose other end is forwarded to the port.
    fn led(forward: PortForward) -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = duplex(1024);
        (ours, tokio::spawn(lead(theirs, async { Ok(forward) })))
    }

    /// A SPDY data frame.
    fn data(stream: u8, last: bool, bytes: &[u8]) -> Vec<u8> {
        [&[0, 0, 0, stream, last.into(), 0, 0, bytes.len() as u8], bytes].concat()
    }

    // PF-1
    #[tokio::test(start_paused = true)]
    async fn a_half_closed_port_has_no_idle_timeout_if_the_protocol_signals_eof() {
        let (client, mut server) = duplex(1 << 16);
        let (mut ours, leading) = led(PortForward::over_spdy(client, &[80]));
        ours.write_all(b"question").await.unwrap();
        ours.shutdown().await.unwrap();
        // The client sends two stream openings, then the end of the second stream.
        let end = data(3, true, b"");
        let mut heard = Vec::new();
        while !heard.ends_with(&end) {
            assert_ne!(server.read_buf(&mut heard).await.unwrap(), 0);
        }
        let answering = tokio::spawn(async move {
            for _ in 0..20 {
                sleep(Duration::from_secs(50)).await;
                // A ping, which is not data.
                server.write_all(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]).await.unwrap();
            }
            server.write_all(&[data(3, true, b"answer"), data(1, true, b"")].concat()).await.unwrap();
            server
        });
        let mut answer = String::new();
        timeout(Duration::from_secs(3600), ours.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer, "answer");
        leading.await.unwrap();
        answering.await.unwrap();
    }

    // PF-1
    #[tokio::test(start_paused = true)]
    async fn a_port_that_cannot_know_is_given_up_after_a_silence() {
        let (client, server) = duplex(1 << 16);
        let mut server = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
        let (mut ours, leading) = led(PortForward::over(client, &[80]));
        ours.shutdown().await.unwrap();
        let pause = HALF_CLOSED_TIMEOUT - Duration::from_secs(1);
        let serving = tokio::spawn(async move {
            server.send(Message::Binary(vec![0, 80, 0].into())).await.unwrap();
            for _ in 0..5 {
                sleep(pause).await;
                server.send(Message::Binary(b"\0word".to_vec().into())).await.unwrap();
            }
            // Answers pings and sends nothing else.
            while let Some(Ok(_)) = server.next().await {}
        });
        let start = Instant::now();
        let mut answer = String::new();
        timeout(Duration::from_secs(3600), ours.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer, "word".repeat(5));
        assert_eq!(start.elapsed().as_secs(), (5 * pause + HALF_CLOSED_TIMEOUT).as_secs());
        leading.await.unwrap();
        serving.await.unwrap();
    }

    // PF-1
    #[tokio::test(start_paused = true)]
    async fn a_dropped_port_is_closed() {
        let (client, mut server) = duplex(1 << 16);
        let (ours, leading) = led(PortForward::over_spdy(client, &[80]));
        let talking = tokio::spawn(async move {
            while server.write_all(&data(3, false, b"word")).await.is_ok() {
                sleep(Duration::from_secs(5)).await;
            }
        });
        drop(ours);
        timeout(Duration::from_secs(3600), leading).await.unwrap().unwrap();
        talking.await.unwrap();
    }
}
