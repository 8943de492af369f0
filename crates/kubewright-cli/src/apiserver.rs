//! `kubewright apiserver`, and the server of `kubewright up`.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kubewright_apiserver::{AdmissionPlugin, ApiServer, RunningServer, ServiceAddresses, StaticTokens};

use crate::files::raise_limit;
use crate::log::Verbosity;
use crate::private_file::PrivateFile;
use crate::signals::TerminationSignals;

/// Options of both commands.
#[derive(Debug, Args)]
#[group(skip)]
pub struct ServerOptions {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Serves without TLS, on loopback addresses only.
    ///
    /// Without --token-auth-file every local program has full access.
    #[arg(long)]
    http: bool,
    /// Allows --http on addresses that other machines can reach.
    ///
    /// Every client there then has full access, or can read the tokens of others.
    #[arg(long, requires = "http")]
    http_exposes_all_rights: bool,
    /// Additional DNS name or IP address for the server certificate. May be repeated.
    #[arg(long, value_name = "NAME")]
    tls_san: Vec<String>,
    #[command(flatten)]
    pub verbosity: Verbosity,
    /// Stores objects in this directory; without it, in memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keeps the certificate authority and the keys of tokens in this directory, which servers over
    /// the same etcd share. Missing files are created. By default they are in --data, or in memory.
    #[arg(long, value_name = "DIR")]
    pki: Option<PathBuf>,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: crate::etcd::EtcdArguments,
    /// Answers writes before they are in the data file. A crash loses the newest ones.
    #[arg(long, requires = "data")]
    unsafe_fast: bool,
    /// Lets administrators inject faults with requests to /kubewright/faults.
    #[arg(long)]
    allow_faults: bool,
    /// Creates a service account in each namespace, and mounts tokens into pods.
    #[arg(long)]
    service_accounts: bool,
    /// Admission plugins to turn on, separated by commas. All but NodeRestriction and
    /// ServiceAccount are on by default.
    #[arg(long, value_name = "PLUGIN,...", value_delimiter = ',')]
    enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Admission plugins to turn off, separated by commas.
    #[arg(long, value_name = "PLUGIN,...", value_delimiter = ',')]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// The network of Service addresses.
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/16")]
    service_cluster_ip_range: ServiceAddresses,
    /// How long events are kept after their last write, such as 30m; 0 means forever.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_span)]
    event_ttl: Duration,
    /// Writes an administrator kubeconfig, readable only by its owner.
    #[arg(long, value_name = "FILE")]
    pub write_kubeconfig: Option<PathBuf>,
    /// Accepts the tokens of a CSV file: token,user,uid,"group,group".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
}

/// Runs the API server until a termination signal.
pub async fn run(options: ServerOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = TerminationSignals::new()?;
    options.verbosity.start();
    let server = start(&options).await?;
    announce(&options, &server)?;
    signals.wait().await;
    server.stop().await;
    Ok(())
}

/// Starts the server.
pub async fn start(options: &ServerOptions) -> Result<RunningServer, Box<dyn Error>> {
    raise_limit();
    if options.http && options.token_auth_file.is_some() && options.write_kubeconfig.is_some() {
        let why =
            "with --http and --token-auth-file no kubeconfig can be written: clients send no credentials without TLS";
        return Err(why.into());
    }
    let mut server = ApiServer::in_memory()
        .listen(options.listen)
        .event_ttl(options.event_ttl)
        .service_addresses(options.service_cluster_ip_range);
    if let Some(directory) = &options.data {
        server = server.data(directory);
    }
    if let Some(directory) = &options.pki {
        server = server.pki_directory(directory);
    }
    #[cfg(feature = "etcd")]
    {
        server = options.etcd.apply(server)?;
    }
    if options.unsafe_fast {
        server = server.unsafe_fast();
    }
    if options.allow_faults {
        server = server.fault_endpoint();
    }
    if options.service_accounts {
        server = server.service_accounts();
    }
    for plugin in &options.enable_admission_plugins {
        server = server.enable_admission_plugin(*plugin);
    }
    for plugin in &options.disable_admission_plugins {
        server = server.disable_admission_plugin(*plugin);
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
        server = server.tokens(StaticTokens::from_file(path).map_err(|error| about(path, &error))?);
    }
    Ok(server.start().await?)
}

/// Writes the kubeconfig, and prints that the server is ready.
pub fn announce(options: &ServerOptions, server: &RunningServer) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &options.write_kubeconfig {
        let unwritten = |error| format!("cannot write the kubeconfig {}", about(path, &error));
        write_private(path, &server.kubeconfig()).map_err(unwritten)?;
    }
    Ok(crate::output::print(format!("ready {}\n", server.url().unwrap_or_default()))?)
}

/// Parses a Go duration, as Kubernetes flags use.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let span: kubewright_core::Duration = text.parse().map_err(|error| format!("{error}"))?;
    span.try_into().map_err(|error| format!("{error}"))
}

/// Replaces a file with one that only its owner can read.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = PrivateFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.publish()
}

/// An error with its file.
pub fn about(path: &Path, error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{}: {error}{cause}", path.display())
}
