//! A server with a low open-file limit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::process::{PATIENCE, Serving};

/// The open-file limit of the server, and the number of clients.
const FILES: usize = 40;
const CLIENTS: usize = 60;

const SERVE: &[&str] = &["apiserver", "--http", "--quiet", "--listen", "127.0.0.1:0"];

#[test]
fn a_server_out_of_file_descriptors_logs_it_and_recovers() {
    let serving = Serving::start_with_limit(&format!("-n {FILES}"), SERVE);
    let address = address(&serving);
    let mut known = TcpStream::connect(address).expect("it listens");
    assert!(is_ready(&mut known));
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let said = serving.until_it_says("cannot accept connections");
    let last = said.last().expect("it was said");
    assert!(last.contains("Too many open files") && last.contains("ulimit -n"), "{last}");
    assert!(is_ready(&mut known), "those who are there are served");

    drop(clients);
    let mut new = TcpStream::connect(address).expect("it listens");
    assert!(is_ready(&mut new), "and those who come, when others have left");
}

#[test]
fn a_limit_that_may_be_raised_is() {
    let serving = Serving::start_with_limit(&format!("-S -n {FILES}"), SERVE);
    let connect = |_| TcpStream::connect(address(&serving)).expect("it listens");
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    assert!(clients.iter_mut().all(is_ready));
}

fn address(serving: &Serving) -> &str {
    serving.line.trim().strip_prefix("ready http://").expect("it is ready")
}

fn is_ready(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a length of time");
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a length of time");
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("it is there");
    let mut answer = [0; 1024];
    let read = stream.read(&mut answer).expect("it answers");
    answer[..read].starts_with(b"HTTP/1.1 200")
}
