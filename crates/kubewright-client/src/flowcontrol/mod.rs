//! Client-side flow control: a token bucket, and back-off after errors.
//!
//! client-go gives every group version its own bucket of 5 requests per second, which is the most
//! common cause of slow controllers. Here there is no limit by default, and a limit is shared by
//! all clones of a [`Client`](crate::Client).

mod backoff;
mod token_bucket;

pub use backoff::{Backoff, ErrorBackoff};
pub use token_bucket::{DeadlineTooSoon, TokenBucket};
