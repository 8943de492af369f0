//! Certificates, authorities and keys that the owner of the server brings along.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{
    ApiServer, AuthorizationMode, AuthorizationModes, RequestHeaderOptions, RunningServer, ServiceAccountOptions,
    StaticTokens,
};
use kubewright_core::{ByteString, Value};
use kubewright_storage::Directory;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use crate::client::{Client, text};

/// An authority, and the certificates that it signs.
struct TestAuthority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
struct Identity {
    certificate: String,
    key: String,
}

fn named(name: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    groups.iter().for_each(|group| params.distinguished_name.push(DnType::OrganizationName, *group));
    params
}

impl TestAuthority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("it signs itself").pem();
        TestAuthority { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, groups: &[&str]) -> Identity {
        self.sign_until(name, groups, rcgen::date_time_ymd(4096, 1, 1))
    }

    fn sign_until(&self, name: &str, groups: &[&str], expires: OffsetDateTime) -> Identity {
        let mut params = named(name, groups);
        params.not_after = expires;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs").pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

fn write(directory: &Directory, name: &str, content: &str) -> PathBuf {
    std::fs::create_dir_all(&directory.0).expect("it can be created");
    let path = directory.0.join(name);
    std::fs::write(&path, content).expect("it can be written");
    path
}

async fn listening(server: ApiServer) -> RunningServer {
    server.listen("127.0.0.1:0".parse().expect("an address")).start().await.expect("it starts")
}

/// Connects over TLS. `authority` verifies the server.
async fn connect(server: &RunningServer, authority: &str, identity: Option<&Identity>) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM")).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(vec![certificate], key).expect("they fit")
        }
    };
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it accepts");
    let name = ServerName::try_from("localhost").expect("a name");
    Client::over(TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("a handshake")).await
}

/// Name and groups of the caller, as the server sees them, or the status code.
async fn who(client: &mut Client, headers: &[(&str, &str)]) -> Result<(String, String), u16> {
    let mut request = Request::builder()
        .method("POST")
        .uri("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("host", "localhost")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let response = client.send(request.body(Full::from(body)).expect("a valid request")).await;
    if response.status() != 201 {
        return Err(response.status().as_u16());
    }
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let review = Value::from_json(&body).expect("JSON");
    Ok((text(&review, "status/userInfo/username"), text(&review, "status/userInfo/groups")))
}

#[tokio::test]
async fn client_certificates_of_further_authorities_are_users() {
    let directory = Directory::new("client-ca");
    let (known, unknown) = (TestAuthority::new("known"), TestAuthority::new("unknown"));
    let tokens = StaticTokens::from_csv("s3cret,bob,7").expect("a line");
    let file = write(&directory, "ca.crt", &known.certificate);
    let server = listening(ApiServer::in_memory().client_ca_file(file).tokens(tokens)).await;
    let authority = server.certificate_authority().expect("TLS").to_owned();

    let jane = known.sign("jane", &["dev"]);
    let (name, groups) = who(&mut connect(&server, &authority, Some(&jane)).await, &[]).await.expect("a user");
    assert_eq!(name, "jane");
    assert!(groups.contains("dev") && groups.contains("system:authenticated"), "{groups}");

    let mut stranger = connect(&server, &authority, Some(&unknown.sign("jane", &["system:masters"]))).await;
    assert_eq!(who(&mut stranger, &[]).await, Err(401));
    let by_token = who(&mut stranger, &[("authorization", "Bearer s3cret")]).await.expect("a user");
    assert_eq!(by_token.0, "bob");

    let mut anonymous = connect(&server, &authority, None).await;
    assert_eq!(anonymous.call("GET", "/api/v1/namespaces", "").await.0, 403);
    assert_eq!(anonymous.call("GET", "/healthz", "").await.0, 200);
}

#[tokio::test]
async fn a_connection_that_outlives_its_certificate_has_no_user() {
    let directory = Directory::new("expiring-client");
    let known = TestAuthority::new("known");
    let file = write(&directory, "ca.crt", &known.certificate);
    let server = listening(ApiServer::in_memory().client_ca_file(file)).await;
    let authority = server.certificate_authority().expect("TLS").to_owned();
    let expires = OffsetDateTime::now_utc() + Duration::from_secs(3);
    let mut jane = connect(&server, &authority, Some(&known.sign_until("jane", &[], expires))).await;
    assert_eq!(who(&mut jane, &[]).await.expect("a user").0, "jane");
    // The certificate names whole seconds.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(who(&mut jane, &[]).await, Err(401), "the connection is still open");
}

#[tokio::test]
async fn headers_are_believed_from_front_proxies_only() {
    let directory = Directory::new("front-proxy");
    let (users, proxies) = (TestAuthority::new("users"), TestAuthority::new("proxies"));
    let mut options = RequestHeaderOptions::default();
    options.client_ca_file = write(&directory, "proxies.crt", &proxies.certificate);
    options.allowed_names = vec!["front".into()];
    options.username_headers = vec!["X-Remote-User".into()];
    options.group_headers = vec!["X-Remote-Group".into()];
    let client_ca = write(&directory, "users.crt", &users.certificate);
    let server = listening(ApiServer::in_memory().client_ca_file(client_ca).request_header(options)).await;
    let authority = server.certificate_authority().expect("TLS").to_owned();
    let headers = [("x-remote-user", "jane"), ("x-remote-group", "dev")];

    let mut proxy = connect(&server, &authority, Some(&proxies.sign("front", &[]))).await;
    let (name, groups) = who(&mut proxy, &headers).await.expect("a user");
    assert!(name == "jane" && groups.contains("dev"), "{name} {groups}");
    assert_eq!(who(&mut proxy, &[]).await, Err(401), "a proxy is no user itself");

    let mut other = connect(&server, &authority, Some(&proxies.sign("other", &[]))).await;
    assert_eq!(who(&mut other, &headers).await, Err(401));
    let mut bob = connect(&server, &authority, Some(&users.sign("bob", &[]))).await;
    assert_eq!(who(&mut bob, &headers).await.expect("a user").0, "bob");
    let mut nobody = connect(&server, &authority, None).await;
    assert_eq!(who(&mut nobody, &headers).await, Err(403));
}

#[tokio::test]
async fn the_serving_certificate_comes_from_files() {
    let directory = Directory::new("serving");
    let authority = TestAuthority::new("authority");
    let Identity { certificate, key } = authority.sign("server", &[]);
    let files = (write(&directory, "tls.crt", &certificate), write(&directory, "tls.key", &key));
    let server = listening(ApiServer::in_memory().serving_certificate(files.0, files.1)).await;
    let mut client = connect(&server, &authority.certificate, None).await;
    assert_eq!(client.call("GET", "/readyz", "").await.0, 200);

    let missing = ApiServer::in_memory().serving_certificate("/nowhere/tls.crt", "/nowhere/tls.key");
    let error = missing.listen("127.0.0.1:0".parse().expect("an address")).start().await.expect_err("no file");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains("/nowhere/tls.crt"), "{cause}");
}

#[tokio::test]
async fn a_certificate_directory_is_filled_once() {
    let directory = Directory::new("cert-dir");
    let server = listening(ApiServer::in_memory().certificate_directory(&directory.0)).await;
    let read = |name: &str| std::fs::read_to_string(directory.0.join(name)).expect("it was created");
    let (chain, key) = (read("apiserver.crt"), read("apiserver.key"));
    assert!(server.kubeconfig().contains(&ByteString::from(chain.as_bytes()).to_base64()));
    assert!(is_private(&directory.0.join("apiserver.key")));
    server.stop().await;
    let server = listening(ApiServer::in_memory().certificate_directory(&directory.0)).await;
    assert_eq!((read("apiserver.crt"), read("apiserver.key")), (chain.clone(), key));
    // The second certificate of the file is the authority.
    let authority = chain.split_inclusive("-----END CERTIFICATE-----\n").nth(1).expect("two certificates");
    assert_eq!(connect(&server, authority, None).await.call("GET", "/livez", "").await.0, 200);
}

fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().expect("it exists").permissions().mode() & 0o077 == 0
}

#[tokio::test]
async fn service_account_tokens_have_the_given_keys_and_issuer() {
    let directory = Directory::new("token-keys");
    let key = |curve| KeyPair::generate_for(curve).expect("keys can be made");
    let (ours, theirs) = (key(&rcgen::PKCS_ECDSA_P384_SHA384), key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let mut options = ServiceAccountOptions::default();
    options.issuers = vec!["https://issuer.example".into(), "https://former.example".into()];
    options.signing_key_file = Some(write(&directory, "sign.key", &ours.serialize_pem()));
    options.key_files = [("ours.pub", &ours), ("theirs.pub", &theirs)]
        .map(|(name, key)| write(&directory, name, &key.public_key_pem()))
        .to_vec();
    let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: builder}}";
    let server = listening(ApiServer::in_memory().preload(account).service_account_tokens(options.clone())).await;
    let authority = server.certificate_authority().expect("TLS").to_owned();
    let mut admin = Client::over(server.connect()).await;
    let token = token(&mut admin).await;
    let [header, claims] = [0, 1].map(|part| {
        let part = token.split('.').nth(part).expect("three parts").replace('-', "+").replace('_', "/");
        let padding = "=".repeat((4 - part.len() % 4) % 4);
        let decoded = ByteString::from_base64(format!("{part}{padding}").as_bytes()).expect("base64");
        Value::from_json(&decoded).expect("JSON")
    });
    assert_eq!(text(&header, "alg"), "ES384");
    assert_eq!(text(&claims, "iss"), "https://issuer.example");
    assert_eq!(text(&claims, "aud"), r#"["https://issuer.example","https://former.example"]"#);
    let bearer = format!("Bearer {token}");
    let mut client = connect(&server, &authority, None).await;
    let (name, _) = who(&mut client, &[("authorization", &bearer)]).await.expect("a user");
    assert_eq!(name, "system:serviceaccount:default:builder");
    let (_, keys) = admin.call("GET", "/openid/v1/jwks", "").await;
    let keys = text(&keys, "keys");
    assert!(keys.contains("ES384") && keys.contains("ES256"), "{keys}");
    let (_, provider) = admin.call("GET", "/.well-known/openid-configuration", "").await;
    assert_eq!(text(&provider, "issuer"), "https://issuer.example");

    // Only the given keys verify.
    options.key_files.remove(0);
    let server = listening(ApiServer::in_memory().preload(account).service_account_tokens(options)).await;
    let authority = server.certificate_authority().expect("TLS").to_owned();
    let token = self::token(&mut Client::over(server.connect()).await).await;
    let bearer = format!("Bearer {token}");
    assert_eq!(who(&mut connect(&server, &authority, None).await, &[("authorization", &bearer)]).await, Err(401));
}

async fn token(client: &mut Client) -> String {
    let request = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
    let path = "/api/v1/namespaces/default/serviceaccounts/builder/token";
    let (code, issued) = client.call("POST", path, request).await;
    assert_eq!(code, 201, "{issued:?}");
    text(&issued, "status/token")
}

#[tokio::test]
async fn modes_decide_about_users_without_roles() {
    for (modes, code) in [
        (vec![AuthorizationMode::Rbac], 403),
        (vec![AuthorizationMode::AlwaysDeny], 403),
        (vec![AuthorizationMode::AlwaysDeny, AuthorizationMode::AlwaysAllow], 200),
        (vec![AuthorizationMode::Rbac, AuthorizationMode::AlwaysAllow], 200),
    ] {
        let tokens = StaticTokens::from_csv("s3cret,bob,7").expect("a line");
        let server = ApiServer::in_memory().tokens(tokens);
        let server = listening(server.authorization_modes(AuthorizationModes::new(modes.clone()))).await;
        let authority = server.certificate_authority().expect("TLS").to_owned();
        let mut client = connect(&server, &authority, None).await;
        // Where all users have all rights, requests without credentials are rejected.
        let anonymous = client.call("GET", "/api/v1/namespaces", "").await.0;
        assert_eq!(anonymous, if code == 200 { 401 } else { 403 }, "{modes:?}");
        let request = Request::builder().uri("/api/v1/namespaces").header("authorization", "Bearer s3cret");
        let request = request.header("host", "localhost").body(Full::default()).expect("a valid request");
        assert_eq!(client.send(request).await.status(), code, "{modes:?}");
    }
    assert!("ABAC".parse::<AuthorizationMode>().expect_err("not supported").contains("\"ABAC\""));
}

#[tokio::test]
async fn anonymous_requests_can_be_rejected() {
    let server = listening(ApiServer::in_memory().reject_anonymous()).await;
    let authority = server.certificate_authority().expect("TLS").to_owned();
    let mut client = connect(&server, &authority, None).await;
    assert_eq!(client.call("GET", "/version", "").await.0, 401);
}
