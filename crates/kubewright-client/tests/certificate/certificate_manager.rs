//! Certificates requested and rotated through certificate signing requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::authentication::v1::SelfSubjectReview;
use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::{ApiServer, Fault, RunningServer};
use kubewright_client::certificate::{
    CertificateError, CertificateManager, CertificateManagerOptions, CertificateStore, CertificateTemplate,
    IssuedCertificate, MemoryStore, SigningRefusal, bootstrap_with,
};
use kubewright_client::config::CertificateSource;
use kubewright_client::credentials::{ClientCertificate, KeySource};
use kubewright_client::transport::{Body, ResponseFuture};
use kubewright_client::{Api, Client, Secret};
use kubewright_core::Time;
use kubewright_core::options::WatchOptions;
use tokio::time::{Instant, sleep, timeout};

use crate::directory::Directory;
use crate::scripted::{Authority, config};
use crate::signer::Signer;

const HOUR: Duration = Duration::from_secs(3600);
const SIGNER: &str = "example.com/test";

/// A clock that starts at the system time and continues with the test's clock.
fn simulated() -> impl Fn() -> Time + Send + Sync + 'static {
    let (start, epoch) = (Time::now(), Instant::now());
    move || start.checked_add(epoch.elapsed()).expect("not that late")
}

/// A running manager on an embedded server, and its signer.
struct Bench {
    manager: CertificateManager,
    signer: Signer,
    failures: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
    _server: RunningServer,
}

impl Bench {
    async fn start(
        store: impl CertificateStore,
        change: impl FnOnce(CertificateManagerOptions) -> CertificateManagerOptions,
    ) -> Self {
        let server = ApiServer::in_memory().start().await.expect("it starts");
        let client = server.client();
        let signer = Signer::new(&client);
        let failures = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&failures);
        let options = change(CertificateManagerOptions::new(SIGNER).clock(simulated()))
            .on_failure(move |error| told.lock().expect("no panic").push(error.to_string()));
        let template = CertificateTemplate::new("jane").organization("system:masters");
        let client_for = move |_: Option<&IssuedCertificate>| Ok(client.clone());
        let manager = CertificateManager::new(client_for, Some(template), store, options).expect("fine");
        let running = manager.clone();
        let task = tokio::spawn(async move { running.run().await });
        Bench { manager, signer, failures, task, _server: server }
    }

    fn failures(&self) -> Vec<String> {
        std::mem::take(&mut self.failures.lock().expect("no panic"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// CM-1
#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_after_seventy_to_ninety_percent_of_its_life() {
    let store = Arc::new(MemoryStore::default());
    let ages = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ages);
    let bench = Bench::start(Arc::clone(&store), |options| {
        options.lifetime(HOUR).on_rotation(move |age| told.lock().expect("no panic").push(age))
    })
    .await;
    let first = bench.signer.next().await;
    assert_eq!(first.spec.signer_name, SIGNER);
    assert_eq!(first.spec.expiration_seconds, Some(3600));
    assert_eq!(
        first.spec.usages.iter().map(|usage| &**usage).collect::<Vec<_>>(),
        ["digital signature", "client auth"]
    );
    assert!(bench.manager.current().is_none());
    bench.signer.sign(&first, "jane", HOUR).await;
    let mut current = bench.manager.issued().await;
    assert!(bench.manager.is_server_healthy() && bench.manager.live().is_set());
    for _ in 0..20 {
        let begin = Instant::now();
        let request = bench.signer.next().await;
        let share = begin.elapsed().as_secs_f64() / HOUR.as_secs_f64();
        assert!((0.69..0.92).contains(&share), "renewed after {share} of its life");
        bench.signer.sign(&request, "jane", HOUR).await;
        while bench.manager.current().is_some_and(|now| now.certificate() == current.certificate()) {
            sleep(Duration::from_millis(100)).await;
        }
        current = bench.manager.issued().await;
        let stored = store.current().expect("fine").expect("it is stored");
        assert_eq!(stored.certificate(), current.certificate());
    }
    assert_eq!(ages.lock().expect("no panic").len(), 20);
    assert!(ages.lock().expect("no panic").iter().all(|age| (0.69..0.92).contains(&(age.as_secs_f64() / 3600.0))));
    assert_eq!(bench.failures(), [""; 0]);
}

// CM-1
#[tokio::test(start_paused = true)]
async fn a_refusal_is_followed_by_longer_and_longer_pauses_up_to_32_seconds() {
    let bench = Bench::start(MemoryStore::default(), |options| options).await;
    let mut pauses = Vec::new();
    for count in 0..7 {
        let begin = Instant::now();
        let request = bench.signer.next().await;
        pauses.push(begin.elapsed().as_secs_f64());
        match count % 3 {
            0 => drop(bench.signer.decide(&request, "Denied").await),
            1 => drop(bench.signer.decide(&request, "Failed").await),
            _ => bench.signer.delete(&request).await,
        }
    }
    for (pause, expected) in pauses.iter().skip(1).zip([2.0, 4.0, 8.0, 16.0, 32.0, 32.0]) {
        assert!((expected - 0.6..expected * 1.1 + 1.5).contains(pause), "{pauses:?}");
    }
    let failures = bench.failures();
    assert!(failures[0].contains("was denied: Because: the test says so"), "{failures:?}");
    assert!(failures[1].contains("was not signed: Because"), "{failures:?}");
    assert!(failures[2].contains("was deleted"), "{failures:?}");
    // It keeps retrying.
    let request = bench.signer.next().await;
    bench.signer.sign(&request, "jane", HOUR).await;
    assert_eq!(bench.manager.issued().await.common_name(), "jane");
}

// CM-1
#[tokio::test(start_paused = true)]
async fn rotation_recovers_when_a_fast_clock_is_corrected() {
    let ahead = Arc::new(Mutex::new(10 * HOUR));
    let (right, offset) = (simulated(), Arc::clone(&ahead));
    let clock = move || right().checked_add(*offset.lock().expect("no panic")).expect("not that late");
    let bench = Bench::start(MemoryStore::default(), |options| options.clock(clock)).await;
    let request = bench.signer.next().await;
    bench.signer.sign(&request, "jane", HOUR).await;
    let request = bench.signer.next().await;
    assert!(bench.failures()[0].contains("has already expired"), "by this clock");
    *ahead.lock().expect("no panic") = Duration::ZERO;
    bench.signer.sign(&request, "jane", HOUR).await;
    assert_eq!(bench.manager.issued().await.common_name(), "jane");

    // The clock may also be set later, forwards and backwards.
    *ahead.lock().expect("no panic") = 10 * HOUR;
    let live = bench.manager.live();
    let comes = async |wanted: bool| {
        while live.is_set() != wanted {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(HOUR / 2, comes(false)).await.expect("it has expired by this clock");
    assert!(bench.manager.current().is_none());
    *ahead.lock().expect("no panic") = Duration::ZERO;
    timeout(HOUR / 2, comes(true)).await.expect("it holds by this clock");
    assert_eq!(bench.manager.current().expect("it holds").common_name(), "jane");
}

// CM-1
#[tokio::test(start_paused = true)]
async fn an_undecided_request_times_out_after_fifteen_minutes() {
    let bench = Bench::start(MemoryStore::default(), |options| options).await;
    let first = bench.signer.next().await;
    sleep(Duration::from_secs(14 * 60)).await;
    assert_eq!(bench.signer.undecided().await.len(), 1);
    sleep(Duration::from_secs(70)).await;
    assert_eq!(bench.signer.undecided().await.len(), 2, "there is another");
    assert!(bench.failures()[0].contains("was not signed within 900s"));
    // An approval without a signature does not yield a certificate.
    bench.signer.decide(&first, "Approved").await;
    sleep(Duration::from_secs(60)).await;
    assert!(bench.manager.current().is_none());
}

// CM-1
#[tokio::test(start_paused = true)]
async fn a_changed_template_is_requested_immediately() {
    let bench = Bench::start(MemoryStore::default(), |options| options).await;
    let first = bench.signer.next().await;
    let begin = Instant::now();
    bench.manager.set_template(Some(CertificateTemplate::new("bob")));
    while bench.signer.undecided().await.len() < 2 {
        sleep(Duration::from_millis(50)).await;
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    // The earlier request is ignored.
    bench.signer.sign(&first, "jane", HOUR).await;
    let second = bench.signer.next().await;
    assert_ne!(second.metadata.uid, first.metadata.uid);
    bench.signer.sign(&second, "bob", HOUR).await;
    assert_eq!(bench.manager.issued().await.common_name(), "bob");
    assert_eq!(bench.failures(), [""; 0], "nothing has failed");

    // A template that the certificate satisfies causes no request; another one causes one
    // immediately.
    bench.manager.set_template(Some(CertificateTemplate::new("bob").organization("system:masters")));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(bench.signer.undecided().await.len(), 0);
    bench.manager.set_template(Some(CertificateTemplate::new("bob").dns_name("bob.example")));
    let begin = Instant::now();
    let third = bench.signer.next().await;
    assert!(begin.elapsed() < Duration::from_secs(3));
    // A signer that omits names is called again, but not every second; its certificate is used.
    bench.signer.sign(&third, "bob", HOUR).await;
    let begin = Instant::now();
    bench.signer.next().await;
    assert!(begin.elapsed() >= Duration::from_secs(2));
    assert!(bench.failures()[0].contains("lacks requested names"));
    // Without a template no certificate is requested.
    bench.manager.set_template(None);
    sleep(HOUR * 3).await;
    assert_eq!(bench.signer.undecided().await.len(), 1, "only the one that was waiting");
}

// CM-1
#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_not_presented() {
    let bench = Bench::start(MemoryStore::default(), |options| options).await;
    let request = bench.signer.next().await;
    bench.signer.sign(&request, "jane", HOUR).await;
    bench.manager.issued().await;
    sleep(HOUR - Duration::from_secs(60)).await;
    assert!(bench.manager.current().is_some() && bench.manager.live().is_set());
    sleep(Duration::from_secs(125)).await;
    assert!(bench.manager.current().is_none() && !bench.manager.live().is_set());
    // An expired certificate is not used.
    for request in bench.signer.undecided().await {
        let now = bench.signer.now();
        let old = |params: &mut rcgen::CertificateParams| {
            (params.not_before, params.not_after) = ((now - HOUR).into(), (now - Duration::from_secs(10)).into());
        };
        bench.signer.sign_with(&request, "jane", HOUR, old).await;
    }
    sleep(Duration::from_secs(40)).await;
    assert!(bench.manager.current().is_none());
    assert!(bench.failures().iter().any(|failure| failure.contains("has already expired")));
}

// CM-1
#[tokio::test(start_paused = true)]
async fn a_valid_stored_certificate_is_preferred_to_the_bootstrap_certificate() {
    let authority = Authority::new();
    let issued = |name: &str, expired: bool| {
        let pair = authority.sign_with(name, |params| {
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
            if expired {
                params.not_after = rcgen::date_time_ymd(2020, 1, 1);
            }
        });
        IssuedCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).expect("fine")
    };
    let stored = |certificate: IssuedCertificate| {
        let store = Arc::new(MemoryStore::default());
        store.update(&certificate).expect("fine");
        store
    };
    let bootstrap = issued("bootstrap", false);

    let holds = Bench::start(stored(issued("jane", false)), |options| options.bootstrap(bootstrap.clone())).await;
    assert_eq!(holds.manager.issued().await.common_name(), "jane");
    sleep(HOUR).await;
    assert_eq!(holds.signer.undecided().await.len(), 0, "there is nothing to ask for");

    let store = stored(issued("jane", true));
    let expired = Bench::start(Arc::clone(&store), |options| options.bootstrap(bootstrap.clone())).await;
    assert_eq!(expired.manager.current().expect("the bootstrap's").common_name(), "bootstrap");
    assert_eq!(store.current().expect("fine").expect("it is stored").common_name(), "bootstrap");
    // The bootstrap certificate is replaced, although it is valid for years.
    let request = expired.signer.next().await;
    expired.signer.sign(&request, "jane", HOUR).await;
    assert_eq!(expired.manager.issued().await.common_name(), "jane");

    let none = Bench::start(stored(issued("jane", true)), |options| options).await;
    assert!(none.manager.current().is_none(), "an expired one is none");
    none.signer.next().await;
}

// CM-1
#[tokio::test(start_paused = true)]
async fn weak_keys_are_rejected_and_keys_are_never_printed() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("keys").serialize_pem();
    let line = key.lines().nth(1).expect("a line of the key").to_owned();
    let bench =
        Bench::start(MemoryStore::default(), |options| options.key_with(move || Ok(Secret::new(key.as_str().into()))))
            .await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.signer.undecided().await.len(), 0);
    let failures = bench.failures();
    assert!(failures[0].contains("neither RSA of at least 2048 bits nor on a curve of at least 256"), "{failures:?}");
    assert!(!failures.concat().contains(&line) && !format!("{:?}", bench.manager).contains(&line));

    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("keys").serialize_pem();
    let line = key.lines().nth(1).expect("a line of the key").to_owned();
    let bench =
        Bench::start(MemoryStore::default(), |options| options.key_with(move || Ok(Secret::new(key.as_str().into()))))
            .await;
    let request = bench.signer.next().await;
    bench.signer.sign(&request, "jane", HOUR).await;
    let issued = bench.manager.issued().await;
    assert!(String::from_utf8_lossy(issued.key().expose()).contains(&line), "the key is the given one");
    for shown in [format!("{:?}", bench.manager), format!("{issued:?}"), format!("{:?}", bench.manager.live())] {
        assert!(!shown.contains(&line) && !shown.contains("PRIVATE"), "{shown}");
    }
}

// CM-1, TR-4
#[tokio::test]
async fn a_client_switches_to_its_new_certificate_and_closes_old_connections() {
    // A server with the test's authority.
    let (authority, directory) = (Authority::new(), Directory::new());
    let masters = |params: &mut rcgen::CertificateParams| {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    };
    let admin = authority.sign_with("admin", masters);
    directory.write("pki/ca.crt", authority.pem());
    directory.write("pki/ca.key", authority.key());
    let server = ApiServer::in_memory().data(directory.root()).listen("127.0.0.1:0".parse().expect("an address"));
    let server = server.start().await.expect("it starts");
    let anonymous = config(server.url().expect("it listens"), Some(&authority));
    let mut bootstrap = anonymous.clone();
    bootstrap.credentials.client_certificate = Some(ClientCertificate {
        certificate: CertificateSource::Data(admin.certificate.as_str().into()),
        key: KeySource::Data(Secret::new(admin.key.as_str().into())),
    });
    let mut signer = Signer::new(&Client::try_from(bootstrap.clone()).expect("fine"));
    signer.authority = authority;

    let template = CertificateTemplate::new("jane").organization("system:masters");
    let options = CertificateManagerOptions::new(SIGNER);
    let manager = CertificateManager::new(bootstrap_with(bootstrap), Some(template), MemoryStore::default(), options)
        .expect("fine");
    let running = manager.clone();
    let task = tokio::spawn(async move { running.run().await });
    let mut live = anonymous;
    live.credentials.live_certificate = Some(manager.live());
    assert!(!live.credentials.is_empty() && !format!("{live:?}").contains("PRIVATE"));
    let client = Client::try_from(live).expect("fine");
    // Without a certificate the client is anonymous, and so is its connection.
    assert!(who(&client).await.is_none());

    let request = signer.next().await;
    signer.sign(&request, "jane", HOUR).await;
    manager.issued().await;
    assert_eq!(who(&client).await.as_deref(), Some("jane"));
    let maps = Api::<ConfigMap>::namespaced(&client, "default");
    let mut watch = maps.watch(&WatchOptions::default()).await.expect("she may");

    manager.set_template(Some(CertificateTemplate::new("joan").organization("system:masters")));
    let request = signer.next().await;
    signer.sign(&request, "joan", HOUR).await;
    manager.issued().await;
    let closed = async { while watch.next().await.is_some_and(|event| event.is_ok()) {} };
    timeout(Duration::from_secs(10), closed)
        .await
        .expect("the watch of the old certificate is closed without a request");
    assert_eq!(who(&client).await.as_deref(), Some("joan"));
    task.abort();
}

/// The user that the server sees.
async fn who(client: &Client) -> Option<String> {
    let review = client.authentication_v1().self_subject_reviews().create(&SelfSubjectReview::default()).await;
    let name = review.ok()?.status?.user_info?.username.as_ref()?.to_string();
    Some(name).filter(|name| name != "system:anonymous")
}

#[test]
fn refusals_are_displayed_as_words() {
    let error = CertificateError::Refused {
        name: "csr-1".to_owned(),
        decision: SigningRefusal::Failed,
        reason: String::new(),
        message: String::new(),
    };
    assert_eq!(error.to_string(), "certificate signing request \"csr-1\" was not signed");
}

// CM-1
#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_retried_before_the_certificate_expires() {
    let bench = Bench::start(MemoryStore::default(), |options| options.lifetime(HOUR)).await;
    bench.signer.sign(&bench.signer.next().await, "jane", HOUR).await;
    bench.manager.issued().await;
    let silence = Fault::delay(10 * HOUR).verb("create").resource("certificatesigningrequests").times(1);
    bench._server.faults().inject(silence);
    let begin = Instant::now();
    bench.signer.next().await;
    assert!(begin.elapsed() < HOUR, "{:?}", begin.elapsed());
    assert_eq!(bench.failures().len(), 1);
}

// CM-1
#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_not_waited_for() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let client = Client::over(move |_: http::Request<bytes::Bytes>| -> ResponseFuture {
        *count.lock().expect("no panic") += 1;
        let head = http::Response::builder().status(201).header("content-type", "application/json");
        let answer = head.body(Body::new(futures_util::stream::pending())).expect("well formed");
        Box::pin(async { Ok(answer) })
    });
    for (limit, time_limit) in [(None, 60), (Some(5), 5), (Some(600), 600)] {
        *asked.lock().expect("no panic") = 0;
        let client =
            limit.into_iter().fold(client.clone(), |client, limit| client.request_timeout(Duration::from_secs(limit)));
        let options = CertificateManagerOptions::new(SIGNER).clock(simulated());
        let client_for = move |_: Option<&IssuedCertificate>| Ok(client.clone());
        let template = Some(CertificateTemplate::new("jane"));
        let manager = CertificateManager::new(client_for, template, MemoryStore::default(), options).expect("fine");
        let task = tokio::spawn(async move { manager.run().await });
        sleep(Duration::from_secs(time_limit - 1)).await;
        assert_eq!(*asked.lock().expect("no panic"), 1, "{limit:?}");
        sleep(Duration::from_secs(4)).await;
        assert_eq!(*asked.lock().expect("no panic"), 2, "{limit:?}");
        task.abort();
    }
}
