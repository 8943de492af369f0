//! Asks the API server who calls an endpoint, and whether the caller may.
//!
//! The counterpart of controller-runtime's `WithAuthenticationAndAuthorization`, with its codes and
//! texts: 401 without a valid token, 403 without permission, 500 if the server does not answer.
//! Decisions are cached for as long as there: a minute for tokens, five minutes for permissions, 30
//! seconds for their lack. Differences: the caches are bounded by their number of entries, at most
//! ten reviews are sent at a time, so that unknown tokens do not flood the server, and a failed
//! review is not repeated, because the scraper repeats its request.

mod cache;

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};
use kubewright_api::authentication::v1::{TokenReview, UserInfo};
use kubewright_api::authorization::v1::{NonResourceAttributes, SubjectAccessReview};
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;

use crate::error::chain;
use cache::DecisionCache;

const TOKEN_LIFETIME: Duration = Duration::from_secs(60);
const ALLOW_LIFETIME: Duration = Duration::from_secs(5 * 60);
const DENY_LIFETIME: Duration = Duration::from_secs(30);

/// Timeout of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent reviews.
const MAX_REVIEWS: usize = 10;
/// Larger descriptions of a caller are not cached, as in kube-apiserver.
const MAX_CACHED_CALLER: usize = 10_000;

/// Admits requests whose bearer token has the permission.
pub(crate) struct AccessFilter {
    client: Client,
    /// By the hash of the token; `None` if it is invalid.
    callers: DecisionCache<Vec<u8>, Option<UserInfo>>,
    /// By the review.
    permissions: DecisionCache<Vec<u8>, bool>,
    reviews: Semaphore,
}

/// Why a request is refused: the code and text of its response.
pub(crate) type AccessRefusal = (StatusCode, String);

impl AccessFilter {
    pub(crate) fn new(client: &Client) -> Self {
        AccessFilter {
            client: client.clone().default_request_timeout(REVIEW_TIMEOUT),
            callers: DecisionCache::new(),
            permissions: DecisionCache::new(),
            reviews: Semaphore::new(MAX_REVIEWS),
        }
    }

    /// Returns whether the caller may do `verb`, the lower-case method, at `path`.
    pub(crate) async fn admit(&self, headers: &HeaderMap, verb: &str, path: &str) -> Result<(), AccessRefusal> {
        let failed = |error, text: String| {
            tracing::error!(error = chain(&error), "{text}");
            (StatusCode::INTERNAL_SERVER_ERROR, text)
        };
        let caller = match bearer_token(headers) {
            Some(token) => {
                self.caller(token).await.map_err(|error| failed(error, "Authentication failed".to_owned()))?
            }
            None => None,
        };
        let Some(caller) = caller else { return Err((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned())) };
        let name = caller.username.clone().unwrap_or_default();
        let allowed = self.is_allowed(caller, verb, path).await;
        match allowed.map_err(|error| failed(error, format!("Authorization for user {name} failed")))? {
            true => Ok(()),
            false => Err((StatusCode::FORBIDDEN, format!("Authorization denied for user {name}"))),
        }
    }

    async fn caller(&self, token: &str) -> kubewright_client::Result<Option<UserInfo>> {
        // The hash, so that the cache holds no secrets.
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some(caller) = self.callers.get(&key) {
            return Ok(caller);
        }
        let _permit = self.reviews.acquire().await;
        // Another request may have asked for the same token meanwhile.
        if let Some(caller) = self.callers.get(&key) {
            return Ok(caller);
        }
        let mut review = TokenReview::default();
        review.spec.token = token.into();
        let status = Api::<TokenReview>::all(&self.client).create(&review).await?.status.unwrap_or_default();
        let user = status.user.map(|user| user.into_inner()).unwrap_or_default();
        let caller = status.authenticated.unwrap_or_default().then_some(user);
        self.callers.insert(&key, caller.clone(), TOKEN_LIFETIME);
        Ok(caller)
    }

    async fn is_allowed(&self, caller: UserInfo, verb: &str, path: &str) -> kubewright_client::Result<bool> {
        let mut review = SubjectAccessReview::default();
        (review.spec.user, review.spec.uid) = (caller.username, caller.uid);
        (review.spec.groups, review.spec.extra) = (caller.groups, caller.extra);
        let attributes = NonResourceAttributes { path: Some(path.into()), verb: Some(verb.into()) };
        review.spec.non_resource_attributes = Some(attributes.into());
        let key = review.to_json();
        if let Some(is_allowed) = self.permissions.get(&key) {
            return Ok(is_allowed);
        }
        let _permit = self.reviews.acquire().await;
        let reviewed = Api::<SubjectAccessReview>::all(&self.client).create(&review).await?;
        let is_allowed = reviewed.status.is_some_and(|status| status.allowed);
        if key.len() < MAX_CACHED_CALLER {
            let lifetime = if is_allowed { ALLOW_LIFETIME } else { DENY_LIFETIME };
            self.permissions.insert(&key, is_allowed, lifetime);
        }
        Ok(is_allowed)
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
