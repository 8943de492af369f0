//! Shared by all examples: command-line arguments, the connection, and pauses between steps.

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use clap::Parser;
use kubewright::apiserver::{ApiServer, RunningServer};
use kubewright::client::config::{LoadingRules, Overrides};
use kubewright::{Client, Config};

/// The result of an example.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The server to use: that of the kubeconfig, or an embedded one.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// The kubeconfig; by default the one that kubectl uses.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Uses an API server in this process instead of a cluster.
    #[arg(long)]
    embedded: bool,
    /// Ends after this many rounds instead of running forever.
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
}

/// A client, and its server if that is embedded.
#[derive(Debug)]
pub struct Connection {
    /// The client.
    pub client: Client,
    server: Option<RunningServer>,
}

impl Arguments {
    /// Connects according to the arguments.
    pub async fn connect(&self) -> Result<Connection, Box<dyn Error>> {
        if self.embedded {
            let server = ApiServer::in_memory().preload(PODS).start().await?;
            return Ok(Connection { client: server.client(), server: Some(server) });
        }
        let config = match &self.kubeconfig {
            Some(file) => Config::from_kubeconfig(&LoadingRules::explicit(file).load()?, &Overrides::default())?,
            None => Config::infer()?,
        };
        Ok(Connection { client: Client::try_from(config)?, server: None })
    }
}

impl Connection {
    /// Whether the server is embedded, so that it has no other clients.
    pub fn is_embedded(&self) -> bool {
        self.server.is_some()
    }
}

/// Waits for the return key, like client-go's examples; continues immediately without a terminal.
pub fn prompt() -> std::io::Result<()> {
    print!("-> Press Return key to continue.");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    println!();
    Ok(())
}

/// Initial objects of the embedded server.
const PODS: &str = "
{apiVersion: v1, kind: Node, metadata: {name: node-1}}
---
apiVersion: v1
kind: Pod
metadata: {name: example-xxxxx, namespace: default, labels: {app: web}}
spec: {nodeName: node-1, containers: [{name: web, image: 'nginx:1.27'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: dns, namespace: kube-system}
spec: {nodeName: node-1, containers: [{name: dns, image: 'coredns:1.12'}]}
";
