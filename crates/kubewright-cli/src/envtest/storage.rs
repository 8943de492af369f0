//! Where `kube-apiserver` stores its objects: in memory, or in a real etcd.

use std::error::Error;
use std::time::Duration;

use kubewright_apiserver::ApiServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::etcd::PLACEHOLDER;
use super::flags::Flags;

/// Flags that have an effect only with a real etcd.
const FLAGS: [&str; 6] = [
    "encryption-provider-config",
    "etcd-cafile",
    "etcd-certfile",
    "etcd-compaction-interval",
    "etcd-keyfile",
    "etcd-prefix",
];

/// How long a server may take to say whether it is a placeholder.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Stores objects in the etcd of `--etcd-servers`, unless that is the placeholder of this command.
pub(super) async fn apply(server: ApiServer, flags: &Flags) -> Result<ApiServer, Box<dyn Error>> {
    let servers = flags.list("etcd-servers");
    let is_in_memory = match servers.first() {
        Some(first) => is_placeholder(first).await,
        None => true,
    };
    if is_in_memory {
        let given: Vec<String> = FLAGS.iter().filter(|name| flags.has(name)).map(|name| format!("--{name}")).collect();
        if !given.is_empty() {
            tracing::info!(flags = given.join(" "), "objects are in memory: these flags have no effect");
        }
        return Ok(server);
    }
    in_etcd(server, flags)
}

/// Whether a server is the program `etcd` of this command.
async fn is_placeholder(url: &str) -> bool {
    let Some(address) = url.strip_prefix("http://") else { return false };
    let asked = timeout(TIMEOUT, async {
        let mut stream = TcpStream::connect(address.trim_end_matches('/')).await?;
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    });
    asked.await.is_ok_and(|answer| answer.is_ok_and(|answer| answer.contains(PLACEHOLDER)))
}

#[cfg(feature = "etcd")]
fn in_etcd(server: ApiServer, flags: &Flags) -> Result<ApiServer, Box<dyn Error>> {
    use crate::apiserver::parse_span;
    use crate::etcd::EtcdArguments;

    let endpoint = |url: &String| url.parse().map_err(|error| format!("--etcd-servers: {error}"));
    let arguments = EtcdArguments {
        etcd_servers: flags.list("etcd-servers").iter().map(endpoint).collect::<Result<_, _>>()?,
        etcd_cafile: flags.value("etcd-cafile").map(Into::into),
        etcd_certfile: flags.value("etcd-certfile").map(Into::into),
        etcd_keyfile: flags.value("etcd-keyfile").map(Into::into),
        etcd_prefix: flags.value("etcd-prefix").unwrap_or("/registry").to_owned(),
        etcd_compaction_interval: flags
            .parsed("etcd-compaction-interval", parse_span)?
            .unwrap_or(Duration::from_secs(300)),
        encryption_provider_config: flags.value("encryption-provider-config").map(Into::into),
    };
    arguments.apply(server)
}

#[cfg(not(feature = "etcd"))]
fn in_etcd(_: ApiServer, _: &Flags) -> Result<ApiServer, Box<dyn Error>> {
    Err("this program was built without the feature `etcd`, and --etcd-servers names a real etcd".into())
}
