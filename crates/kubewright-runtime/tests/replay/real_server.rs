//! A recording of a real kube-apiserver with etcd, from the folder `KUBEBUILDER_ASSETS`. Skipped
//! loudly without it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_client::config::{LoadingRules, Overrides};
use kubewright_client::{Client, Config};
use kubewright_core::options::ListOptions;
use kubewright_core::{Object, Selector};
use kubewright_recording::{Recorder, Recording, RecordingOptions};
use kubewright_runtime::replay::Replay;
use kubewright_runtime::{BoxError, Freshness, Manager, ManagerOptions, Outcome};
use tokio_util::sync::CancellationToken;

use crate::support::{Folder, map, maps, writes};

/// etcd and kube-apiserver, killed on drop.
struct RealServer(Vec<Child>);

impl Drop for RealServer {
    fn drop(&mut self) {
        for process in self.0.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(assets: &Path, folder: &Path) -> (RealServer, Client) {
    let spawn = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let key = folder.join("sa.key");
    let made = Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").stderr(Stdio::null()).status();
    assert!(made.unwrap().success());
    std::fs::write(folder.join("tokens.csv"), "test,test,test,system:masters\n").unwrap();
    let (client, peer) = (format!("http://127.0.0.1:{}", free_port()), format!("http://127.0.0.1:{}", free_port()));
    let mut etcd = Command::new(assets.join("etcd"));
    etcd.arg("--data-dir").arg(folder.join("etcd"));
    etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
    etcd.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")]);
    let mut processes = RealServer(vec![spawn(&mut etcd)]);
    let secure = free_port();
    let mut apiserver = Command::new(assets.join("kube-apiserver"));
    apiserver.arg(format!("--etcd-servers={client}")).arg(format!("--secure-port={secure}"));
    apiserver.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]);
    apiserver.arg(format!("--cert-dir={}", folder.display()));
    apiserver.arg(format!("--token-auth-file={}", folder.join("tokens.csv").display()));
    apiserver
        .args(["--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24"]);
    apiserver.arg(format!("--service-account-key-file={}", key.display()));
    apiserver.arg(format!("--service-account-signing-key-file={}", key.display()));
    apiserver.args(["--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"]);
    processes.0.push(spawn(&mut apiserver));
    let kubeconfig = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \
         'https://127.0.0.1:{secure}', insecure-skip-tls-verify: true}}}}]\ncontexts: [{{name: c, context: {{cluster: \
         c, user: u}}}}]\nusers: [{{name: u, user: {{token: test}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let file = LoadingRules::explicit(&kubeconfig).load().unwrap();
    let config = Config::from_kubeconfig(&file, &Overrides::default()).unwrap();
    (processes, Client::try_from(config).unwrap())
}

/// Marks each map, and counts marked ones in a live list.
fn add_marks(manager: &mut Manager) -> Result<(), BoxError> {
    let controller = manager.controller::<ConfigMap>("marks").workers(2);
    manager.add(controller.reconciling(|map, context| async move {
        if !map.name().starts_with("map-") || map.data.get("marked").is_some() {
            return Ok(Outcome::Done);
        }
        let maps = context.api::<ConfigMap>("default");
        let marked: Selector = "marked=yes".parse()?;
        let before = maps.list(&marked, Freshness::Live).await?.len();
        let mut map = (*map).clone();
        map.metadata.labels.insert("marked", "yes".into());
        map.data.insert("marked", before.to_string().into());
        map.data.insert("at", kubewright_client::clock::now_micros().to_string().into());
        maps.update(&map).await?;
        Ok(Outcome::Done)
    }))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn a_recording_of_a_real_server_is_replayed() {
    let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED a recording of a real server: KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd"
        );
        return;
    };
    let folder = Folder::new("real");
    let (_server, client) = start(&assets, &folder.file(""));
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while maps(&client).create(&map("first")).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "the server does not start");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let file = folder.file("run");
    let recorder = Recorder::create(&file, RecordingOptions::default()).unwrap();
    let mut manager = Manager::new(&client, ManagerOptions::default().record(recorder));
    add_marks(&mut manager).unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run(&stopped).await });
    for number in 0..20 {
        maps(&client).create(&map(&format!("map-{number}"))).await.unwrap();
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let marked = async || {
        let selector: Selector = "marked=yes".parse().unwrap();
        maps(&client).list(&ListOptions::default().labels(selector)).await.unwrap().items.len()
    };
    while marked().await < 20 {
        assert!(std::time::Instant::now() < deadline, "not all are marked");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    let recording = Recording::open(&file).unwrap();
    assert!(writes(&recording).len() >= 20);
    for _ in 0..3 {
        let outcome = Replay::of(recording.clone(), add_marks).run().unwrap();
        assert!(outcome.difference.is_none(), "{}", outcome.difference.unwrap());
        assert_eq!(outcome.writes.len(), writes(&recording).len());
    }
}
