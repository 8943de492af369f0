//! Reads the whole body of a response.

use bytes::Bytes;
use kubewright_net::transport::{Body, TransportError};

/// Collects a body up to the limit, plus at most one chunk.
pub(super) async fn collect(mut body: Body, limit: usize) -> Result<Bytes, TransportError> {
    let Some(first) = body.chunk().await? else { return Ok(Bytes::new()) };
    if first.len() >= limit {
        return Ok(first);
    }
    let Some(second) = body.chunk().await? else { return Ok(first) };
    let mut all = Vec::with_capacity(first.len() + second.len());
    all.extend_from_slice(&first);
    all.extend_from_slice(&second);
    while all.len() < limit
        && let Some(chunk) = body.chunk().await?
    {
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}
