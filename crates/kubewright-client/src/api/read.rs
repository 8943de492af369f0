//! Get, list and watch.

use std::pin::{Pin, pin};

use http::Method;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{GetOptions, ListOptions, WatchOptions};
use kubewright_core::{Object, ObjectList};
use tokio::time::timeout_at;

use super::{Api, ListStream, WatchStream, accepting};
use crate::error::{Error, Result};
use kubewright_net::transport::{TransportError, TransportErrorKind};

impl<T: Object> Api<T> {
    /// The current object of this name.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is none.
    #[doc(alias = "Get")]
    pub async fn get(&self, name: &str) -> Result<T> {
        self.get_with(name, &GetOptions::default()).await
    }

    /// The object of this name, or `None` if the API server reports that it does not exist.
    ///
    /// # Errors
    /// Those of [`get`](Self::get). A 404 that does not name the object is an error too: it comes
    /// from a server without the resource, or from a proxy, and proves nothing about the object.
    #[doc(alias = "IgnoreNotFound")]
    pub async fn get_opt(&self, name: &str) -> Result<Option<T>> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::Status(status)) if says_absent(&status, name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object of this name, possibly from the server's cache.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[doc(alias = "Get")]
    pub async fn get_with(&self, name: &str, options: &GetOptions) -> Result<T> {
        let request = self.request_of(Method::GET, name).options(|query| options.append_query(query));
        accepting::<T>(request).send().await?.decode()
    }

    /// All matching objects, or one page of them if `options` sets a limit.
    ///
    /// [`Pager`](crate::Pager) requests page after page.
    #[doc(alias = "List")]
    pub async fn list(&self, options: &ListOptions) -> Result<ObjectList<T>> {
        let (answer, deadline) = self.endpoint.list_request(options, T::HAS_PROTOBUF).stream_whole().await?;
        let mut stream = ListStream::new(answer);
        let collected: Pin<&mut (dyn Future<Output = _> + Send)> = pin!(async {
            let mut items = Vec::new();
            while let Some(item) = stream.next().await {
                items.push(item?);
            }
            items.shrink_to_fit();
            Ok(ObjectList { metadata: stream.into_metadata(), items })
        });
        let Some(deadline) = deadline else { return collected.await };
        let late = |elapsed| Err(TransportError::new(TransportErrorKind::Timeout, elapsed).into());
        timeout_at(deadline, collected).await.unwrap_or_else(late)
    }

    /// All matching objects, each as soon as it arrives.
    ///
    /// Buffers one object at a time. The version of the list is known when the stream has ended:
    /// [`ListStream::metadata`].
    #[doc(alias = "List")]
    pub async fn list_stream(&self, options: &ListOptions) -> Result<ListStream<T>> {
        Ok(ListStream::new(self.endpoint.list(options, T::HAS_PROTOBUF).await?))
    }

    /// Watches the matching objects, from the version in `options` on.
    ///
    /// A watch that cannot be opened because of a broken connection or a timeout is returned as one
    /// that ended immediately: callers must handle the end of a watch anyway.
    ///
    /// # Errors
    /// If the server refuses: [`is_expired`](crate::Error::is_expired) if the version is too old.
    /// Later errors are events, [`WatchEvent::Error`](kubewright_core::stream::WatchEvent::Error).
    #[doc(alias = "Watch")]
    pub async fn watch(&self, options: &WatchOptions) -> Result<WatchStream<T>> {
        let answer = self.endpoint.watch(options, T::HAS_PROTOBUF).await?;
        Ok(answer.map_or_else(WatchStream::ended, WatchStream::new))
    }
}

/// Whether a `Status` of the API server reports that the object of this name does not exist.
fn says_absent(status: &Status, name: &str) -> bool {
    let named = status.details.as_ref().and_then(|details| details.name.as_deref());
    // For a body that is not a `Status`, the client synthesises one that names the object.
    status.is_not_found() && named == Some(name) && !status.is_unexpected_server_error()
}
