//! Lists in pages, as if they were one.

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

/// How many objects a page has, unless told otherwise.
const PAGE_SIZE: u32 = 500;
/// How many pages are read ahead of who takes their objects.
const PREFETCHED: usize = 10;

/// Reads a collection page by page, so that neither server nor network has it all at once.
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

    /// Asks for so many objects at a time, unless the options of a list say otherwise. 500 by default.
    #[must_use]
    #[doc(alias = "PageSize")]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// Reads so many pages ahead in [`each`](Self::each), at least one. 10 by default.
    #[must_use]
    #[doc(alias = "PageBufferSize")]
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetched = pages.max(1);
        self
    }

    /// Fails when the version of the first page is forgotten before the last one is read, where
    /// [`list`](Self::list) would by default read everything again in one piece.
    #[must_use]
    #[doc(alias = "FullListIfExpired")]
    pub fn fail_if_expired(mut self) -> Self {
        self.full_list_if_expired = false;
        self
    }

    /// All objects that match, collected from as many pages as there are.
    ///
    /// The version that `options` ask for goes with the first page only; the continue token stands for it after that.
    /// A list of one page is the server's own; one of several has the version of the first and no token.
    ///
    /// # Errors
    /// Of any page. When a later page has expired and a full list does not help, the error of that list.
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

    /// The objects that match one after the other; never read again from the start.
    ///
    /// Pages are read ahead by a task, which ends with what is returned. Must be called within a runtime.
    #[doc(alias = "EachListItem")]
    pub fn each(&self, options: ListOptions) -> PagedItems<T> {
        let (sender, pages) = mpsc::channel(self.prefetched);
        let (api, first) = (self.api.clone(), self.first(&options));
        let reader = tokio::spawn(async move {
            let mut next = Some(first);
            while let Some(options) = next {
                // Room is waited for before the page is asked for, so that no more than agreed are held.
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

/// The options of the page after the one that has this metadata; none after the last.
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

/// Objects of a collection that is read in pages. Reading ends when it is dropped.
#[derive(Debug)]
pub struct PagedItems<T> {
    pages: mpsc::Receiver<Result<Vec<T>>>,
    page: VecDeque<T>,
    /// Absent after its end has been seen.
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
                    // A reader that panicked must not pass for one that is done.
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
