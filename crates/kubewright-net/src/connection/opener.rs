//! Opens streams that a program provides.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use crate::transport::{BoxedStream, ByteStream};

/// Opens streams to a server within this process, or over a custom network.
#[derive(Clone)]
pub(super) struct Opener {
    open: Arc<dyn Fn() -> OpenFuture + Send + Sync>,
}

type OpenFuture = Pin<Box<dyn Future<Output = io::Result<BoxedStream>> + Send>>;

impl Opener {
    pub(super) fn new<S: ByteStream, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let open = move || -> OpenFuture {
            let opening = open();
            Box::pin(async move { Ok(Box::new(opening.await?) as BoxedStream) })
        };
        Opener { open: Arc::new(open) }
    }

    pub(super) async fn open(&self) -> io::Result<BoxedStream> {
        (self.open)().await
    }
}
