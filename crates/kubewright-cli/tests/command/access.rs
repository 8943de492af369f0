//! Access control over the network, and permissions of files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::process::{Cluster, Scratch, Serving};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubewright")).args(arguments).output().expect("the command was built")
}

/// Sends a request over plain HTTP, and returns the status code of the response.
fn status(address: &str, request: &str) -> u16 {
    let mut connection = TcpStream::connect(address).expect("it listens");
    // A server that refuses a large body may close the connection before all of it is written.
    let _ = connection.write_all(request.as_bytes());
    let mut response = Vec::new();
    let _ = connection.read_to_end(&mut response);
    let response = String::from_utf8_lossy(&response);
    let code = response.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no response: {response:?}"))
}

fn get(address: &str, path: &str, headers: &str) -> u16 {
    status(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"))
}

#[test]
fn plain_http_is_refused_where_other_machines_reach_it() {
    let refused = run(&["apiserver", "--http", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("refusing to serve 0.0.0.0:0 without TLS"), "{said}");
    let refused = run(&["apiserver", "--http-exposes-all-rights", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2), "the flag means nothing without --http");
    let risky = ["apiserver", "--http", "--http-exposes-all-rights", "--listen", "0.0.0.0:0"];
    let server = Serving::start(&risky);
    assert!(server.line.starts_with("ready http://127.0.0.1:"), "{}", server.line);
    server.until_it_says("every client of this address has full access");
}

#[test]
fn static_tokens_work_over_plain_http_and_the_log_describes_access() {
    let tokens = Scratch::new("tokens");
    std::fs::write(&tokens.0, "reader-token,reader,1,\nadmin-token,admin,2,\"system:masters\"\n")
        .expect("a temporary file");
    let with_tokens = ["apiserver", "--http", "--listen", "127.0.0.1:0", "--token-auth-file", tokens.path()];
    let server = Serving::start(&with_tokens);
    let lines = server.until_it_says("no TLS: tokens travel unencrypted");
    assert!(lines.last().is_some_and(|line| line.contains("requests without one are anonymous")), "{lines:?}");
    let address = server.line.trim().trim_start_matches("ready http://").to_owned();
    assert_eq!(get(&address, "/api/v1/secrets", ""), 403, "an anonymous caller");
    assert_eq!(
        get(&address, "/api/v1/secrets", "Authorization: Bearer reader-token\r\n"),
        403,
        "a user without rights"
    );
    assert_eq!(get(&address, "/api/v1/secrets", "Authorization: Bearer admin-token\r\n"), 200);
    assert_eq!(get(&address, "/api/v1/secrets", "Authorization: Bearer wrong\r\n"), 401);
    // Clients send no credentials without TLS, so a kubeconfig for the administrator would not
    // work.
    let refused = run(&[&with_tokens[..], &["--write-kubeconfig", "unused"]].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");

    let open = Serving::start(&["apiserver", "--http", "--listen", "127.0.0.1:0"]);
    open.until_it_says("every client of this address has full access");
}

#[test]
fn server_files_are_readable_only_by_their_owner() {
    let data = Scratch::new("data");
    let cluster = Cluster::start(&["apiserver", "--data", data.path()]);
    let mut left = vec![data.0.clone()];
    while let Some(path) = left.pop() {
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("ours").map(|entry| entry.expect("ours").path()));
        }
    }
    assert_eq!(std::fs::metadata(&cluster.kubeconfig.0).expect("written").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_kubeconfig_is_not_written_through_a_link() {
    let (link, target) = (Scratch::new("link"), Scratch::new("target"));
    std::fs::write(&target.0, "somebody else's").expect("a temporary file");
    symlink(Path::new(target.path()), &link.0).expect("a temporary file");
    let refused = run(&["apiserver", "--listen", "127.0.0.1:0", "--write-kubeconfig", link.path()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("is no regular file"), "{said}");
    assert_eq!(std::fs::read_to_string(&target.0).expect("it is there"), "somebody else's");
}

#[test]
fn a_proxy_serves_programs_and_not_web_pages() {
    let cluster = Cluster::start(&["apiserver"]);
    let proxy = Serving::start(&["proxy", "--port", "0", "--kubeconfig", cluster.kubeconfig.path()]);
    let address = proxy.line.trim().strip_prefix("Starting to serve on ").expect("it serves").to_owned();
    assert_eq!(get(&address, "/api/v1/pods", ""), 200);
    assert_eq!(get(&address, "/api/v1/pods", "Origin: https://evil.example\r\n"), 403);
    assert_eq!(get(&address, "/api/v1/pods", "Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(get(&address, "/api/v1/namespaces/default/pods/p/%65xec", ""), 403);
    let post = |kind: &str, body: &str| {
        let length = body.len();
        status(
            &address,
            &format!(
                "POST /api/v1/namespaces HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{kind}\
                 Content-Length: {length}\r\n\r\n{body}"
            ),
        )
    };
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"new"}}"#;
    assert_eq!(post("", namespace), 403, "a form of a web page can send this");
    assert_eq!(post("Content-Type: application/json\r\n", namespace), 201);
    let large = "x".repeat((3 << 20) + 1);
    assert_eq!(post("Content-Type: application/json\r\n", &large), 413);
}

#[test]
fn a_server_has_the_names_that_it_is_given_and_old_kubeconfigs_stay_valid() {
    let data = Scratch::new("names");
    let first = Cluster::start(&["apiserver", "--data", data.path()]);
    let before = std::fs::read_to_string(&first.kubeconfig.0).expect("it was written");
    let address = first.serving.line.trim().trim_start_matches("ready ").to_owned();
    drop(first);
    let second = Cluster::start(&["apiserver", "--data", data.path(), "--tls-san", "shop.example"]);
    let now = second.serving.line.trim().trim_start_matches("ready ").to_owned();
    let renamed = format!("{now}\n    tls-server-name: shop.example");
    let kubeconfig = Scratch::new("renamed");
    std::fs::write(&kubeconfig.0, before.replace(&address, &renamed)).expect("a temporary file");
    let listed = run(&["get", "namespaces", "--kubeconfig", kubeconfig.path()]);
    assert!(listed.status.success(), "{listed:?}");
}
