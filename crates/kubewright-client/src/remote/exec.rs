//! Options of exec and attach.

use http::Method;
use kubewright_api::core::v1::Pod;
use kubewright_core::Str;

use super::Handshake;
use crate::api::Api;
use crate::error::Result;
use crate::rest::Request;

/// WebSocket subprotocols.
const PROTOCOLS: &[&str] = &["v5.channel.k8s.io"];
/// SPDY subprotocols, newest first.
pub(super) const SPDY_PROTOCOLS: &[&str] =
    &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// The streams of a process to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "PodAttachOptions")]
pub struct AttachOptions {
    /// The container. Unset by default: the only one.
    pub container: Option<Str>,
    /// Whether to connect stdin. Off by default.
    pub stdin: bool,
    /// Whether to connect stdout. On by default.
    pub stdout: bool,
    /// Whether to connect stderr. On by default; never with a terminal, which has one output.
    pub stderr: bool,
    /// Whether the process has a terminal. Off by default.
    pub tty: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        AttachOptions { container: None, stdin: false, stdout: true, stderr: true, tty: false }
    }
}

impl AttachOptions {
    /// Selects the container.
    #[must_use]
    pub fn container(mut self, name: impl Into<Str>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Connects stdin.
    #[must_use]
    pub fn stdin(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// Allocates a terminal, which has no separate stderr.
    #[must_use]
    pub fn tty(mut self) -> Self {
        (self.tty, self.stderr) = (true, false);
        self
    }

    fn parameters<'a>(&self, request: Request<'a>) -> Request<'a> {
        let request = match &self.container {
            Some(container) => request.parameter("container", container),
            None => request,
        };
        let stderr = self.stderr && !self.tty;
        let flags = [("stderr", stderr), ("stdin", self.stdin), ("stdout", self.stdout), ("tty", self.tty)];
        flags.into_iter().filter(|(_, set)| *set).fold(request, |request, (name, _)| request.parameter(name, true))
    }
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "PodExecOptions")]
pub struct ExecOptions {
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// The streams to connect.
    pub attach: AttachOptions,
}

impl ExecOptions {
    /// A command with stdout and stderr connected.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        ExecOptions { command: command.into_iter().map(Into::into).collect(), attach: AttachOptions::default() }
    }

    /// The streams to connect.
    #[must_use]
    pub fn attach(mut self, attach: AttachOptions) -> Self {
        self.attach = attach;
        self
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

impl Api<Pod> {
    /// The request to start a process in a container, for [`Process`](super::Process).
    #[doc(alias = "NewWebSocketExecutor")]
    pub fn exec_request(&self, name: &str, options: &ExecOptions) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        Handshake::web_socket(self.wanted_process(Method::GET, name, options), PROTOCOLS)
    }

    /// Like [`exec_request`](Self::exec_request), for
    /// [`Process::over_spdy`](super::Process::over_spdy).
    #[doc(alias = "NewSPDYExecutor")]
    pub fn exec_spdy_request(
        &self,
        name: &str,
        options: &ExecOptions,
    ) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        Handshake::spdy(self.wanted_process(Method::POST, name, options), SPDY_PROTOCOLS)
    }

    fn wanted_process(&self, method: Method, name: &str, options: &ExecOptions) -> Request<'_> {
        let request = self.subresource_request(method, name, "exec");
        let request = options.command.iter().fold(request, |request, word| request.parameter("command", word));
        options.attach.parameters(request)
    }

    /// The request to attach to a container's process, for [`Process`](super::Process).
    pub fn attach_request(
        &self,
        name: &str,
        options: &AttachOptions,
    ) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.subresource_request(Method::GET, name, "attach");
        Handshake::web_socket(options.parameters(request), PROTOCOLS)
    }

    /// Like [`attach_request`](Self::attach_request), for
    /// [`Process::over_spdy`](super::Process::over_spdy).
    pub fn attach_spdy_request(
        &self,
        name: &str,
        options: &AttachOptions,
    ) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.subresource_request(Method::POST, name, "attach");
        Handshake::spdy(options.parameters(request), SPDY_PROTOCOLS)
    }
}
