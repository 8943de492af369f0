//! Which process is wanted, and what of it.

use http::Method;
use kubewright_api::core::v1::Pod;
use kubewright_core::Str;

use super::Handshake;
use crate::api::Api;
use crate::error::Result;
use crate::rest::Request;

/// What the channels of a process are spoken in.
const PROTOCOLS: &[&str] = &["v5.channel.k8s.io"];
/// What they are spoken in over SPDY, the newest first.
pub(super) const SPDY_PROTOCOLS: &[&str] =
    &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// What of a process is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "PodAttachOptions")]
pub struct AttachOptions {
    /// In which container. Absent by default: the only one.
    pub container: Option<Str>,
    /// Whether it reads from us. Off by default.
    pub stdin: bool,
    /// Whether we read what it writes. On by default.
    pub stdout: bool,
    /// Whether we read what it complains of. On by default; never with a terminal, which has one output.
    pub stderr: bool,
    /// Whether it has a terminal. Off by default.
    pub tty: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        AttachOptions { container: None, stdin: false, stdout: true, stderr: true, tty: false }
    }
}

impl AttachOptions {
    /// In this container.
    #[must_use]
    pub fn container(mut self, name: impl Into<Str>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Lets it read from us.
    #[must_use]
    pub fn stdin(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// Gives it a terminal, which has no output for complaints of its own.
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

/// A process that is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "PodExecOptions")]
pub struct ExecOptions {
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// What of it is connected.
    pub attach: AttachOptions,
}

impl ExecOptions {
    /// This program with these arguments, of which we read both outputs.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        ExecOptions { command: command.into_iter().map(Into::into).collect(), attach: AttachOptions::default() }
    }

    /// What of it is connected.
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
    /// The request that starts a process in a container, for [`Process`](super::Process) to speak with.
    #[doc(alias = "NewWebSocketExecutor")]
    pub fn exec_request(&self, name: &str, options: &ExecOptions) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        Handshake::web_socket(self.wanted_process(Method::GET, name, options), PROTOCOLS)
    }

    /// As [`exec_request`](Self::exec_request), for [`Process::over_spdy`](super::Process::over_spdy).
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

    /// The request that connects to the process a container runs, for [`Process`](super::Process) to speak with.
    pub fn attach_request(
        &self,
        name: &str,
        options: &AttachOptions,
    ) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.subresource_request(Method::GET, name, "attach");
        Handshake::web_socket(options.parameters(request), PROTOCOLS)
    }

    /// As [`attach_request`](Self::attach_request), for [`Process::over_spdy`](super::Process::over_spdy).
    pub fn attach_spdy_request(
        &self,
        name: &str,
        options: &AttachOptions,
    ) -> Result<(http::Request<bytes::Bytes>, Handshake)> {
        let request = self.subresource_request(Method::POST, name, "attach");
        Handshake::spdy(options.parameters(request), SPDY_PROTOCOLS)
    }
}
