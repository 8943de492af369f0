//! How fast a client may ask: a bucket of tokens, and a pause after errors.
//!
//! Client-go gives every group and version its own bucket of 5 requests a second, which is the reason most often
//! found for a slow controller. Here there is no limit unless one is given, and it is then shared by all clones of
//! a [`Client`](crate::Client).

mod backoff;
mod token_bucket;

pub use backoff::{Backoff, ErrorBackoff};
pub use token_bucket::{DeadlineTooSoon, TokenBucket};
