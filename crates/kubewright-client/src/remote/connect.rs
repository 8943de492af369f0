//! Connections for processes and ports, made by the client's transport.

use bytes::{Bytes, BytesMut};
use http::Request;
use kubewright_api::core::v1::Pod;
use kubewright_core::GroupResource;

use super::{AttachOptions, ExecOptions, Handshake, PortForward, Process, RemoteError};
use crate::transport::{Upgrade, Upgraded};
use crate::{Api, Error, Result, rest};

/// How much of an answer is read that is no connection.
const MOST_WORDS: usize = 64 << 10;

impl Api<Pod> {
    /// Starts a process in a container, and speaks with it.
    ///
    /// # Errors
    /// If the pod or container is not there, the server does not speak WebSocket, or no connection comes about.
    #[doc(alias = "NewWebSocketExecutor")]
    pub async fn exec(&self, name: &str, options: &ExecOptions) -> Result<Process> {
        let (request, handshake) = self.exec_request(name, options)?;
        Ok(Process::over(self.switch(name, request, &handshake).await?, &options.attach))
    }

    /// Connects to the process that a container runs.
    ///
    /// # Errors
    /// As [`exec`](Self::exec).
    pub async fn attach(&self, name: &str, options: &AttachOptions) -> Result<Process> {
        let (request, handshake) = self.attach_request(name, options)?;
        Ok(Process::over(self.switch(name, request, &handshake).await?, options))
    }

    /// Connects to ports of a pod. For ports of this machine that lead there, see [`PortListener`](super::PortListener).
    ///
    /// # Errors
    /// As [`exec`](Self::exec), and if `ports` are none or too many.
    pub async fn port_forward(&self, name: &str, ports: &[u16]) -> Result<PortForward> {
        let (request, handshake) = self.port_forward_request(name, ports)?;
        Ok(PortForward::over(self.switch(name, request, &handshake).await?, ports))
    }

    async fn switch(&self, name: &str, request: Request<Bytes>, handshake: &Handshake) -> Result<Upgraded> {
        match self.client().transport().upgrade(request).await? {
            Upgrade::Switched(head, stream) => {
                handshake.finish(head.headers()).map_err(disagreement)?;
                Ok(stream)
            }
            Upgrade::Refused(answer) => {
                let (head, mut body) = answer.into_parts();
                let mut text = BytesMut::new();
                while text.len() < MOST_WORDS
                    && let Some(chunk) = body.chunk().await?
                {
                    text.extend_from_slice(&chunk);
                }
                let pods = GroupResource::from_static("", "pods");
                Err(Error::Status(rest::failure(&pods, name, head.status, &head.headers, &text)))
            }
        }
    }
}

/// A server that switched to something else has broken the connection for us.
fn disagreement(error: RemoteError) -> Error {
    use crate::transport::{TransportError, TransportErrorKind};
    TransportError::new(TransportErrorKind::Disconnected, error).into()
}
