//! OpenID Connect tokens.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kubewright_core::ByteString;
use kubewright_net::Config;
use kubewright_net::config::{EnvironmentVariables, InCluster, Kubeconfig, LoadingRules, Overrides};
use kubewright_net::transport::{Transport, TransportErrorKind};
use tokio::sync::{Notify, Semaphore};

use crate::directory::Directory;
use crate::requests::{ask, get};
use crate::scripted::{Authority, Script, Scripted, echo};

/// A token with an expiry.
fn token(name: &str, seconds: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let claims = format!("{{\"sub\":\"{name}?>\",\"exp\":{}}}", now as i64 + seconds);
    let claims = ByteString::from(claims.as_str()).to_base64().replace('+', "-").replace('/', "_");
    format!("e30.{}.{name}", claims.trim_end_matches('='))
}

struct Setting {
    directory: Directory,
    provider: Scripted,
    server: Scripted,
    authority: Authority,
    /// Requests to the provider.
    heard: Arc<Mutex<Vec<String>>>,
    /// Notified when a renewal is requested.
    asked: Arc<Notify>,
    /// Permits for renewals to be answered.
    answers: Arc<Semaphore>,
}

impl Setting {
    async fn new(answer: &'static str) -> Self {
        let authority = Authority::new();
        let tls = authority.server(&authority.sign("server"));
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (asked, answers) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(100)));
        let shared = (Arc::clone(&heard), Arc::clone(&asked), Arc::clone(&answers));
        let provider = Scripted::start(Some(Arc::clone(&tls)), move |request: Request<Incoming>, _| {
            let (log, asked, answers) = shared.clone();
            async move {
                let uri = request.uri().clone();
                if uri.path() == "/realm/.well-known/openid-configuration" {
                    let endpoint = format!("https://{}/token", uri.authority().expect("HTTP/2"));
                    return Response::new(Script::text(format!("{{\"token_endpoint\":\"{endpoint}\"}}")));
                }
                let authorization = request.headers().get("authorization").cloned();
                let body = request.into_body().collect().await.expect("it is whole").to_bytes();
                let heard = format!(
                    "{} {}",
                    String::from_utf8_lossy(&body),
                    authorization.map_or(String::new(), |value| { value.to_str().unwrap_or_default().to_owned() })
                );
                log.lock().expect("no panic").push(heard);
                asked.notify_one();
                answers.acquire().await.expect("it stays open").forget();
                let mut response = Response::new(Script::text(answer.replace("NEW", &token("new", 3600))));
                if answer.is_empty() {
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                }
                response
            }
        })
        .await;
        let server = Scripted::start(Some(tls), |request: Request<Incoming>, _| async move {
            let mut response = echo(&request);
            let refused = request.headers().get("authorization").and_then(|value| value.to_str().ok());
            if refused.is_none_or(|value| value.ends_with(".revoked")) {
                *response.status_mut() = StatusCode::UNAUTHORIZED;
            }
            response
        })
        .await;
        Setting { directory: Directory::new(), provider, server, authority, heard, asked, answers }
    }

    /// The configuration of a kubeconfig with this token.
    fn config(&self, id_token: &str) -> Config {
        let authority = ByteString::from(self.authority.pem().as_str()).to_base64();
        let text = format!(
            "current-context: a
clusters: [{{name: a, cluster: {{server: 'https://{}', certificate-authority-data: {authority}}}}}]
contexts: [{{name: a, context: {{cluster: a, user: jane}}}}]
users: [{{name: jane, user: {{auth-provider: {{name: oidc, config: {{idp-issuer-url: 'https://{}/realm', client-id: 'me/too',
  client-secret: s3cret, id-token: {id_token}, refresh-token: r&fresh, idp-certificate-authority-data: {authority}}}}}}}}}]
",
            self.server.address, self.provider.address
        );
        let rules = LoadingRules::explicit(self.directory.write("config", text));
        let outside = InCluster::at(EnvironmentVariables::of::<String, String>([]), "/no/such/directory");
        let mut config = Config::infer_from(&rules, &Overrides::default(), &outside).expect("it is fine");
        config.environment = EnvironmentVariables::of::<String, String>([]);
        config
    }
}

// AU-2
#[tokio::test]
async fn an_expired_token_is_renewed_and_kept() {
    let setting = Setting::new("{\"id_token\":\"NEW\",\"refresh_token\":\"fresher\"}").await;
    let transport = setting.config(&token("old", 5)).connect().expect("fine");
    let (status, heard) = ask(&transport, get("/")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(heard.contains(".new\n"), "{heard}");
    ask(&transport, get("/")).await;
    let basic = ByteString::from("me%2Ftoo:s3cret").to_base64();
    let expected = format!("grant_type=refresh_token&refresh_token=r%26fresh Basic {basic}");
    assert_eq!(*setting.heard.lock().expect("no panic"), [expected], "it was asked once");
    let kept = Kubeconfig::read(&setting.directory.path("config")).expect("we wrote it");
    let settings = &kept.users["jane"].auth_provider.as_ref().expect("it is there").config;
    assert!(settings["id-token"].expose().ends_with(".new"));
    assert_eq!(settings["refresh-token"].expose(), "fresher");
    assert_eq!(settings["client-secret"].expose(), "s3cret");
}

// AU-2
#[tokio::test]
async fn a_token_that_is_good_is_used_until_the_server_refuses_it() {
    let setting = Setting::new("{\"id_token\":\"NEW\"}").await;
    let transport = setting.config(&token("good", 3600)).connect().expect("fine");
    assert!(ask(&transport, get("/")).await.1.contains(".good\n"));
    assert!(setting.heard.lock().expect("no panic").is_empty());
    let transport = setting.config(&token("revoked", 3600)).connect().expect("fine");
    assert!(ask(&transport, get("/")).await.1.contains(".new\n"));
}

// AU-2
#[tokio::test]
async fn a_token_without_a_date_is_used_until_the_server_refuses_it() {
    // The claims are `{}`.
    let setting = Setting::new("{\"id_token\":\"e30.e30.undated\"}").await;
    let transport = setting.config("e30.e30.revoked").connect().expect("fine");
    for _ in 0..3 {
        assert!(ask(&transport, get("/")).await.1.contains(".undated\n"));
    }
    assert_eq!(setting.heard.lock().expect("no panic").len(), 1, "the provider is not asked for each request");
}

// AU-2
#[tokio::test]
async fn space_around_a_token_does_not_hide_that_it_is_the_refused_one() {
    let setting = Setting::new("{\"id_token\":\" NEW\\n\"}").await;
    let transport = setting.config(&format!("' {} '", token("revoked", 3600))).connect().expect("fine");
    assert!(ask(&transport, get("/")).await.1.contains(".new\n"));
}

// AU-2
#[tokio::test]
async fn a_token_renewal_continues_after_its_request_is_dropped() {
    let setting = Setting::new("{\"id_token\":\"NEW\",\"refresh_token\":\"fresher\"}").await;
    setting.answers.forget_permits(100);
    let transport = setting.config(&token("old", 5)).connect().expect("fine");
    let request = tokio::spawn(transport.send(get("/")));
    setting.asked.notified().await;
    request.abort();
    assert!(request.await.is_err_and(|error| error.is_cancelled()));
    setting.answers.add_permits(100);
    let (status, heard) = ask(&transport, get("/")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(heard.contains(".new\n"), "{heard}");
    assert_eq!(setting.heard.lock().expect("no panic").len(), 1, "a refresh token is of use once");
    let kept = Kubeconfig::read(&setting.directory.path("config")).expect("we wrote it");
    let settings = &kept.users["jane"].auth_provider.as_ref().expect("it is there").config;
    assert_eq!(settings["refresh-token"].expose(), "fresher");
}

// AU-2
#[tokio::test]
async fn a_provider_rejection_is_named_without_secrets() {
    let setting = Setting::new("").await;
    let transport = setting.config(&token("old", -5)).connect().expect("fine");
    let error = transport.send(get("/")).await.expect_err("there is no token");
    assert_eq!(error.kind(), TransportErrorKind::Credentials);
    let shown = format!("{error:?} {}", std::error::Error::source(&error).expect("it has a cause"));
    assert!(shown.contains("renewal failed") && !shown.contains("s3cret") && !shown.contains("fresh"), "{shown}");
    assert!(!format!("{:?}", setting.config(&token("old", -5))).contains("s3cret"));
}

// AU-2
#[tokio::test]
async fn waiting_requests_share_a_provider_rejection() {
    let setting = Setting::new("").await;
    setting.answers.forget_permits(100);
    let transport = setting.config(&token("old", -5)).connect().expect("fine");
    let requests: Vec<_> = (0..10).map(|_| tokio::spawn(transport.send(get("/")))).collect();
    setting.asked.notified().await;
    setting.answers.add_permits(100);
    for request in requests {
        let error = request.await.expect("no panic").expect_err("there is no token");
        assert_eq!(error.kind(), TransportErrorKind::Credentials);
    }
    assert_eq!(setting.heard.lock().expect("no panic").len(), 1);
    transport.send(get("/")).await.expect_err("there is still none");
    assert_eq!(setting.heard.lock().expect("no panic").len(), 2, "who comes later tries again");
}

// AU-2
#[test]
fn removed_auth_providers_are_reported() {
    for name in ["gcp", "azure"] {
        let text = format!(
            "current-context: a\nclusters: [{{name: a, cluster: {{server: 'https://a'}}}}]
contexts: [{{name: a, context: {{cluster: a, user: u}}}}]\nusers: [{{name: u, user: {{auth-provider: {{name: {name}}}}}}}]"
        );
        let kubeconfig = Kubeconfig::parse(&text, None).expect("it is fine");
        let error = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect_err("it is gone").to_string();
        assert!(error.contains(name) && error.contains("exec plugin"), "{error}");
    }
}
