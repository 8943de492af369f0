//! The programs that `kubewright envtest` installs, started with the flags that envtest gives them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kubewright_api::core::v1::Namespace;
use kubewright_client::config::LoadingRules;
use kubewright_client::{Api, Client, Config};
use kubewright_core::Object;
use kubewright_core::options::ListOptions;
use kubewright_testing::EtcdCluster;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::process::{Scratch, Serving, eventually, text};

/// A folder with the programs.
fn install() -> Scratch {
    let assets = Scratch::new("envtest");
    let installed = kubewright(&["envtest", assets.path()]);
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    assert!(text(&installed.stdout).starts_with("KUBEBUILDER_ASSETS=/"), "{}", text(&installed.stdout));
    assets
}

fn kubewright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubewright")).args(arguments).output().expect("the command was built")
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("it is installed")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Writes the authority of clients, and returns a kubeconfig for a member of `group`.
fn user(folder: &Path, port: u16, group: &str) -> PathBuf {
    let key = KeyPair::generate().expect("keys can be made");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "clients");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).expect("it signs itself").pem();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "tester");
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("keys can be made");
    let certificate = params.signed_by(&key, &issuer).expect("it signs").pem();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\ncontexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n\
         clusters: [{{name: it, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: apiserver.crt}}}}]\n\
         users: [{{name: it, user: {{client-certificate: user.crt, client-key: user.key}}}}]\n"
    );
    for (name, content) in [
        ("client-ca.crt", authority),
        ("user.crt", certificate),
        ("user.key", key.serialize_pem()),
        ("kubeconfig", kubeconfig),
    ] {
        std::fs::write(folder.join(name), content).expect("it can be written");
    }
    folder.join("kubeconfig")
}

fn client(kubeconfig: &Path) -> Client {
    let file = LoadingRules::explicit(kubeconfig).load().expect("a kubeconfig");
    Client::try_from(Config::from_kubeconfig(&file, &Default::default()).expect("a whole one")).expect("a usable one")
}

#[tokio::test]
async fn the_programs_serve_as_envtest_starts_them() {
    let assets = install();
    let folder = Scratch::new("certificates");
    std::fs::create_dir_all(&folder.0).expect("it can be created");
    let (etcd_port, port) = (free_port(), free_port());
    let etcd_url = format!("http://127.0.0.1:{etcd_port}");
    let etcd = Serving::program(
        &assets.0.join("etcd"),
        &["--data-dir", folder.path(), "--listen-client-urls", &etcd_url, "--unsafe-no-fsync=true"],
    );
    eventually("the health of etcd", async || {
        let Ok(mut socket) = tokio::net::TcpStream::connect(("127.0.0.1", etcd_port)).await else { return false };
        let request = b"GET /health HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\n\r\n";
        let mut response = String::new();
        socket.write_all(request).await.is_ok()
            && socket.read_to_string(&mut response).await.is_ok()
            && response.contains("200 OK")
            && response.ends_with(r#"{"health":"true","reason":""}"#)
    })
    .await;

    let kubeconfig = user(&folder.0, port, "system:masters");
    let in_folder = |name: &str| folder.0.join(name).to_str().expect("a plain path").to_owned();
    let server = Serving::program(
        &assets.0.join("kube-apiserver"),
        &[
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            &format!("--cert-dir={}", folder.path()),
            &format!("--client-ca-file={}", in_folder("client-ca.crt")),
            "--disable-admission-plugins=ServiceAccount",
            &format!("--etcd-servers={etcd_url}"),
            "--max-requests-inflight=100",
            &format!("--secure-port={port}"),
            &format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            "--service-cluster-ip-range=10.0.0.0/24",
        ],
    );
    server.until_it_says("--max-requests-inflight");
    eventually("the certificate", async || folder.0.join("apiserver.crt").exists()).await;
    let namespaces = Api::<Namespace>::all(&client(&kubeconfig));
    eventually("the namespace default", async || namespaces.get("default").await.is_ok()).await;
    assert_eq!(namespaces.list(&ListOptions::default()).await.expect("an administrator").items.len(), 4);

    assert!(server.stop().0.success(), "SIGTERM ends it cleanly");
    assert!(etcd.stop().0.success(), "SIGTERM ends it cleanly");
}

#[tokio::test]
async fn objects_are_in_a_real_etcd_if_there_is_one() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let assets = install();
    let folder = Scratch::new("real-etcd");
    std::fs::create_dir_all(&folder.0).expect("it can be created");
    let port = free_port();
    let kubeconfig = user(&folder.0, port, "system:masters");
    let authority = folder.0.join("client-ca.crt");
    let arguments = [
        "--authorization-mode=RBAC",
        &format!("--cert-dir={}", folder.path()),
        &format!("--client-ca-file={}", authority.display()),
        &format!("--etcd-servers={}", cluster.endpoints()[0]),
        "--etcd-prefix=/kept",
        &format!("--secure-port={port}"),
    ];
    for round in 0..2 {
        let server = Serving::program(&assets.0.join("kube-apiserver"), &arguments);
        eventually("the certificate", async || folder.0.join("apiserver.crt").exists()).await;
        let namespaces = Api::<Namespace>::all(&client(&kubeconfig));
        eventually("the namespace default", async || namespaces.get("default").await.is_ok()).await;
        if round == 0 {
            let mut namespace = Namespace::default();
            namespace.set_name("kept");
            namespaces.create(&namespace).await.expect("an administrator");
        } else {
            assert!(namespaces.get("kept").await.is_ok(), "it was stored before the restart");
        }
        assert!(server.stop().0.success(), "SIGTERM ends it cleanly");
    }
}

#[test]
fn help_and_errors_are_those_of_the_real_programs() {
    let assets = install();
    let apiserver = |arguments: &[&str]| run(&assets.0.join("kube-apiserver"), arguments);
    let help = apiserver(&["--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("--secure-port") && !text(&help.stdout).contains("--insecure-port"));
    assert!(run(&assets.0.join("etcd"), &["--help"]).status.success());
    assert!(text(&apiserver(&["--version"]).stdout).starts_with("Kubernetes v1."));
    for (argument, error) in [
        ("--insecure-port=0", "Error: unknown flag: --insecure-port\n"),
        (
            "--secure-port=0",
            "Error: --secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0\n",
        ),
        ("--feature-gates=Nope=true", "Error: unrecognized feature gate: Nope\n"),
        ("--runtime-config=a.example.com/v1", "Error: unknown api groups a.example.com/v1\n"),
        ("now", "Error: \"kube-apiserver\" does not take any arguments, got [\"now\"]\n"),
    ] {
        let refused = apiserver(&[argument]);
        assert_eq!(refused.status.code(), Some(1));
        assert_eq!(text(&refused.stderr), error);
    }
}

#[test]
fn foreign_programs_stay() {
    let assets = Scratch::new("foreign");
    std::fs::create_dir_all(&assets.0).expect("it can be created");
    let program = assets.0.join("kube-apiserver");
    std::fs::write(&program, "the real one").expect("it can be written");
    let refused = kubewright(&["envtest", assets.path()]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("there is another program"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_to_string(&program).expect("it stayed"), "the real one");
    // A link of an earlier installation is replaced.
    std::fs::remove_file(&program).expect("it is there");
    assert!(kubewright(&["envtest", assets.path()]).status.success());
    assert!(kubewright(&["envtest", assets.path()]).status.success());
}
