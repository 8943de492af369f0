//! `kubewright apiserver` and `kubewright up`.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_apiserver::{ApiServer, RunningServer, Tokens};
use kubewright_controllers::{ControllerSet, NodeOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What both commands take.
#[derive(Debug, Args)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Serves without TLS; whoever can reach the address is then the administrator.
    #[arg(long)]
    http: bool,
    /// Prints nothing but the line that it is ready.
    #[arg(long)]
    quiet: bool,
    /// Keeps objects in this directory; without it, in memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Lets the administrator inject faults by requests to /kubewright/faults.
    #[arg(long)]
    allow_faults: bool,
    /// Gives each namespace a service account, and each pod one with a token in its containers.
    #[arg(long)]
    service_accounts: bool,
    /// Writes a kubeconfig for the administrator, readable by its owner only.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Accepts the tokens of a CSV file: token,user,uid,"group,group".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
}

/// What `up` takes besides.
#[derive(Debug, Args)]
pub struct UpOptions {
    #[command(flatten)]
    server: Options,
    /// How many simulated nodes run pods; with none, pods stay pending.
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
}

/// Runs the API server until it is told to stop.
pub async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // Signals count from here on, so that an early one is not lost.
    let mut signals = Signals::new()?;
    let server = start(&options).await?;
    announce(&options, &server)?;
    signals.wait().await;
    server.stop().await;
    Ok(())
}

/// Runs all that makes a cluster: the API server, controllers, and nodes.
pub async fn up(options: UpOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let server = start(&options.server).await?;
    let nodes = NodeOptions::default().count(options.nodes);
    let mut controllers = ControllerSet::new(&server.client()).nodes(nodes).start();
    announce(&options.server, &server)?;
    tokio::select! {
        () = signals.wait() => {}
        ended = controllers.ended() => {
            ended?;
            return Err("a controller ended by itself".into());
        }
    }
    // Controllers first: what they have in hand still needs the server.
    let stopped = controllers.stop().await;
    server.stop().await;
    Ok(stopped?)
}

/// The signals that end the command.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn start(options: &Options) -> Result<RunningServer, Box<dyn Error>> {
    let mut server = ApiServer::in_memory().listen(options.listen);
    if let Some(directory) = &options.data {
        server = server.data(directory);
    }
    if options.allow_faults {
        server = server.fault_endpoint();
    }
    if options.service_accounts {
        server = server.service_accounts();
    }
    if options.http {
        server = server.plain_http();
    }
    if let Some(path) = &options.token_auth_file {
        server = server.tokens(Tokens::from_file(path).map_err(|error| about(path, &error))?);
    }
    Ok(server.start().await?)
}

/// Writes the kubeconfig, and says that the server is ready.
fn announce(options: &Options, server: &RunningServer) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &options.write_kubeconfig {
        write_private(path, &server.kubeconfig()).map_err(|error| about(path, &error))?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "ready {}", server.url().unwrap_or_default())?;
    out.flush()?;
    Ok(())
}

/// Writes a file that only its owner can read, even while it is written.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

/// An error with the file it is about.
fn about(path: &Path, error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{}: {error}{cause}", path.display())
}
