//! `get`, `watch`, `api-resources`, `api-versions` and `proxy` against `apiserver`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use kubewright_api::core::v1::ConfigMap;
use kubewright_client::Api;
use kubewright_core::options::Patch;
use kubewright_core::{DynamicObject, Object};

use crate::process::{Cluster, PATIENCE, Serving, eventually, kubewright, text};

#[test]
fn get_lists_objects_and_served_resources() {
    let cluster = Cluster::start(&["apiserver"]);
    let kubeconfig = &cluster.kubeconfig.0;
    let said = |arguments: &[&str]| text(&kubewright(kubeconfig, arguments).stdout);

    let services = said(&["get", "svc", "-A"]);
    let lines: Vec<&str> = services.lines().collect();
    assert!(lines[0].starts_with("NAMESPACE   NAME         TYPE"), "{services}");
    assert!(lines[1].starts_with("default     kubernetes   ClusterIP   10.96.0.1"), "{services}");
    assert!(said(&["get", "service", "kubernetes", "-o", "yaml"]).starts_with("apiVersion: v1\nkind: Service\n"));
    assert_eq!(said(&["get", "services", "-o", "name"]), "service/kubernetes\n");
    assert_eq!(said(&["get", "clusterroles", "admin", "-o", "name"]), "clusterrole.rbac.authorization.k8s.io/admin\n");
    assert_eq!(said(&["get", "service/kubernetes", "-o", "name"]), "service/kubernetes\n");
    // Printed on standard error; standard output stays empty.
    let none = kubewright(kubeconfig, &["get", "pods"]);
    assert_eq!((text(&none.stdout).as_str(), none.status.code()), ("", Some(0)));
    assert_eq!(text(&none.stderr), "No resources found in default namespace.\n");
    assert_eq!(text(&kubewright(kubeconfig, &["get", "pods", "-A"]).stderr), "No resources found\n");
    assert!(said(&["api-versions"]).contains("\napps/v1\n"));
    assert!(said(&["api-resources"]).contains("deployments                         deploy       apps/v1"));

    let unknown = kubewright(kubeconfig, &["get", "unicorns"]);
    assert_eq!(text(&unknown.stderr), "error: the server doesn't have a resource type \"unicorns\"\n");
    assert_eq!(unknown.status.code(), Some(1));

    let proxy = Serving::start(&["proxy", "--port", "0", "--kubeconfig", cluster.kubeconfig.path()]);
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
}

#[test]
fn errors_suggest_a_fix_and_exit_codes_tell_usage_from_failure() {
    let run =
        |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_kubewright")).args(arguments).output().expect("built");
    let cluster = Cluster::start(&["apiserver"]);
    let taken = cluster.serving.line.trim().trim_start_matches("ready https://").to_owned();
    let refused = run(&["apiserver", "--listen", &taken]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("hint: another process has the port"), "{}", text(&refused.stderr));

    let config = cluster.kubeconfig.path().to_owned();
    cluster.serving.kill();
    let gone = run(&["get", "pods", "--kubeconfig", &config]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("`kubewright up` starts a cluster"), "{}", text(&gone.stderr));

    assert!(text(&gone.stderr).contains(&format!("cannot connect to the server {taken}")), "{}", text(&gone.stderr));

    // Another server at the same address has a different certificate.
    let successor = Cluster::start(&["apiserver"]);
    let now = successor.serving.line.trim().trim_start_matches("ready https://").to_owned();
    let former = std::fs::read_to_string(&config).expect("it was written").replace(&taken, &now);
    std::fs::write(&config, former).expect("it can be written");
    let stranger = run(&["get", "pods", "--kubeconfig", &config]);
    assert!(text(&stranger.stderr).contains("has new certificates"), "{}", text(&stranger.stderr));
    let unchosen = std::fs::read_to_string(&config).expect("it is there").replace("current-context: kubewright", "");
    std::fs::write(&config, unchosen).expect("it can be written");
    let nowhere = text(&run(&["get", "pods", "--kubeconfig", &config]).stderr);
    assert!(nowhere.contains("no context is selected") && nowhere.contains("--context which one"), "{nowhere}");

    let bare = Serving::start(&["apiserver", "--http", "--listen", "127.0.0.1:0"]);
    let address = bare.line.trim().trim_start_matches("ready http://").to_owned();
    let encrypted = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: 'https://{address}'}}}}]\n"
    );
    std::fs::write(&config, encrypted).expect("it can be written");
    let said = text(&run(&["get", "pods", "--kubeconfig", &config]).stderr);
    assert!(said.contains("hint: what answers there speaks no TLS"), "{said}");

    for senseless in [&["get"][..], &["run", "sample", "--leader-elect", "--lease", "x"]] {
        assert_eq!(run(senseless).status.code(), Some(2), "{senseless:?}");
    }
    let help = text(&run(&["run", "--help"]).stdout);
    assert!(help.contains("ingress-manager") && help.contains("--leader-elect"), "{help}");
    assert!(text(&run(&["--help"]).stdout).contains("Exit status: 0"));
}

#[test]
fn shells_complete_the_command() {
    for (shell, sign) in
        [("bash", "complete -F _kubewright"), ("zsh", "#compdef kubewright"), ("fish", "complete -c kubewright")]
    {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kubewright")).args(["completion", shell]).output().expect("built");
        let script = text(&output.stdout);
        assert!(output.status.success() && script.contains(sign) && script.contains("write-kubeconfig"), "{script}");
    }
}

/// Creates a map of this name.
async fn map(maps: &Api<ConfigMap>, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    maps.create(&map).await.expect("it is new");
}

/// The output of a running watch.
fn watching(cluster: &Cluster, arguments: &[&str]) -> (Killed, impl Fn() -> String + use<>) {
    let mut watch = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    watch.arg("watch").args(arguments).args(["--kubeconfig", cluster.kubeconfig.path()]);
    let mut watch = Killed(watch.stdout(Stdio::piped()).spawn().expect("built"));
    let lines = BufReader::new(watch.0.stdout.take().expect("piped")).lines();
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (watch, move || said.recv_timeout(PATIENCE).expect("it goes on to say what it sees"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_is_watched_by_its_name() {
    let cluster = Cluster::start(&["apiserver"]);
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    for name in ["other", "wanted"] {
        map(&maps, name).await;
    }
    let (mut watch, next) = watching(&cluster, &["configmaps", "wanted"]);
    assert!(next().starts_with("NAME "));
    assert!(next().starts_with("wanted   0 "));
    let filled = || Patch::Merge(br#"{"data":{"key":"value"}}"#.to_vec());
    maps.patch("other", filled()).await.expect("it is there");
    maps.patch("wanted", filled()).await.expect("it is there");
    assert!(next().starts_with("wanted   1 "));
    assert!(watch.0.try_wait().expect("it is our child").is_none(), "it still watches");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_watch_prints_changes_in_the_chosen_format() {
    let cluster = Cluster::start(&["apiserver"]);
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    map(&maps, "one").await;
    let watch = |output| watching(&cluster, &["configmaps", "-o", output]);
    let ((_json, json), (_yaml, yaml), (_name, name)) = (watch("json"), watch("yaml"), watch("name"));
    let read = || {
        let mut text = String::new();
        while !text.ends_with("\n}\n") {
            text += &json();
            text.push('\n');
        }
        text.parse::<DynamicObject>().expect("an object")
    };
    let first = read();
    assert_eq!((&*first.kind, first.name()), ("ConfigMap", "one"));
    assert_eq!([yaml(), yaml(), yaml()], ["---", "apiVersion: v1", "kind: ConfigMap"]);
    assert_eq!(name(), "configmap/one");
    map(&maps, "two").await;
    assert_eq!(read().name(), "two");
    while yaml() != "---" {}
    assert_eq!(name(), "configmap/two");
    let (_wide, wide) = watch("wide");
    assert!(wide().starts_with("NAME "));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_columns_of_a_watch_are_aligned() {
    let cluster = Cluster::start(&["apiserver"]);
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    map(&maps, "a-map-with-a-long-name").await;
    map(&maps, "short").await;
    let (_watch, next) = watching(&cluster, &["configmaps"]);
    let (heading, long, short) = (next(), next(), next());
    let column = heading.find("DATA").expect("a column");
    assert!([&long, &short].iter().all(|line| line[column..].starts_with('0')), "{heading}\n{long}\n{short}");
    map(&maps, "later").await;
    assert!(next()[column..].starts_with('0'));
}

#[test]
fn a_closed_pipe_ends_the_command_successfully() {
    let cluster = Cluster::start(&["apiserver"]);
    for arguments in [
        &["get", "services", "-A", "-o", "json"][..],
        &["get", "services", "-A", "-o", "yaml"],
        &["get", "services", "-A"],
        &["get", "services", "-A", "-o", "name"],
        &["api-versions"],
        &["api-resources"],
    ] {
        let (reader, writer) = std::io::pipe().expect("two more descriptors");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
        command.args(arguments).args(["--kubeconfig", cluster.kubeconfig.path()]);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().expect("built");
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// Linux only, for the number of open files.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_had_too_many_connections_serves_on() {
    const FILES: usize = 48;
    let cluster = Cluster::start(&["apiserver"]);
    let mut limited = Command::new("sh");
    let kubewright = format!("ulimit -n {FILES}; exec {} proxy --port 0", env!("CARGO_BIN_EXE_kubewright"));
    limited.args(["-c", &format!("{kubewright} --kubeconfig {}", cluster.kubeconfig.path())]);
    let mut proxy = Killed(limited.stdout(Stdio::piped()).spawn().expect("there is a shell"));
    let mut line = String::new();
    BufReader::new(proxy.0.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it serves");
    let address = line.trim().strip_prefix("Starting to serve on ").expect("it serves").to_owned();
    let crowd: Vec<_> = (0..2 * FILES).map(|_| TcpStream::connect(&address).expect("there is a queue")).collect();
    let files = format!("/proc/{}/fd", proxy.0.id());
    eventually("a proxy that can take no more", async || {
        std::fs::read_dir(&files).is_ok_and(|files| files.count() >= FILES)
    })
    .await;
    drop(crowd);
    eventually("an answer", async || {
        let Ok(mut stream) = TcpStream::connect(&address) else { return false };
        let mut answer = String::new();
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        write!(stream, "GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains("gitVersion")
    })
    .await;
}

/// Killed at the end of its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
