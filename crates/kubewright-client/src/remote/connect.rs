//! Connections for processes and ports, made by the client's transport.

use bytes::Bytes;
use http::{Request, StatusCode};
use kubewright_api::core::v1::Pod;
use kubewright_core::GroupResource;

use super::port_forward::TUNNEL;
use super::{AttachOptions, ExecOptions, Handshake, PortForward, Process, RemoteError};
use crate::transport::{TransportError, TransportErrorKind, Upgrade, Upgraded};
use crate::{Api, Error, Result, rest};

/// What became of a wish for a protocol.
enum Switched {
    /// The one that was agreed on, and the connection.
    Agreed(&'static str, Upgraded),
    /// The server does not want it, and may want another.
    Refused(Error),
}

impl Api<Pod> {
    /// Starts a process in a container, and speaks with it.
    ///
    /// # Errors
    /// If the pod or container is not there, the server speaks neither WebSocket nor SPDY, or no connection comes about, for each
    /// of the two protocols within the client's [`request_timeout`](crate::Client::request_timeout) and
    /// [`answer_timeout`](crate::Client::answer_timeout). What the process does then may take as long as it likes.
    #[doc(alias = "NewWebSocketExecutor")]
    pub async fn exec(&self, name: &str, options: &ExecOptions) -> Result<Process> {
        match self.switch(name, self.exec_request(name, options)?).await? {
            Switched::Agreed(_, stream) => Ok(Process::over(stream, &options.attach)),
            Switched::Refused(_) => {
                let (protocol, stream) = self.insist(name, self.exec_spdy_request(name, options)?).await?;
                Ok(Process::over_spdy(stream, protocol, &options.attach))
            }
        }
    }

    /// Connects to the process that a container runs.
    ///
    /// # Errors
    /// As [`exec`](Self::exec).
    pub async fn attach(&self, name: &str, options: &AttachOptions) -> Result<Process> {
        match self.switch(name, self.attach_request(name, options)?).await? {
            Switched::Agreed(_, stream) => Ok(Process::over(stream, options)),
            Switched::Refused(_) => {
                let (protocol, stream) = self.insist(name, self.attach_spdy_request(name, options)?).await?;
                Ok(Process::over_spdy(stream, protocol, options))
            }
        }
    }

    /// Connects to ports of a pod. For ports of this machine that lead there, see [`PortListener`](super::PortListener).
    ///
    /// Each has a connection to the server of its own, so that one who reads slowly from a port holds up no other.
    ///
    /// # Errors
    /// As [`exec`](Self::exec), and if `ports` are none.
    pub async fn port_forward(&self, name: &str, ports: &[u16]) -> Result<PortForward> {
        let mut ports = ports.chunks(1);
        // Nothing is refused in the words of a request for nothing.
        let mut forward = self.connect(name, ports.next().unwrap_or_default()).await?;
        for port in ports {
            forward = forward.and(self.connect(name, port).await?);
        }
        Ok(forward)
    }

    /// Connects to ports over one connection to the server.
    async fn connect(&self, name: &str, ports: &[u16]) -> Result<PortForward> {
        match self.switch(name, self.port_forward_request(name, ports)?).await? {
            Switched::Agreed(TUNNEL, stream) => Ok(PortForward::over_tunnel(stream, ports)),
            Switched::Agreed(_, stream) => Ok(PortForward::over(stream, ports)),
            Switched::Refused(_) => {
                let (_, stream) = self.insist(name, self.port_forward_spdy_request(name, ports)?).await?;
                Ok(PortForward::over_spdy(stream, ports))
            }
        }
    }

    /// As [`switch`](Self::switch), where there is no other way left.
    async fn insist(&self, name: &str, asked: (Request<Bytes>, Handshake)) -> Result<(&'static str, Upgraded)> {
        match self.switch(name, asked).await? {
            Switched::Agreed(protocol, stream) => Ok((protocol, stream)),
            Switched::Refused(error) => Err(error),
        }
    }

    /// Asks for another protocol, of which the answer has to begin within the client's limits.
    async fn upgrade(&self, request: Request<Bytes>) -> Result<Upgrade, TransportError> {
        let (settings, upgrading) = (self.client().settings(), self.client().transport().upgrade(request));
        let limit = settings.timeout.into_iter().chain(settings.answer_timeout).min();
        let Some(limit) = limit else { return upgrading.await };
        let late = |elapsed| Err(TransportError::new(TransportErrorKind::Timeout, elapsed));
        tokio::time::timeout(limit, upgrading).await.unwrap_or_else(late)
    }

    async fn switch(&self, name: &str, (request, handshake): (Request<Bytes>, Handshake)) -> Result<Switched> {
        match self.upgrade(request).await? {
            Upgrade::Switched(head, stream) => Ok(match handshake.finish(head.headers()) {
                Ok(protocol) => Switched::Agreed(protocol, stream),
                Err(error) => Switched::Refused(disagreement(error)),
            }),
            Upgrade::Refused(answer) => {
                let (pods, code) = (GroupResource::from_static("", "pods"), answer.status());
                let failure = Error::Status(rest::failure(&pods, name, answer).await);
                match code {
                    // Nothing that another protocol would change. A 403 is none of these: WebSocket is a GET, for which the verb `get` is
                    // needed, and SPDY a POST, for which `create` is enough, and all that many have. Nor is a 404, which may be
                    // from a proxy that knows no WebSocket.
                    StatusCode::UNAUTHORIZED
                    | StatusCode::CONFLICT
                    | StatusCode::UNPROCESSABLE_ENTITY
                    | StatusCode::TOO_MANY_REQUESTS => Err(failure),
                    _ => Ok(Switched::Refused(failure)),
                }
            }
        }
    }
}

/// A server that switched to something else has broken the connection for us.
fn disagreement(error: RemoteError) -> Error {
    TransportError::new(TransportErrorKind::Disconnected, error).into()
}
