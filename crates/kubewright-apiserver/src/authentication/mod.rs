//! Authenticates callers by client certificate, by token, or as anonymous.

mod account;
mod certificate;
mod impersonation;
mod token;
mod web_page;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str};

pub(crate) use account::{Accounts, BoundObject, ISSUER, KEY_SET_PATH, TokenClaims};
pub(crate) use certificate::subject;
pub(crate) use impersonation::impersonate;
pub use token::{StaticTokens, TokenFileError};

use crate::user::User;
use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::rejection::Rejection;

/// The extra attribute with the ID of the credential.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The peer of a connection.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// An in-memory connection, which is trusted.
    Trusted,
    /// Plain HTTP. Trusted if the server has no tokens and the request is not from a web page.
    Plain {
        /// Whether the peer is on this machine.
        is_on_loopback: bool,
    },
    /// TLS without a client certificate.
    Unknown,
    /// TLS with a client certificate of the server's authority.
    Certified(User),
}

/// Verifies static tokens and service account tokens.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) tokens: StaticTokens,
    pub(crate) accounts: Accounts,
}

impl Authenticator {
    /// The user of a token, and those of `audiences` that it is valid for. Static tokens are valid
    /// for all.
    pub(crate) fn user(&self, objects: &dyn ObjectReader, token: &str, audiences: &[Str]) -> Option<(User, Vec<Str>)> {
        match self.tokens.user(token) {
            Some(user) => Some((user, audiences.to_vec())),
            None => self.accounts.user(objects, token, audiences),
        }
    }
}

/// Authenticates the caller. An unknown token is an error, except on a connection with a client
/// certificate.
///
/// Over plain HTTP, a server without tokens trusts every program that reaches it. With tokens, a
/// request without one is anonymous.
pub(crate) fn authenticate(
    objects: &dyn ObjectReader,
    peer: &Peer,
    headers: &HeaderMap,
    authenticator: &Authenticator,
) -> Result<User, Rejection> {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    match (peer, token) {
        (Peer::Certified(user), _) => Ok(user.clone()),
        (_, Some(token)) => {
            let known = authenticator.user(objects, token, &[ISSUER.into()]);
            known.map(|(user, _)| user).ok_or_else(|| Status::unauthorized("Unauthorized").into())
        }
        (Peer::Plain { .. }, None) if !authenticator.tokens.is_empty() => Ok(User::anonymous()),
        (Peer::Plain { is_on_loopback }, None) if web_page::is_foreign(headers, *is_on_loopback) => {
            let why = "requests from web pages are rejected over plain HTTP; use a token, or serve over TLS";
            Err(Status::forbidden(&GroupResource::default(), "", why).into())
        }
        (Peer::Trusted | Peer::Plain { .. }, None) => Ok(User::admin()),
        (Peer::Unknown, None) => Ok(User::anonymous()),
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
