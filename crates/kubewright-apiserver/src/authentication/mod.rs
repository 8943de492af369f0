//! Who asks: a client certificate, a token, or nobody.

mod account;
mod certificate;
mod impersonation;
mod page;
mod token;

use std::collections::BTreeMap;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str, Value};

pub(crate) use account::{Accounts, Grant, ISSUER, KEY_SET_PATH};
pub(crate) use certificate::{is_one_sequence, subject};
pub(crate) use impersonation::impersonate;
pub use token::{TokenFileError, Tokens};

use crate::object::tree;
use crate::registry::Registry;
use crate::rejection::Rejection;

/// What is known of the credential that was shown, under this name.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Members may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct User {
    pub(crate) name: Str,
    pub(crate) uid: Str,
    pub(crate) groups: Vec<Str>,
    /// What else is known, by names with a domain.
    pub(crate) extra: BTreeMap<Str, Vec<Str>>,
}

impl User {
    /// A user who has shown credentials.
    pub(crate) fn authenticated(name: impl Into<Str>, uid: impl Into<Str>, mut groups: Vec<Str>) -> Self {
        groups.push("system:authenticated".into());
        User { name: name.into(), uid: uid.into(), groups, extra: BTreeMap::new() }
    }

    /// Who has shown none.
    pub(crate) fn anonymous() -> Self {
        User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
    }

    /// Who needs none, because the connection is only open to the owner of the server.
    pub(crate) fn admin() -> Self {
        User::authenticated("kubernetes-admin", "", vec![MASTERS.into()])
    }

    /// The user with one more thing that is known.
    pub(crate) fn with_extra(mut self, name: &str, value: impl Into<Str>) -> Self {
        self.extra.entry(name.into()).or_default().push(value.into());
        self
    }

    /// The user as objects describe one.
    pub(crate) fn info(&self) -> Value {
        let mut info = tree::map([("username", self.name.clone().into())]);
        if !self.uid.is_empty() {
            tree::set(&mut info, &["uid"], self.uid.clone());
        }
        tree::set(&mut info, &["groups"], tree::list(self.groups.iter().map(|group| group.as_str())));
        if let Some(extra) = self.extra() {
            tree::set(&mut info, &["extra"], extra);
        }
        info
    }

    /// What else is known, unless it is nothing.
    pub(crate) fn extra(&self) -> Option<Value> {
        let texts = |values: &[Str]| tree::list(values.iter().map(|value| value.as_str()));
        let extra = self.extra.iter().map(|(name, values)| (name.clone(), texts(values)));
        (!self.extra.is_empty()).then(|| Value::Object(extra.collect()))
    }

    /// Whether the user belongs to `group`.
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|have| have == group)
    }
}

/// What a connection says of its peer.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// The connection itself is trusted: it is made in memory.
    Trusted,
    /// Plain HTTP. Trusted if the server has no tokens and the caller is no web page.
    Plain {
        /// Whether it is made on this machine.
        is_on_loopback: bool,
    },
    /// TLS without a client certificate.
    Unknown,
    /// TLS with a certificate that our authority has signed.
    Certified(User),
}

/// Who can show whose token: those in a file, and those of service accounts.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) tokens: Tokens,
    pub(crate) accounts: Accounts,
}

impl Authenticator {
    /// Whose token this is, and for which of these audiences; tokens of the file are for all.
    pub(crate) fn user(&self, registry: &Registry, token: &str, audiences: &[Str]) -> Option<(User, Vec<Str>)> {
        match self.tokens.user(token) {
            Some(user) => Some((user, audiences.to_vec())),
            None => self.accounts.user(registry, token, audiences),
        }
    }
}

/// Identifies the caller. An unknown token is an error, except on a connection with a client
/// certificate.
///
/// Over plain HTTP a server without tokens trusts every program that reaches it. With tokens, a
/// request without one is anonymous.
pub(crate) fn authenticate(
    registry: &Registry,
    peer: &Peer,
    headers: &HeaderMap,
    authenticator: &Authenticator,
) -> Result<User, Rejection> {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    match (peer, token) {
        (Peer::Certified(user), _) => Ok(user.clone()),
        (_, Some(token)) => {
            let known = authenticator.user(registry, token, &[ISSUER.into()]);
            known.map(|(user, _)| user).ok_or_else(|| Status::unauthorized("Unauthorized").into())
        }
        (Peer::Plain { .. }, None) if !authenticator.tokens.is_empty() => Ok(User::anonymous()),
        (Peer::Plain { is_on_loopback }, None) if page::is_foreign(headers, *is_on_loopback) => {
            let why = "a web page asks, and not a program of this machine; show a token, or serve over TLS";
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
