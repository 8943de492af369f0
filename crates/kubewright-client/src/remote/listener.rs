//! Ports of this machine that lead to ports of a pod.

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

/// How long a port of the pod may be silent to somebody who will write no more, where the protocol cannot tell it so: it may
/// wait for more, and never end.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// How much is carried at once.
const BUFFER: usize = 8 << 10;

/// A port of this machine and the port of a pod that it leads to.
///
/// Written `8888:5000`, `5000` for the same on both sides, or `:5000` for whichever is free here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "ForwardedPort")]
pub struct PortPair {
    /// The port here; 0 picks a free one.
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

/// Listens on ports of this machine and leads each connection to a port of a pod. Stops when it is dropped.
///
/// Who has written all reads on until the pod's side ends. Servers before 1.30 may not tell the port that no more will come; with
/// them a connection ends after a minute in which the port was silent.
pub struct PortListener {
    addresses: Vec<(SocketAddr, u16)>,
    /// Its tasks end with it.
    _tasks: JoinSet<()>,
}

impl PortListener {
    /// Listens on each of `ports` at each of `hosts`, which are addresses or `localhost`.
    ///
    /// `connect` makes a connection to one port of the pod; it is called for each connection here. `localhost` is both
    /// `127.0.0.1` and `::1`, of which one is enough; all other addresses have to be there.
    ///
    /// # Errors
    /// When a port cannot be listened on.
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

    /// Where it listens, and to which port of the pod each leads.
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
    // A port that was picked for one family is asked for in the other.
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
                    // Most such errors are a lack of something that others may give back.
                    sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries bytes both ways until the pod's side has ended, or ours is gone. Who writes no more may still read.
async fn lead(here: impl AsyncRead + AsyncWrite, connecting: impl Future<Output = Result<PortForward, RemoteError>>) {
    let mut forward = match connecting.await {
        Ok(forward) => forward,
        Err(error) => return tracing::warn!(error = &error as &dyn std::error::Error, "cannot reach the port"),
    };
    let Some(there) = forward.take(0) else { return };
    let ((mut from_here, mut to_here), (mut from_there, mut to_there)) = (split(here), split(there));
    let tells_end = forward.tells_end();
    // Whether nothing more will be written, and the port does not know.
    let (is_untold, mut untold) = watch::channel(false);
    let outward = async {
        match copy(&mut from_here, &mut to_there).await {
            // The pod's side has ended, and what it said last is still on its way to here.
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
        // Nobody is there who would read on.
        Err(error) => tracing::debug!(%error, "a forwarded connection was given up"),
    }
}

/// The time that a port has for another word, once it waits for ours in vain. Cancel safe.
async fn last_words(untold: &mut watch::Receiver<bool>) {
    let _ = untold.wait_for(|is_untold| *is_untold).await;
    sleep(LAST_WORDS).await;
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

    /// A connection to this machine, of which the other end is led to the port.
    fn led(forward: PortForward) -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = duplex(1024);
        (ours, tokio::spawn(lead(theirs, async { Ok(forward) })))
    }

    /// A frame of SPDY with bytes for a stream.
    fn data(stream: u8, last: bool, bytes: &[u8]) -> Vec<u8> {
        [&[0, 0, 0, stream, last.into(), 0, 0, bytes.len() as u8], bytes].concat()
    }

    // PF-1
    #[tokio::test(start_paused = true)]
    async fn a_port_that_knows_that_no_more_will_come_may_take_its_time() {
        let (client, mut server) = duplex(1 << 16);
        let (mut ours, leading) = led(PortForward::over_spdy(client, &[80]));
        ours.write_all(b"question").await.unwrap();
        ours.shutdown().await.unwrap();
        // What comes from here: the opening of two streams, and then the last of the second.
        let end = data(3, true, b"");
        let mut heard = Vec::new();
        while !heard.ends_with(&end) {
            assert_ne!(server.read_buf(&mut heard).await.unwrap(), 0);
        }
        let answering = tokio::spawn(async move {
            for _ in 0..20 {
                sleep(Duration::from_secs(50)).await;
                // A sign of life, which is no answer.
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
        let pause = LAST_WORDS - Duration::from_secs(1);
        let serving = tokio::spawn(async move {
            server.send(Message::Binary(vec![0, 80, 0].into())).await.unwrap();
            for _ in 0..5 {
                sleep(pause).await;
                server.send(Message::Binary(b"\0word".to_vec().into())).await.unwrap();
            }
            // Answers pings, and says nothing more.
            while let Some(Ok(_)) = server.next().await {}
        });
        let start = Instant::now();
        let mut answer = String::new();
        timeout(Duration::from_secs(3600), ours.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer, "word".repeat(5));
        assert_eq!(start.elapsed().as_secs(), (5 * pause + LAST_WORDS).as_secs());
        leading.await.unwrap();
        serving.await.unwrap();
    }

    // PF-1
    #[tokio::test(start_paused = true)]
    async fn a_port_that_nobody_listens_to_is_left() {
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
