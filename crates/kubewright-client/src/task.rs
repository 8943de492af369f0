//! Futures behind a pointer, and tasks that are made of them.
//!
//! A task of tokio, a timeout and a `select!` are generic over the future inside. The compiler puts them into a codegen unit of
//! their own, with another copy of the future and of what drops it, and tasks are compiled for each scheduler besides. Behind a pointer,
//! all of that exists once. Where a connection or a program is started, the allocation does not show.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// A future of whatever kind.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts a task.
pub fn spawn(work: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(work)
}
