//! A canned Kubernetes API for pods, served from memory at full speed, so that the client is the
//! bottleneck.
//!
//! It serves plain HTTP/1.1 with one thread per connection and large `write` calls. `../README.md`
//! describes its API.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

use replay::data::{Data, Fmt, build};
use replay::server::Server;

fn main() {
    let (mut pods, mut events, mut port, mut formats) = (10_000, 100_000, 0u16, "json".to_string());
    let (mut streamed, mut diverse) = (true, false);
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{name} needs a value"));
        match name.as_str() {
            "--pods" => pods = value.parse().expect("a number"),
            "--events" => events = value.parse().expect("a number"),
            "--port" => port = value.parse().expect("a port"),
            "--formats" => formats = value,
            "--streamed" => streamed = value == "true",
            "--diverse" => diverse = value == "true",
            _ => panic!(
                "unknown flag {name}; flags: --pods N --events M --port P --formats json,pb,meta --streamed true|false --diverse true|false"
            ),
        }
    }
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get() as u64);
    let get = |name: &str, f| {
        if formats.split(',').any(|format| format == name) {
            build(f, pods, events, streamed, diverse, threads)
        } else {
            Data::default()
        }
    };
    let (json, pb, meta) = (get("json", Fmt::Json), get("pb", Fmt::Pb), get("meta", Fmt::Meta));
    let server = Arc::new(Server::new(pods, events, json, pb, meta));
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    // BBR, where it is the system's default, does not suit loopback (loss probes, waits for delayed
    // ACKs).
    let fd = std::os::fd::AsRawFd::as_raw_fd(&listener);
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, c"cubic".as_ptr().cast(), 5) };
    let port = listener.local_addr().expect("it is bound").port();
    print!("ready http://127.0.0.1:{port} {}", server.stats());
    std::io::stdout().flush().expect("somebody reads");
    for connection in listener.incoming().flatten() {
        let server = server.clone();
        std::thread::spawn(move || {
            let _ = server.serve(connection);
        });
    }
}
