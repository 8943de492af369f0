//! Real etcd processes for tests.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a cluster may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// PEM files with which the members serve their clients.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// The certificate authority of clients.
    pub authority: PathBuf,
    /// The serving certificate, for 127.0.0.1.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// An etcd of one or several members, in a temporary directory. It ends when it is dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdMember>,
    directory: PathBuf,
}

#[derive(Debug)]
struct EtcdMember {
    arguments: Vec<String>,
    client_port: u16,
    has_tls: bool,
    process: Option<Child>,
    log: PathBuf,
}

impl EtcdCluster {
    /// Starts `members` processes. `None`, with a loud message, if `etcd` is not installed.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start(members: usize) -> Option<Self> {
        EtcdCluster::start_with(members, None)
    }

    /// Like [`start`](Self::start), with TLS and client certificates.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start_with(members: usize, tls: Option<&EtcdTls>) -> Option<Self> {
        let program = std::env::var("KUBEWRIGHT_ETCD").unwrap_or_else(|_| "etcd".to_owned());
        let known = Command::new(&program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if known.is_err() {
            let notice = "SKIPPED: etcd is not installed (Debian: apt-get install etcd-server)";
            // Not captured by the test harness, unlike the macros.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{notice}\n").as_bytes());
            return None;
        }
        static CLUSTERS: AtomicUsize = AtomicUsize::new(0);
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        // In memory, if there is such a file system: a killed process loses nothing there either.
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let directory = parent.join(format!("kubewright-etcd-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let ports = free_ports(members * 2);
        let (client_ports, peer_ports) = ports.split_at(members);
        let peers: Vec<_> =
            peer_ports.iter().enumerate().map(|(index, port)| format!("m{index}=http://127.0.0.1:{port}")).collect();
        let member = |index: usize| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let client = format!("{scheme}://127.0.0.1:{}", client_ports[index]);
            let peer = format!("http://127.0.0.1:{}", peer_ports[index]);
            let home = directory.join(format!("m{index}")).display().to_string();
            let mut arguments: Vec<String> = [
                ("--name", format!("m{index}")),
                ("--data-dir", home),
                ("--listen-client-urls", client.clone()),
                ("--advertise-client-urls", client),
                ("--listen-peer-urls", peer.clone()),
                ("--initial-advertise-peer-urls", peer),
                ("--initial-cluster", peers.join(",")),
                ("--initial-cluster-token", format!("kubewright-{number}")),
                ("--logger", "zap".to_owned()),
                ("--log-level", "error".to_owned()),
            ]
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value])
            .collect();
            if let Some(tls) = tls {
                arguments.push("--client-cert-auth".to_owned());
                for (flag, file) in
                    [("--trusted-ca-file", &tls.authority), ("--cert-file", &tls.certificate), ("--key-file", &tls.key)]
                {
                    arguments.extend([flag.to_owned(), file.display().to_string()]);
                }
            }
            arguments.insert(0, program.clone());
            let log = directory.join(format!("m{index}.log"));
            EtcdMember { arguments, client_port: client_ports[index], has_tls: tls.is_some(), process: None, log }
        };
        let mut cluster = EtcdCluster { members: (0..members).map(member).collect(), directory: directory.clone() };
        cluster.members.iter_mut().for_each(EtcdMember::spawn);
        for member in &cluster.members {
            member.wait();
        }
        Some(cluster)
    }

    /// The client URLs of the members.
    pub fn endpoints(&self) -> Vec<String> {
        let url = |member: &EtcdMember| {
            format!("{}://127.0.0.1:{}", if member.has_tls { "https" } else { "http" }, member.client_port)
        };
        self.members.iter().map(url).collect()
    }

    /// Kills a member, as a crash does.
    pub fn kill(&mut self, member: usize) {
        self.members[member].end();
    }

    /// Starts a killed member again, with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self, member: usize) {
        let member = &mut self.members[member];
        member.end();
        member.spawn();
        member.wait();
    }

    /// Stops a member from running, without closing its connections.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn pause(&self, member: usize) {
        self.signal(member, "STOP");
    }

    /// Lets a paused member run again.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn resume(&self, member: usize) {
        self.signal(member, "CONT");
    }

    fn signal(&self, member: usize, signal: &str) {
        let Some(process) = self.process_id(member) else { return };
        let command = format!("kill -{signal} {process}");
        let sent = Command::new("sh").args(["-c", &command]).status().expect("there is a shell");
        assert!(sent.success(), "{command} failed");
    }

    /// The process identifier of a running member, for signals.
    fn process_id(&self, member: usize) -> Option<u32> {
        self.members[member].process.as_ref().map(Child::id)
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(EtcdMember::end);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl EtcdMember {
    fn spawn(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("the log can be written");
        let errors = log.try_clone().expect("the log is open");
        let mut command = Command::new(&self.arguments[0]);
        command.args(&self.arguments[1..]).stdin(Stdio::null()).stdout(log).stderr(errors);
        self.process = Some(command.spawn().expect("etcd starts"));
    }

    /// Waits until the member listens, and without TLS until it is healthy.
    fn wait(&self) {
        let started = Instant::now();
        while !self.is_healthy() {
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(started.elapsed() < START_TIMEOUT, "etcd does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_healthy(&self) -> bool {
        use std::io::{Read, Write};
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.client_port)) else { return false };
        if self.has_tls {
            return true;
        }
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /health HTTP/1.0\r\n\r\n");
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains(r#""health":"true""#)
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Ports that were free a moment ago.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback has free ports")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}
