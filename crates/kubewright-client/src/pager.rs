//! Lists in pages, as if they were one.

use std::collections::VecDeque;

use kubewright_core::meta::v1::ListMeta;
use kubewright_core::options::ListOptions;
use kubewright_core::{Object, ObjectList};

use crate::api::Api;
use crate::error::Result;

/// How many objects a page has, unless told otherwise.
const PAGE_SIZE: u32 = 500;

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
    full_list_if_expired: bool,
}

impl<T: Object> Pager<T> {
    /// Pages of 500 objects of `api`.
    pub fn new(api: Api<T>) -> Self {
        Pager { api, page_size: PAGE_SIZE, full_list_if_expired: true }
    }

    /// Asks for so many objects at a time, unless the options of a list say otherwise. 500 by default.
    #[must_use]
    #[doc(alias = "PageSize")]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
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

    /// The objects that match one after the other, a page at a time; never read again from the start.
    ///
    /// A page is asked for when the one before it has been handed out.
    #[doc(alias = "EachListItem")]
    pub fn each(&self, options: ListOptions) -> PagedItems<T> {
        PagedItems { api: self.api.clone(), next: Some(self.first(&options)), page: VecDeque::new() }
    }

    fn first(&self, options: &ListOptions) -> ListOptions {
        let mut first = options.clone();
        first.limit.get_or_insert(self.page_size.into());
        first
    }
}

/// The options of the page after the one that has this metadata; none after the last.
fn following(options: &ListOptions, metadata: &ListMeta) -> Option<ListOptions> {
    let token = metadata.continue_.clone().filter(|token| !token.is_empty())?;
    Some(ListOptions {
        continue_token: Some(token),
        resource_version: None,
        resource_version_match: None,
        ..options.clone()
    })
}

/// Objects of a collection that is read in pages.
#[derive(Debug)]
pub struct PagedItems<T> {
    api: Api<T>,
    /// Absent after the last page.
    next: Option<ListOptions>,
    page: VecDeque<T>,
}

impl<T: Object> PagedItems<T> {
    /// The next object, or `None` after the last. After an error there are no more.
    ///
    /// A dropped future loses nothing but the page it was asking for, which is asked for again.
    pub async fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(object) = self.page.pop_front() {
                return Some(Ok(object));
            }
            let page = self.api.list(self.next.as_ref()?).await;
            let options = self.next.take()?;
            match page {
                Ok(page) => {
                    self.next = following(&options, &page.metadata);
                    self.page = page.items.into();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
