//! Paginated lists.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;

use kubewright_core::meta::v1::ListMeta;
use kubewright_core::options::ListOptions;
use kubewright_core::{Object, ObjectList};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::error::Result;

/// Default page size.
const PAGE_SIZE: u32 = 500;
/// Default number of prefetched pages.
const PREFETCHED: usize = 10;

/// Reads a collection page by page, to limit the load on the server and the network.
///
/// ```
/// # use kubewright_client::{Api, Pager, Result};
/// # use kubewright_core::Object;
/// # async fn example<T: Object>(api: Api<T>) -> Result<()> {
/// let mut objects = Pager::new(api).page_size(100).each(Default::default());
/// while let Some(object) = objects.next().await {
///     println!("{}", object?.name());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "ListPager")]
pub struct Pager<T> {
    api: Api<T>,
    page_size: u32,
    prefetched: usize,
    full_list_if_expired: bool,
}

impl<T: Object> Pager<T> {
    /// Pages of 500 objects of `api`.
    pub fn new(api: Api<T>) -> Self {
        Pager { api, page_size: PAGE_SIZE, prefetched: PREFETCHED, full_list_if_expired: true }
    }

    /// The page size, unless the list options set a limit. 500 by default.
    #[must_use]
    #[doc(alias = "PageSize")]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// The number of pages that [`each`](Self::each) prefetches, at least one. 10 by default.
    #[must_use]
    #[doc(alias = "PageBufferSize")]
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetched = pages.max(1);
        self
    }

    /// Fails if the continue token expires before the last page. By default
    /// [`list`](Self::list) then repeats the list without pagination.
    #[must_use]
    #[doc(alias = "FullListIfExpired")]
    pub fn fail_if_expired(mut self) -> Self {
        self.full_list_if_expired = false;
        self
    }

    /// All matching objects, collected from all pages.
    ///
    /// The version in `options` applies to the first page; the continue token implies it
    /// afterwards. The result has the version of the first page and no token.
    ///
    /// # Errors
    /// The error of any page. If a later page has expired and the full list fails too, the error of
    /// that list.
    #[doc(alias = "List")]
    pub async fn list(&self, options: &ListOptions) -> Result<ObjectList<T>> {
        let mut page_options = self.first(options);
        let mut all: Option<ObjectList<T>> = None;
        loop {
            let page = match self.api.list(&page_options).await {
                Ok(page) => page,
                Err(error) if error.is_expired() && all.is_some() && self.full_list_if_expired => {
                    tracing::debug!("pages of {} expired, listing afresh", self.api.resource());
                    let whole = ListOptions { limit: None, continue_token: None, ..options.clone() };
                    return self.api.list(&whole).await;
                }
                Err(error) => return Err(error),
            };
            let next = following(&page_options, &page.metadata);
            let all = match &mut all {
                Some(all) => {
                    all.items.extend(page.items);
                    all
                }
                None if next.is_none() => return Ok(page),
                None => {
                    let metadata = ListMeta { resource_version: page.metadata.resource_version, ..Default::default() };
                    all.insert(ObjectList { metadata, items: page.items })
                }
            };
            match next {
                Some(next) => page_options = next,
                None => return Ok(std::mem::take(all)),
            }
        }
    }

    /// The matching objects one by one, without restarts.
    ///
    /// A task prefetches pages until the result is dropped. Must be called within a runtime.
    #[doc(alias = "EachListItem")]
    pub fn each(&self, options: ListOptions) -> PagedItems<T> {
        let (sender, pages) = mpsc::channel(self.prefetched);
        let (api, first) = (self.api.clone(), self.first(&options));
        let reader = tokio::spawn(async move {
            let mut next = Some(first);
            while let Some(options) = next {
                // Waits for capacity before requesting the page, to bound the number of buffered
                // pages.
                let Ok(room) = sender.reserve().await else { return };
                let page = api.list(&options).await;
                next = page.as_ref().ok().and_then(|page| following(&options, &page.metadata));
                room.send(page.map(|page| page.items));
            }
        });
        PagedItems { pages, page: VecDeque::new(), reader: Some(reader) }
    }

    fn first(&self, options: &ListOptions) -> ListOptions {
        let mut first = options.clone();
        first.limit.get_or_insert(self.page_size.into());
        first
    }
}

/// The options of the next page; `None` after the last.
#[inline]
fn following(options: &ListOptions, metadata: &ListMeta) -> Option<ListOptions> {
    let token = metadata.continue_.clone().filter(|token| !token.is_empty())?;
    Some(ListOptions {
        continue_token: Some(token),
        resource_version: None,
        resource_version_match: None,
        ..options.clone()
    })
}

/// The objects of a paginated list. Reading ends on drop.
#[derive(Debug)]
pub struct PagedItems<T> {
    pages: mpsc::Receiver<Result<Vec<T>>>,
    page: VecDeque<T>,
    /// `None` after the end.
    reader: Option<JoinHandle<()>>,
}

impl<T: Object> PagedItems<T> {
    /// The next object, or `None` after the last. After an error there are no more. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(object) = self.page.pop_front() {
                return Some(Ok(object));
            }
            match self.pages.recv().await {
                Some(Ok(page)) => self.page = page.into(),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    let ended = match &mut self.reader {
                        Some(reader) => poll_fn(|context| Pin::new(&mut *reader).poll(context)).await,
                        None => return None,
                    };
                    self.reader = None;
                    // A panicked reader must not look like the end.
                    if let Err(failed) = ended
                        && failed.is_panic()
                    {
                        std::panic::resume_unwind(failed.into_panic());
                    }
                }
            }
        }
    }
}

impl<T> Drop for PagedItems<T> {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}
