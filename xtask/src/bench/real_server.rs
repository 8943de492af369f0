//! A real kube-apiserver with etcd from `KUBEBUILDER_ASSETS`, the contestant of the embedded
//! server.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{Background, write_kubeconfig};
use super::programs::succeed;

/// The maximum size of the database, in bytes: a million objects and the log.
const QUOTA: &str = "8589934592";

/// An etcd of its own, killed on drop.
pub struct Etcd {
    pub process: Background,
    /// Its URL for clients.
    pub url: String,
}

impl Etcd {
    /// Starts etcd in a folder, without fsync as test environments do. It is not ready yet.
    pub fn start(program: &Path, folder: &Path) -> Result<Etcd, String> {
        let [client, peer] = [free_port()?, free_port()?];
        let (url, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut etcd = Command::new(program);
        etcd.arg("--data-dir").arg(folder.join("etcd")).args(["--quota-backend-bytes", QUOTA]);
        // Older versions lack it.
        if help_of(program)?.contains("unsafe-no-fsync") {
            etcd.arg("--unsafe-no-fsync");
        }
        etcd.args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--listen-peer-urls", &peer]);
        etcd.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")]);
        Ok(Etcd { process: Background::start(&mut etcd)?, url })
    }

    /// Waits until it listens.
    pub fn wait(&self) -> Result<(), String> {
        let address = self.url.trim_start_matches("http://");
        for _ in 0..600 {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("etcd does not listen on {address}"))
    }
}

fn help_of(program: &Path) -> Result<String, String> {
    let output =
        Command::new(program).arg("--help").output().map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Both processes, killed on drop.
pub struct RealServer {
    pub etcd: Etcd,
    pub apiserver: Background,
    pub kubeconfig: PathBuf,
}

impl RealServer {
    /// Starts both in an empty folder, without fsync as test environments do. They are not ready
    /// yet.
    pub fn start(assets: &Path, folder: &Path) -> Result<RealServer, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let secure = free_port()?;
        let key = folder.join("sa.key");
        succeed(Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").stderr(Stdio::null()))?;
        let tokens = folder.join("tokens.csv");
        fs::write(&tokens, "bench,bench,bench,system:masters\n").map_err(|error| error.to_string())?;
        let etcd = Etcd::start(&assets.join("etcd"), folder)?;
        let mut apiserver = Command::new(assets.join("kube-apiserver"));
        apiserver.arg(format!("--etcd-servers={}", etcd.url)).arg(format!("--secure-port={secure}"));
        apiserver.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        ]);
        apiserver
            .arg(format!("--cert-dir={}", folder.display()))
            .arg(format!("--token-auth-file={}", tokens.display()));
        apiserver.args([
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        apiserver.arg(format!("--service-account-key-file={}", key.display()));
        apiserver.arg(format!("--service-account-signing-key-file={}", key.display()));
        apiserver.args(["--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"]);
        let apiserver = Background::start(&mut apiserver)?;
        let kubeconfig = folder.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &format!("https://127.0.0.1:{secure}"), "bench")?;
        Ok(RealServer { etcd, apiserver, kubeconfig })
    }

    /// CPU seconds of both processes.
    pub fn cpu_seconds(&self) -> f64 {
        self.etcd.process.cpu_seconds() + self.apiserver.cpu_seconds()
    }

    /// Memory of both processes in MiB.
    pub fn resident_mib(&self) -> f64 {
        self.etcd.process.resident_mib() + self.apiserver.resident_mib()
    }
}

fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| error.to_string())
}
