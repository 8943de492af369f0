//! A killed server keeps all acknowledged writes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of kills; `KUBEWRIGHT_KILLS=100` for a thorough run.
fn rounds() -> u32 {
    std::env::var("KUBEWRIGHT_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8)
}

struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        Server::start_as(&mut Command::new(env!("CARGO_BIN_EXE_kubewright")), data)
    }

    /// Limits the size of files to this many blocks, to simulate a full disk.
    fn start_with_room(blocks: u32, data: &Path) -> Self {
        let limited = format!(r#"trap "" XFSZ; ulimit -S -f {blocks}; exec "$0" "$@""#);
        Server::start_as(Command::new("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_kubewright")]), data)
    }

    fn start_as(command: &mut Command, data: &Path) -> Self {
        let mut process = command
            .args(["apiserver", "--http", "--quiet", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stderr(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command was built");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("it says when it is ready");
        let address = line.trim().strip_prefix("ready http://").expect("it is ready").to_owned();
        Server { process, address }
    }

    /// SIGKILL, which cannot be handled.
    fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

/// One request on its own connection; `None` if the server went away.
fn call(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let code = answer.split(' ').nth(1)?.parse().ok()?;
    // A truncated response does not count.
    answer.trim_end().ends_with(['}', '0']).then_some((code, answer))
}

fn version_of(answer: &str) -> Option<u64> {
    answer.split_once(r#""resourceVersion":""#)?.1.split_once('"')?.0.parse().ok()
}

#[test]
fn no_acknowledged_write_is_lost_and_no_revision_is_reused() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let data = std::env::temp_dir().join(format!("kubewright-killed-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&data);
    let mut answered: BTreeMap<String, u64> = BTreeMap::new();
    let mut highest = 0;
    for round in 0..rounds() {
        let server = Server::start(&data);
        for (name, version) in &answered {
            let (code, answer) = call(&server.address, "GET", &format!("{MAPS}/{name}"), "").expect("it runs");
            assert_eq!((code, version_of(&answer)), (200, Some(*version)), "{name} was answered for");
        }
        let (over, address) = (AtomicBool::new(false), server.address.clone());
        let written: Vec<(String, u64)> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (over, address) = (&over, &address);
                    scope.spawn(move || {
                        let mut written = Vec::new();
                        for number in 0.. {
                            let name = format!("map-{round}-{writer}-{number}");
                            let body =
                                format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
                            let Some((201, answer)) = call(address, "POST", MAPS, &body) else { break };
                            written.push((name, version_of(&answer).expect("an object has a version")));
                            if over.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                        written
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(20 + u64::from(round * 37 % 160)));
            server.kill();
            over.store(true, Ordering::Relaxed);
            writers.into_iter().flat_map(|writer| writer.join().expect("writers don't panic")).collect()
        });
        for (name, version) in written {
            assert!(version > highest, "revision {version} was used before the last kill");
            answered.insert(name, version);
        }
        highest = answered.values().copied().max().unwrap_or(highest);
    }
    assert!(!answered.is_empty(), "nothing was written");
    let _ = std::fs::remove_dir_all(&data);
}

#[test]
fn a_full_disk_fails_writes_and_the_health_check() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let data = std::env::temp_dir().join(format!("kubewright-full-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&data);
    let server = Server::start_with_room(8192, &data);
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(&server.address).expect("it runs");
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    assert!(ask("/readyz").starts_with("HTTP/1.1 200"));
    let text = "x".repeat(200_000);
    let create = |number: u32| {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"map-{number}"}},"data":{{"a":"{text}"}}}}"#
        );
        call(&server.address, "POST", MAPS, &body).expect("it runs")
    };
    // At most eight MiB for any block size.
    let (number, (code, answer)) = (0..100)
        .map(|number| (number, create(number)))
        .find(|(_, (code, _))| *code != 201)
        .expect("there is not so much room");
    assert_eq!(code, 500, "{answer}");
    assert!(number > 0 && answer.contains("objects cannot be written: "), "{answer}");
    assert!(create(100).1.contains("objects cannot be written: "));
    for page in ["/readyz", "/healthz", "/healthz/storage"] {
        let health = ask(page);
        let is_told =
            health.starts_with("HTTP/1.1 500") && health.contains("[-]storage failed: objects cannot be written: ");
        assert!(is_told, "{page}: {health}");
    }
    for page in ["/readyz/ping", "/livez"] {
        assert!(ask(page).starts_with("HTTP/1.1 200"), "{page}");
    }
    server.kill();

    // With free space again, all acknowledged writes exist.
    let server = Server::start(&data);
    for number in 0..number {
        let (code, _) = call(&server.address, "GET", &format!("{MAPS}/map-{number}"), "").expect("it runs");
        assert_eq!(code, 200, "map-{number}");
    }
    server.kill();
    let _ = std::fs::remove_dir_all(&data);
}
