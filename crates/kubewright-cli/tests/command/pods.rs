//! Simulated pods, as kubectl sees them: logs, exec, cp, attach, port-forward and proxies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::kubectl::is_there;
use crate::process::{Cluster, Scratch, kubewright, text};

/// One version of kubectl.
struct Kubectl<'a> {
    program: PathBuf,
    cluster: &'a Cluster,
}

impl Kubectl<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig.path()).args(words);
        command
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("it was there before");
        // A command that does not read its input may have ended.
        let _ = process.stdin.take().expect("piped").write_all(input.as_bytes());
        process.wait_with_output().expect("it ends")
    }

    /// Its output on success.
    fn says(&self, words: &[&str]) -> String {
        let output = self.run(words, "");
        let name = self.program.display();
        assert!(output.status.success(), "{name} {words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Its code and error output.
    fn fails(&self, words: &[&str]) -> (i32, String) {
        let output = self.run(words, "");
        (output.status.code().unwrap_or_default(), text(&output.stderr).trim().to_owned())
    }
}

/// The kubectl of the system, and other versions that are installed beside it.
fn versions() -> Vec<PathBuf> {
    let found = Command::new("sh").args(["-c", "readlink -f \"$(command -v kubectl)\""]).output();
    let path = found.map(|output| text(&output.stdout).trim().to_owned()).unwrap_or_default();
    let folder = Path::new(&path).parent().unwrap_or(Path::new("/"));
    let others = ["1.27", "1.30", "1.33"].map(|version| folder.join(format!("kubectl.{version}")));
    let others = others.into_iter().filter(|path| path.exists());
    std::iter::once(PathBuf::from("kubectl")).chain(others).collect()
}

const MANIFEST: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}, annotations: {kubewright.dev/http-response: hello}}
spec:
  containers:
  - {name: main, image: busybox, command: [sh, -c, "echo starting; sleep 1; echo $GREETING; sleep infinity"],
     env: [{name: GREETING, value: hi}], ports: [{containerPort: 8080, name: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, annotations: {log-lines.kubewright.dev/b: "b says"}}
spec: {containers: [{name: a, image: a, command: [sh, -c, "echo a says; exec a"]}, {name: b, image: b}]}
---
apiVersion: v1
kind: Pod
metadata: {name: failing}
spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [sh, -c, "echo lost; exit 3"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: slow, annotations: {kubewright.dev/start-delay: 1h, kubewright.dev/run-time: soon}}
spec: {containers: [{name: main, image: a}]}
"#;

#[test]
fn kubectl_works_on_simulated_pods() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(&["up", "--quiet"]);
    let first = Kubectl { program: "kubectl".into(), cluster: &cluster };
    let applied = first.run(&["apply", "-f", "-"], MANIFEST);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    first.says(&["wait", "--for=condition=Ready", "pod/web", "pod/two", "--timeout=120s"]);
    first.says(&["wait", "--for=jsonpath={.status.phase}=Failed", "pod/failing", "--timeout=120s"]);
    assert_eq!(first.says(&["get", "pod", "failing", "-o", "jsonpath={..exitCode}"]), "3");
    own_logs(&cluster);
    for program in versions() {
        let kubectl = Kubectl { program, cluster: &cluster };
        logs(&kubectl);
        commands(&kubectl);
        copies(&kubectl);
        port_forward(&kubectl);
        proxies(&kubectl);
    }
}

fn logs(kubectl: &Kubectl<'_>) {
    assert_eq!(kubectl.says(&["logs", "failing"]), "lost\n");
    assert!(kubectl.says(&["logs", "web", "--tail=2"]).starts_with("starting\n"));
    let all = kubectl.says(&["logs", "two", "--all-containers", "--prefix"]);
    // kubectl reads the logs of all containers at the same time.
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    assert_eq!(all, ["[pod/two/a] a says", "[pod/two/b] b says"]);
    let stamped = kubectl.says(&["logs", "failing", "--timestamps"]);
    assert!(stamped.ends_with("Z lost\n") && stamped.starts_with("20"), "{stamped}");
    let (code, error) = kubectl.fails(&["logs", "web", "-c", "none"]);
    let want = "error: container none is not valid for pod web";
    assert_eq!((code, error.as_str()), (1, want));
    let (_, error) = kubectl.fails(&["logs", "slow"]);
    let want = r#"container "main" in pod "slow" is waiting to start: ContainerCreating"#;
    assert!(error.ends_with(want), "{error}");
    let (_, error) = kubectl.fails(&["logs", "web", "--previous"]);
    let want = r#"previous terminated container "main" in pod "web" not found"#;
    assert!(error.ends_with(want), "{error}");
    assert_eq!(kubectl.says(&["logs", "-f", "failing"]), "lost\n");
}

/// `kubewright logs` prints what kubectl does.
fn own_logs(cluster: &Cluster) {
    let run = |arguments: &[&str]| kubewright(Path::new(cluster.kubeconfig.path()), &[&["logs"], arguments].concat());
    let says = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(says(&["failing"]).0, "lost\n");
    assert_eq!(says(&["-f", "pod/failing"]).0, "lost\n");
    let (out, hint) = says(&["two"]);
    assert_eq!((out.as_str(), hint.as_str()), ("a says\n", "Defaulted container \"a\" out of: a, b\n"));
    let (out, _) = says(&["two", "--all-containers", "--prefix"]);
    assert_eq!(out, "[pod/two/a] a says\n[pod/two/b] b says\n");
    assert!(says(&["service/web", "--tail=1"]).0.ends_with('\n'));
    assert!(says(&["-l", "app=web", "--timestamps"]).0.contains("Z starting\n"));
    assert_eq!(says(&["-l", "app=none"]), (String::new(), "No resources found in default namespace.\n".to_owned()));
    assert_eq!(text(&run(&["web", "-c", "none"]).stderr), "error: container none is not valid for pod web\n");
    let error = text(&run(&["web", "--previous"]).stderr);
    assert!(error.contains("previous terminated container \"main\" in pod \"web\" not found"), "{error}");
    assert!(text(&run(&["none"]).stderr).contains("pods \"none\" not found"));
}

fn commands(kubectl: &Kubectl<'_>) {
    assert_eq!(kubectl.says(&["exec", "web", "--", "echo", "a  b"]), "a  b\n");
    assert_eq!(kubectl.says(&["exec", "web", "--", "sh", "-c", "echo $GREETING $HOSTNAME"]), "hi web\n");
    let copied = kubectl.run(&["exec", "-i", "web", "--", "sh", "-c", "cat; echo end >&2; exit 7"], "from here\n");
    assert_eq!((copied.status.code(), text(&copied.stdout).as_str()), (Some(7), "from here\n"));
    assert!(text(&copied.stderr).starts_with("end\n"), "{}", text(&copied.stderr));
    let (code, error) = kubectl.fails(&["exec", "web", "--", "nginx"]);
    assert!(code == 1 && error.contains("executable file not found in $PATH"), "{code} {error}");
    let (_, error) = kubectl.fails(&["exec", "failing", "--", "ls"]);
    assert!(error.contains("container not found") || error.contains("completed pod"), "{error}");
}

fn copies(kubectl: &Kubectl<'_>) {
    let (from, to) = (Scratch::new("copied"), Scratch::new("back"));
    let content: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    std::fs::write(from.path(), &content).expect("a temporary file");
    kubectl.says(&["cp", from.path(), "web:/tmp/copied"]);
    assert_eq!(kubectl.says(&["exec", "web", "--", "tail", "-n", "1", "/tmp/copied"]), "line 49999\n");
    kubectl.says(&["cp", "web:/tmp/copied", to.path()]);
    assert_eq!(std::fs::read_to_string(to.path()).expect("it was copied"), content);
}

fn port_forward(kubectl: &Kubectl<'_>) {
    let mut command = kubectl.command(&["port-forward", "pod/web", ":8080", "--address=127.0.0.1"]);
    let mut process = command.stdout(Stdio::piped()).spawn().expect("it was there before");
    let mut line = String::new();
    // kubectl ends when it cannot write to its output any more.
    let mut output = BufReader::new(process.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("it says where it listens");
    let port = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split(' ').next()).expect("a port");
    for _ in 0..2 {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    }
    process.kill().expect("it runs");
    process.wait().expect("it was killed");
}

fn proxies(kubectl: &Kubectl<'_>) {
    let namespace = "/api/v1/namespaces/default";
    let get = |path: &str| kubectl.says(&["get", "--raw", path]);
    assert_eq!(get(&format!("{namespace}/pods/web/proxy/any?x=1")), "hello");
    assert_eq!(get(&format!("{namespace}/pods/http:web:8080/proxy/")), "hello");
    assert_eq!(get(&format!("{namespace}/services/web:80/proxy/")), "hello");
    let node = kubectl.says(&["get", "pod", "web", "-o", "jsonpath={.spec.nodeName}"]);
    assert_eq!(get(&format!("/api/v1/nodes/{node}/proxy/healthz")), "ok");
    assert!(get(&format!("/api/v1/nodes/{node}/proxy/stats/summary")).contains("\"nodeName\""));
    let (_, error) = kubectl.fails(&["get", "--raw", &format!("{namespace}/pods/web:9/proxy/")]);
    assert!(error.contains("error trying to reach service: dial tcp"), "{error}");
    let (_, error) = kubectl.fails(&["get", "--raw", &format!("{namespace}/services/web:9/proxy/")]);
    assert!(error.contains("no service port 9 found for service \"web\""), "{error}");
}
