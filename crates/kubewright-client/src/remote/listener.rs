//! Ports of this machine that lead to ports of a pod.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{PortForward, RemoteError};

/// How long a port of the pod may still answer somebody who will write no more; not every protocol can tell it so.
const LAST_WORDS: Duration = Duration::from_secs(10);

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

/// Carries bytes both ways until both sides, or the pod's, have ended.
async fn lead(here: TcpStream, connecting: impl Future<Output = Result<PortForward, RemoteError>>) {
    let mut forward = match connecting.await {
        Ok(forward) => forward,
        Err(error) => return tracing::warn!(error = &error as &dyn std::error::Error, "cannot reach the port"),
    };
    let Some(there) = forward.take(0) else { return };
    let ((mut from_here, mut to_here), (mut from_there, mut to_there)) = (split(here), split(there));
    let outward = async {
        // Whichever way it ends, nothing more will be written.
        let _ = copy(&mut from_here, &mut to_there).await;
        let _ = to_there.shutdown().await;
        sleep(LAST_WORDS).await;
    };
    let inward = async {
        let _ = copy(&mut from_there, &mut to_here).await;
        let _ = to_here.shutdown().await;
    };
    tokio::select! {
        () = inward => {
            if let Err(error) = forward.wait().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a forwarded connection broke");
            }
        }
        () = outward => {}
    }
}
