//! `kubewright apiserver`, and the server of `kubewright up`.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kubewright_apiserver::{ApiServer, RunningServer, Tokens};

use crate::files::raise_limit;
use crate::log::Verbosity;
use crate::signals::Signals;

/// What both commands take.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Serves without TLS, on a loopback address only.
    ///
    /// Without --token-auth-file every program on this machine has all rights.
    #[arg(long)]
    http: bool,
    /// Lets --http listen on addresses that other machines reach.
    ///
    /// Every client there then has all rights, or can read the tokens of others.
    #[arg(long, requires = "http")]
    http_exposes_all_rights: bool,
    /// One more DNS name or address of the server, for its certificate. May be repeated.
    #[arg(long, value_name = "NAME")]
    tls_san: Vec<String>,
    #[command(flatten)]
    pub verbosity: Verbosity,
    /// Keeps objects in this directory; without it, in memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Lets the administrator inject faults by requests to /kubewright/faults.
    #[arg(long)]
    allow_faults: bool,
    /// Gives each namespace a service account, and each pod one with a token in its containers.
    #[arg(long)]
    service_accounts: bool,
    /// How long an event is kept after it was last written, such as 30m; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_span)]
    event_ttl: Duration,
    /// Writes a kubeconfig for the administrator, readable by its owner only.
    #[arg(long, value_name = "FILE")]
    pub write_kubeconfig: Option<PathBuf>,
    /// Accepts the tokens of a CSV file: token,user,uid,"group,group".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
}

/// Runs the API server until it is told to stop.
pub async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    options.verbosity.start();
    let server = start(&options).await?;
    announce(&options, &server)?;
    signals.wait().await;
    server.stop().await;
    Ok(())
}

/// Starts the server.
pub async fn start(options: &Options) -> Result<RunningServer, Box<dyn Error>> {
    raise_limit();
    if options.http && options.token_auth_file.is_some() && options.write_kubeconfig.is_some() {
        let why =
            "with --http and --token-auth-file no kubeconfig can be written: clients send no credentials without TLS";
        return Err(why.into());
    }
    let mut server = ApiServer::in_memory().listen(options.listen).event_ttl(options.event_ttl);
    if let Some(directory) = &options.data {
        server = server.data(directory);
    }
    if options.allow_faults {
        server = server.fault_endpoint();
    }
    if options.service_accounts {
        server = server.service_accounts();
    }
    for name in &options.tls_san {
        server = server.tls_name(name);
    }
    if options.http {
        server = server.plain_http();
    }
    if options.http_exposes_all_rights {
        server = server.plain_http_beyond_loopback();
    }
    if let Some(path) = &options.token_auth_file {
        server = server.tokens(Tokens::from_file(path).map_err(|error| about(path, &error))?);
    }
    Ok(server.start().await?)
}

/// Writes the kubeconfig, and says that the server is ready.
pub fn announce(options: &Options, server: &RunningServer) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &options.write_kubeconfig {
        let unwritten = |error| format!("cannot write the kubeconfig {}", about(path, &error));
        write_private(path, &server.kubeconfig()).map_err(unwritten)?;
    }
    Ok(crate::output::print(format!("ready {}\n", server.url().unwrap_or_default()))?)
}

/// A length of time in the notation of Go, which flags of Kubernetes have.
fn parse_span(text: &str) -> Result<Duration, String> {
    let span: kubewright_core::Duration = text.parse().map_err(|error| format!("{error}"))?;
    span.try_into().map_err(|error| format!("{error}"))
}

/// Replaces a file with one that only its owner can read.
///
/// Refuses symbolic links and devices: somebody else may have laid the link to get hold of the
/// private key.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(std::io::Error::other("it exists and is no regular file; remove it, or choose another path"));
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// An error with the file it is about.
fn about(path: &Path, error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{}: {error}{cause}", path.display())
}
