//! `get`, `watch`, `api-resources`, `api-versions` and `proxy` against `apiserver`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A process of the command that serves; killed when it is dropped.
struct Serving {
    process: Child,
    line: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().expect("the command was built");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it serves");
        Serving { process, line }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn kubewright(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig).output().expect("the command was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_cluster_is_asked_what_it_has_and_what_it_serves() {
    let kubeconfig: PathBuf = std::env::temp_dir().join(format!("kubewright-asking-{}", std::process::id()));
    let path = kubeconfig.to_str().expect("a plain path");
    let _server = Serving::start(&["apiserver", "--listen", "127.0.0.1:0", "--write-kubeconfig", path]);
    let said = |arguments: &[&str]| text(&kubewright(&kubeconfig, arguments).stdout);

    let services = said(&["get", "svc", "-A"]);
    let lines: Vec<&str> = services.lines().collect();
    assert!(lines[0].starts_with("NAMESPACE   NAME         TYPE"), "{services}");
    assert!(lines[1].starts_with("default     kubernetes   ClusterIP   10.96.0.1"), "{services}");
    assert!(said(&["get", "service", "kubernetes", "-o", "yaml"]).starts_with("apiVersion: v1\nkind: Service\n"));
    assert!(said(&["get", "namespaces", "default", "-o", "json"]).contains("\"name\":\"default\""));
    assert_eq!(said(&["get", "pods"]), "No resources found in default namespace.\n");
    assert!(said(&["api-versions"]).contains("\napps/v1\n"));
    assert!(said(&["api-resources"]).contains("deployments                         deploy       apps/v1"));

    let unknown = kubewright(&kubeconfig, &["get", "unicorns"]);
    assert_eq!(text(&unknown.stderr), "error: the server doesn't have a resource type \"unicorns\"\n");
    assert_eq!(unknown.status.code(), Some(1));

    let proxy = Serving::start(&["proxy", "--port", "0", "--kubeconfig", path]);
    let address = proxy.line.trim().strip_prefix("Starting to serve on ").expect("it serves").to_owned();
    let ask = |host: &str| {
        let mut stream = TcpStream::connect(&address).expect("it serves");
        write!(stream, "GET /version HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    assert!(ask("localhost").contains("gitVersion"));
    assert!(ask("pages.example.com").starts_with("HTTP/1.1 403"));
    let _ = std::fs::remove_file(&kubeconfig);
}
