//! Opens connections for exec, attach and port-forward through the client's transport.

use bytes::Bytes;
use http::{Request, StatusCode};
use kubewright_api::core::v1::Pod;
use kubewright_core::GroupResource;

use super::port_forward::TUNNEL;
use super::{AttachOptions, ExecOptions, Handshake, PortForward, Process, RemoteError};
use crate::{Api, Error, Result, rest};
use kubewright_net::transport::{TransportError, TransportErrorKind, Upgrade, Upgraded};

/// The result of a protocol upgrade.
enum UpgradeOutcome {
    /// The negotiated protocol and the connection.
    Agreed(&'static str, Upgraded),
    /// The server rejected it and may accept another.
    Refused(Error),
}

impl Api<Pod> {
    /// Starts a process in a container and connects to it.
    ///
    /// # Errors
    /// If the pod or container does not exist, the server supports neither WebSocket nor SPDY, or
    /// the connection fails or takes longer, per protocol, than the client's
    /// [`request_timeout`](crate::Client::request_timeout) and
    /// [`answer_timeout`](crate::Client::answer_timeout). The process itself has no time limit.
    #[doc(alias = "NewWebSocketExecutor")]
    pub async fn exec(&self, name: &str, options: &ExecOptions) -> Result<Process> {
        match self.switch(name, self.exec_request(name, options)?).await? {
            UpgradeOutcome::Agreed(_, stream) => Ok(Process::over(stream, &options.attach)),
            UpgradeOutcome::Refused(_) => {
                let (protocol, stream) = self.insist(name, self.exec_spdy_request(name, options)?).await?;
                Ok(Process::over_spdy(stream, protocol, &options.attach))
            }
        }
    }

    /// Connects to the main process of a container.
    ///
    /// # Errors
    /// As [`exec`](Self::exec).
    pub async fn attach(&self, name: &str, options: &AttachOptions) -> Result<Process> {
        match self.switch(name, self.attach_request(name, options)?).await? {
            UpgradeOutcome::Agreed(_, stream) => Ok(Process::over(stream, options)),
            UpgradeOutcome::Refused(_) => {
                let (protocol, stream) = self.insist(name, self.attach_spdy_request(name, options)?).await?;
                Ok(Process::over_spdy(stream, protocol, options))
            }
        }
    }

    /// Connects to ports of a pod. For local ports that forward to it, see
    /// [`PortListener`](super::PortListener).
    ///
    /// Each port has its own connection to the server, so that a slow reader of one port does not
    /// block the others.
    ///
    /// # Errors
    /// As [`exec`](Self::exec), and if `ports` is empty.
    pub async fn port_forward(&self, name: &str, ports: &[u16]) -> Result<PortForward> {
        let mut ports = ports.chunks(1);
        // Without ports, the error comes from the request for none.
        let mut forward = self.connect(name, ports.next().unwrap_or_default()).await?;
        for port in ports {
            forward = forward.and(self.connect(name, port).await?);
        }
        Ok(forward)
    }

    /// Connects to ports over one connection to the server.
    async fn connect(&self, name: &str, ports: &[u16]) -> Result<PortForward> {
        match self.switch(name, self.port_forward_request(name, ports)?).await? {
            UpgradeOutcome::Agreed(TUNNEL, stream) => Ok(PortForward::over_tunnel(stream, ports)),
            UpgradeOutcome::Agreed(_, stream) => Ok(PortForward::over(stream, ports)),
            UpgradeOutcome::Refused(_) => {
                let (_, stream) = self.insist(name, self.port_forward_spdy_request(name, ports)?).await?;
                Ok(PortForward::over_spdy(stream, ports))
            }
        }
    }

    /// Like [`switch`](Self::switch), without a fallback.
    async fn insist(&self, name: &str, asked: (Request<Bytes>, Handshake)) -> Result<(&'static str, Upgraded)> {
        match self.switch(name, asked).await? {
            UpgradeOutcome::Agreed(protocol, stream) => Ok((protocol, stream)),
            UpgradeOutcome::Refused(error) => Err(error),
        }
    }

    /// Requests a protocol upgrade; the response must begin within the client's timeouts.
    async fn upgrade(&self, request: Request<Bytes>) -> Result<Upgrade, TransportError> {
        let (settings, upgrading) = (self.client().settings(), self.client().transport().upgrade(request));
        let limit = settings.timeout.into_iter().chain(settings.answer_timeout).min();
        let Some(limit) = limit else { return upgrading.await };
        let late = |elapsed| Err(TransportError::new(TransportErrorKind::Timeout, elapsed));
        tokio::time::timeout(limit, upgrading).await.unwrap_or_else(late)
    }

    async fn switch(&self, name: &str, (request, handshake): (Request<Bytes>, Handshake)) -> Result<UpgradeOutcome> {
        match self.upgrade(request).await? {
            Upgrade::Switched(head, stream) => Ok(match handshake.finish(head.headers()) {
                Ok(protocol) => UpgradeOutcome::Agreed(protocol, stream),
                Err(error) => UpgradeOutcome::Refused(disagreement(error)),
            }),
            Upgrade::Refused(answer) => {
                let (pods, code) = (GroupResource::from_static("", "pods"), answer.status());
                let failure = Error::Status(rest::failure(&pods, name, answer).await);
                match code {
                    // Errors that another protocol would not change. Not a 403: WebSocket is a GET,
                    // which needs the verb `get`, while for SPDY's POST `create` suffices, and many
                    // users have only that. Not a 404, which may come from a proxy without
                    // WebSocket support.
                    StatusCode::UNAUTHORIZED
                    | StatusCode::CONFLICT
                    | StatusCode::UNPROCESSABLE_ENTITY
                    | StatusCode::TOO_MANY_REQUESTS => Err(failure),
                    _ => Ok(UpgradeOutcome::Refused(failure)),
                }
            }
        }
    }
}

/// A server that switched to another protocol has broken the connection.
fn disagreement(error: RemoteError) -> Error {
    TransportError::new(TransportErrorKind::Disconnected, error).into()
}
