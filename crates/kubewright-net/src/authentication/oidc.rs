//! Tokens of an OpenID Connect provider, renewed when they expire.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Uri};
use kubewright_core::{ByteString, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::connect::Connect;
use super::renewal::Renewal;
use crate::config::{Config, TlsOptions};
use crate::credentials::{CertificateSource, Oidc};
use crate::error::ConfigError;
use crate::kubeconfig::Kubeconfig;
use crate::secret::Secret;
use crate::task;

/// A token counts as expired this much earlier, to allow for latency.
const LEEWAY: Duration = Duration::from_secs(10);
/// Timeout of requests to the provider.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Size limit of the provider's responses.
const ANSWER_MAX: usize = 1 << 20;

/// Why no token could be obtained. Contains none.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// A setting is missing.
    #[error("identity provider: {0} is not configured")]
    Setting(&'static str),
    /// The provider was unreachable, or returned an error.
    #[error("identity provider: {step} failed: {problem}")]
    Provider {
        /// The failed step.
        step: &'static str,
        /// The problem.
        problem: String,
    },
}

/// A provider with its tokens. At most one renewal at a time; concurrent callers wait for it.
pub(crate) struct OidcProvider {
    provider: Arc<Provider>,
    /// Held during a renewal.
    tokens: Arc<Mutex<Tokens>>,
    renewal: Renewal<Result<Secret<String>, OidcError>>,
}

/// The inputs of a renewal.
struct Provider {
    oidc: Oidc,
    tls: TlsOptions,
    base: Config,
    connect: Connect,
}

#[derive(Clone)]
struct Tokens {
    id: Option<Secret<String>>,
    refresh: Option<Secret<String>>,
}

impl OidcProvider {
    pub(crate) fn new(oidc: &Oidc, config: &Config, connect: Connect) -> Result<Self, ConfigError> {
        let setting = |name: &str| oidc.settings.get(name).filter(|value| !value.expose().is_empty());
        for name in ["idp-issuer-url", "client-id"] {
            if setting(name).is_none() {
                return Err(ConfigError::Invalid(format!("auth-provider oidc: {name} is not given")));
            }
        }
        let data = setting("idp-certificate-authority-data").map(|data| {
            let bytes = ByteString::from_base64(data.expose().as_bytes());
            bytes.map(CertificateSource::Data).map_err(|_| {
                ConfigError::Invalid("auth-provider oidc: idp-certificate-authority-data is not base64".to_owned())
            })
        });
        let file = setting("idp-certificate-authority").map(|file| CertificateSource::File(file.expose().into()));
        let tls = TlsOptions { authority: data.transpose()?.or(file), ..TlsOptions::default() };
        let id = setting("id-token").and_then(|token| trimmed(token.expose()));
        let tokens = Tokens { id, refresh: setting("refresh-token").cloned() };
        let provider = Provider { oidc: oidc.clone(), tls, base: config.anonymous(), connect };
        Ok(OidcProvider {
            provider: Arc::new(provider),
            tokens: Arc::new(Mutex::new(tokens)),
            renewal: Renewal::default(),
        })
    }

    /// A token that is not about to expire.
    pub(crate) async fn token(&self) -> Result<Secret<String>, OidcError> {
        let before = self.renewal.count();
        let tokens = Arc::clone(&self.tokens).lock_owned().await;
        if let Some(token) = tokens.id.as_ref().filter(|token| !is_expired(token.expose())) {
            return Ok(token.clone());
        }
        match self.renewal.since(before) {
            Some(result) => result,
            None => self.renew(tokens).await,
        }
    }

    /// Renews a token that the server rejected, unless it was renewed since.
    pub(crate) async fn refresh(&self, refused: &str) -> bool {
        let before = self.renewal.count();
        let tokens = Arc::clone(&self.tokens).lock_owned().await;
        if tokens.id.as_ref().is_some_and(|token| token.expose() != refused) {
            return true;
        }
        let result = match self.renewal.since(before) {
            Some(result) => result,
            None => self.renew(tokens).await,
        };
        match result {
            Ok(token) => token.expose() != refused,
            Err(error) => {
                tracing::warn!(%error, "the server refused the token and no other could be had");
                false
            }
        }
    }

    /// Renews the tokens. It continues if the caller is dropped: a refresh token may be valid only
    /// once, so the response must be stored.
    async fn renew(&self, mut tokens: OwnedMutexGuard<Tokens>) -> Result<Secret<String>, OidcError> {
        let provider = Arc::clone(&self.provider);
        // Boxed, to keep the futures of ordinary requests small.
        let work = Box::pin(async move { (provider.renew(&mut tokens).await, tokens) });
        self.renewal
            .run(work)
            .await
            .unwrap_or_else(|| Err(OidcError::Provider { step: "renewal", problem: "the task was aborted".to_owned() }))
    }
}

impl Provider {
    async fn renew(&self, tokens: &mut Tokens) -> Result<Secret<String>, OidcError> {
        let refresh = tokens.refresh.clone().ok_or(OidcError::Setting("refresh-token"))?;
        let client_id = self.setting("client-id")?;
        let issuer = self.setting("idp-issuer-url")?.trim_end_matches('/').to_owned();
        let well_known = format!("{issuer}/.well-known/openid-configuration");
        let discovery = self.ask("discovery", Method::GET, &well_known, &[], Bytes::new()).await?;
        let missing = || OidcError::Provider { step: "discovery", problem: "no token_endpoint".to_owned() };
        let endpoint = discovery.get("token_endpoint").and_then(Value::as_str).ok_or_else(missing)?;

        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let mut headers = vec![(CONTENT_TYPE, "application/x-www-form-urlencoded".to_owned())];
        match self.setting("client-secret") {
            Ok(secret) if wants_secret_in_body(&discovery) => {
                form.extend([("client_id", client_id), ("client_secret", secret)]);
            }
            Ok(secret) => {
                let pair = format!("{}:{}", escape(client_id), escape(secret));
                headers.push((AUTHORIZATION, format!("Basic {}", ByteString::from(pair.as_str()).to_base64())));
            }
            Err(_) => form.push(("client_id", client_id)),
        }
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let answer = self.ask("renewal", Method::POST, endpoint, &headers, body.join("&").into()).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(Secret::from);
        let missing = || OidcError::Provider { step: "renewal", problem: "no id_token".to_owned() };
        let id = text("id_token").and_then(|token| trimmed(token.expose())).ok_or_else(missing)?;
        // If the provider returns no new refresh token, the old one stays valid.
        *tokens = Tokens { id: Some(id.clone()), refresh: text("refresh_token").or(Some(refresh)) };
        self.keep(tokens.clone()).await;
        Ok(id)
    }

    /// Writes new tokens to the kubeconfig. A failure is only logged, since the tokens are valid.
    async fn keep(&self, tokens: Tokens) {
        let (Some(rules), Some(user)) = (self.oidc.store.clone(), self.oidc.user.clone()) else { return };
        let edit = move |kubeconfig: &mut Kubeconfig| {
            let provider = kubeconfig.users.get_mut(&user).and_then(|user| user.auth_provider.as_mut());
            // The user was removed in the meantime and is not recreated.
            let Some(provider) = provider else { return };
            for (name, token) in [("id-token", tokens.id), ("refresh-token", tokens.refresh)] {
                provider.config.extend(token.map(|token| (name.to_owned(), token)));
            }
        };
        let saved = tokio::task::spawn_blocking(move || rules.edit(edit));
        if let Ok(Err(error)) = saved.await {
            tracing::warn!(%error, "new tokens could not be written to the kubeconfig");
        }
    }

    async fn ask(
        &self,
        step: &'static str,
        method: Method,
        url: &str,
        headers: &[(http::HeaderName, String)],
        body: Bytes,
    ) -> Result<Value, OidcError> {
        let failed = |problem: String| OidcError::Provider { step, problem };
        let uri: Uri = url.parse().map_err(|_| failed("the URL makes no sense".to_owned()))?;
        if uri.scheme() != Some(&http::uri::Scheme::HTTPS) {
            return Err(failed("the URL is not https".to_owned()));
        }
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let mut config = Config::new(&format!("https://{authority}")).map_err(|error| failed(error.to_string()))?;
        config.tls = self.tls.clone();
        config.environment = self.base.environment.clone();
        config.timeout = Some(TIMEOUT);
        // The certificate authorities are read from files.
        let connect = self.connect;
        let connected = task::blocking(move || connect(&config)).await;
        let transport = connected.map_err(|error| failed(error.to_string()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(body).map_err(|error| failed(error.to_string()))?;
        let response = transport.send(request).await.map_err(|error| failed(chain(&error)))?;
        let status = response.status();
        let (mut body, mut bytes) = (response.into_body(), Vec::new());
        while let Some(chunk) = body.chunk().await.map_err(|error| failed(chain(&error)))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_MAX {
                return Err(failed("the answer is too long".to_owned()));
            }
        }
        // The body of an error may repeat the request, so only the status code is reported.
        if !status.is_success() {
            return Err(failed(format!("it answered {status}")));
        }
        Value::from_json(&bytes).map_err(|_| failed("the answer is no JSON".to_owned()))
    }

    fn setting(&self, name: &'static str) -> Result<&str, OidcError> {
        let value = self.oidc.settings.get(name).map(|value| value.expose().as_str());
        value.filter(|value| !value.is_empty()).ok_or(OidcError::Setting(name))
    }
}

impl fmt::Debug for OidcProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcProvider").field("oidc", &self.provider.oidc).finish_non_exhaustive()
    }
}

/// A token as it will be sent, for comparison with a rejected one; `None` if it is empty.
fn trimmed(token: &str) -> Option<Secret<String>> {
    Some(token.trim()).filter(|token| !token.is_empty()).map(Secret::from)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// Whether the provider accepts the client secret only in the body.
fn wants_secret_in_body(discovery: &Value) -> bool {
    let methods = discovery.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let has = |name: &str| methods.is_some_and(|methods| methods.iter().any(|method| method.as_str() == Some(name)));
    has("client_secret_post") && !has("client_secret_basic")
}

/// Whether a token has expired according to its own claim.
fn is_expired(token: &str) -> bool {
    let expiry = || {
        let claims = token.split('.').nth(1)?;
        let mut text: String = claims
            .chars()
            .map(|c| {
                if c == '-' {
                    '+'
                } else if c == '_' {
                    '/'
                } else {
                    c
                }
            })
            .collect();
        text.extend(std::iter::repeat_n('=', text.len().wrapping_neg() % 4));
        let claims = Value::from_json(&ByteString::from_base64(text.as_bytes()).ok()?).ok()?;
        claims.get("exp")?.as_f64()
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    expiry().is_some_and(|seconds| seconds <= (now + LEEWAY).as_secs_f64())
}

/// Escapes everything but the unreserved characters of URLs.
fn escape(text: &str) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED)
}
