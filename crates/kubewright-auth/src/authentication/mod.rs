//! Authenticates callers by client certificate, by token, or as anonymous.

mod certificate;
mod impersonation;
mod request_header;
mod service_account;
mod token;
mod token_keys;
mod web_page;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str, Time};
use kubewright_net::clock;

pub use certificate::subject;
pub use impersonation::impersonate;
pub use request_header::RequestHeaderOptions;
pub use service_account::{BoundObject, KEY_SET_PATH, ServiceAccountOptions, ServiceAccountTokens, TokenClaims};
pub use token::{StaticTokens, TokenFileError};

use crate::User;
use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::rejection::Rejection;

/// The extra attribute with the ID of the credential.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The peer of a connection.
#[derive(Debug, Clone)]
pub enum Peer {
    /// An in-memory connection, which is trusted.
    Trusted,
    /// Plain HTTP. Trusted if the server has no tokens and the request is not from a web page.
    Plain {
        /// Whether the peer is on this machine.
        is_on_loopback: bool,
    },
    /// TLS without a client certificate.
    Unknown,
    /// TLS with a client certificate.
    Certified(ClientCertificate),
}

/// The identities that a client certificate proves until it expires. None if no authority of the
/// server signed it.
#[derive(Debug, Clone, Default)]
pub struct ClientCertificate {
    /// The user, if an authority of users signed it.
    pub user: Option<User>,
    /// The common name, if an authority of front proxies signed it.
    pub front_proxy: Option<Str>,
    /// The time until which it is valid.
    pub expires: Option<Time>,
}

/// Verifies tokens and the headers of front proxies.
#[derive(Debug)]
pub struct Authenticator {
    /// The tokens of a file.
    pub tokens: StaticTokens,
    /// The tokens of service accounts.
    pub accounts: ServiceAccountTokens,
    /// The front proxies and their headers. `None` if there are none.
    pub request_header: Option<RequestHeaderOptions>,
    /// Whether requests without credentials are rejected with 401.
    pub rejects_anonymous: bool,
}

impl Authenticator {
    /// The user of a token, and those of `audiences` that it is valid for. Static tokens are valid
    /// for all.
    pub fn user(&self, objects: &dyn ObjectReader, token: &str, audiences: &[Str]) -> Option<(User, Vec<Str>)> {
        match self.tokens.user(token) {
            Some(user) => Some((user, audiences.to_vec())),
            None => self.accounts.user(objects, token, audiences),
        }
    }

    fn user_of_certificate(&self, certificate: &ClientCertificate, headers: &HeaderMap) -> Option<User> {
        // The handshake verified it, but a connection may outlive its certificate.
        certificate.expires.filter(|expires| clock::now() <= *expires)?;
        let of_headers = || {
            let (name, options) = (certificate.front_proxy.as_ref()?, self.request_header.as_ref()?);
            options.user(headers).filter(|_| options.allows(name))
        };
        of_headers().or_else(|| certificate.user.clone())
    }
}

/// Authenticates the caller: by the headers of a front proxy, by client certificate, by token, or
/// as anonymous. An unknown token or certificate is an error, unless something else names the user.
///
/// Over plain HTTP, a server without tokens trusts every program that reaches it. With tokens, a
/// request without one is anonymous.
pub fn authenticate(
    objects: &dyn ObjectReader,
    peer: &Peer,
    headers: &HeaderMap,
    authenticator: &Authenticator,
) -> Result<User, Rejection> {
    let unauthorized = || Rejection::from(Status::unauthorized("Unauthorized"));
    if let Peer::Certified(certificate) = peer
        && let Some(user) = authenticator.user_of_certificate(certificate, headers)
    {
        return Ok(user);
    }
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    if let Some(token) = token {
        let known = authenticator.user(objects, token, authenticator.accounts.api_audiences());
        return known.map(|(user, _)| user).ok_or_else(unauthorized);
    }
    match peer {
        Peer::Trusted => Ok(User::admin()),
        Peer::Plain { is_on_loopback } if authenticator.tokens.is_empty() => {
            if web_page::is_foreign(headers, *is_on_loopback) {
                let why = "requests from web pages are rejected over plain HTTP; use a token, or serve over TLS";
                return Err(Status::forbidden(&GroupResource::default(), "", why).into());
            }
            Ok(User::admin())
        }
        Peer::Plain { .. } | Peer::Unknown if !authenticator.rejects_anonymous => Ok(User::anonymous()),
        Peer::Plain { .. } | Peer::Unknown | Peer::Certified(_) => Err(unauthorized()),
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
