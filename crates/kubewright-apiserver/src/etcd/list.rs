//! Reads all objects under the prefix at one revision.

use std::sync::Arc;
use std::time::Duration;

use kubewright_etcd::{EtcdError, KeyValue, RangeRequest, prefix_end};
use kubewright_net::task;
use kubewright_objects::etcd;
use kubewright_objects::object::{ObjectDraft, StoredObject};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Catalog;
use kubewright_storage::{Key, KeyRange, VersionedValue};

use super::EtcdOptions;
use super::database::{EtcdDatabase, chain, rejection};
use crate::admission;
use crate::registry::{ListedObjects, PastPage};

/// The number of keys that are read at a time.
const PAGE: u64 = 1000;

impl EtcdDatabase {
    /// Connects to etcd, and reads all objects.
    pub(crate) async fn open(options: &EtcdOptions, event_ttl: Duration) -> Result<(Arc<Self>, ListedObjects), String> {
        let database = EtcdDatabase::connect(options, event_ttl).map_err(|error| error.to_string())?;
        let listed = database.list().await.map_err(|error| chain(&error))?;
        Ok((database, listed))
    }

    /// Reads all objects.
    pub(super) async fn list(self: &Arc<Self>) -> Result<ListedObjects, EtcdError> {
        let prefix = self.layout.prefix().as_bytes();
        let mut request = RangeRequest { end: prefix_end(prefix), limit: PAGE, ..RangeRequest::key(prefix) };
        let mut listed = ListedObjects { revision: 0, entries: Vec::new(), unreadable: Vec::new() };
        let catalog = Arc::new(Catalog::new([]));
        loop {
            let page = self.client.range(&request).await?;
            if listed.revision == 0 {
                listed.revision = page.revision;
                request.revision = page.revision;
            }
            if let Some(last) = page.entries.last() {
                request.key = [&last.key[..], &[0]].concat();
            }
            let (database, catalog, has_more) = (Arc::clone(self), Arc::clone(&catalog), page.has_more);
            // Decoding takes much longer than reading.
            let decoded = task::blocking(move || {
                let decode = |entry| database.decode(&entry, &catalog);
                page.entries.into_iter().filter_map(decode).collect::<Vec<_>>()
            });
            for (key, decoded) in decoded.await {
                match decoded {
                    Ok(VersionedValue { object, revision }) => {
                        // Only recent objects keep their tree.
                        let object = Arc::new(object.archived());
                        listed.entries.push((key, VersionedValue { object, revision }));
                    }
                    Err(reason) => listed.unreadable.push((key, reason)),
                }
            }
            if !has_more {
                return Ok(listed);
            }
        }
    }

    /// Reads a part of a scope at a past revision. `None` if it has been compacted.
    pub(super) async fn list_past(
        &self,
        scope: &KeyRange,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
        catalog: &Arc<Catalog>,
    ) -> Result<Option<PastPage>, Rejection> {
        let (start, end) = self.layout.range(scope);
        // The next key after another one has a zero byte more.
        let start =
            after.map_or_else(|| start.into_bytes(), |after| [self.layout.encode(after).as_bytes(), &[0]].concat());
        let limit = if limit == 0 { PAGE } else { PAGE.min(limit as u64) };
        let request = RangeRequest { end, limit, revision, ..RangeRequest::key(start) };
        let page = match self.client.range(&request).await {
            Err(error) if error.is_compacted() => return Ok(None),
            page => page.map_err(|error| rejection(&error))?,
        };
        let mut entries = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            let decoded = self.decode(entry, catalog);
            entries.extend(decoded.map(|(key, decoded)| (key, decoded.ok().map(|entry| entry.object))));
        }
        Ok(Some(PastPage { entries, count: usize::try_from(page.count).unwrap_or(usize::MAX) }))
    }

    /// The object of a key and value. `None` if the key is not that of an object.
    pub(super) fn decode(
        &self,
        entry: &KeyValue,
        catalog: &Catalog,
    ) -> Option<(Key, Result<VersionedValue<StoredObject>, String>)> {
        let key = self.layout.decode(&entry.key)?;
        self.note_encryption(&key, self.encryption.is_current(key.resource(), &entry.value));
        let plain = self.encryption.decrypt(key.resource(), &entry.key, &entry.value);
        let object = plain.map_err(|error| error.to_string()).and_then(|plain| {
            let mut value = etcd::decode(&plain, catalog)?;
            // kube-apiserver sets defaults when it reads, and stores some objects without them.
            if let Some(resource) = catalog.of_storage(key.resource()).filter(|resource| !resource.is_custom()) {
                admission::set_stored_defaults(resource, &mut value);
            }
            let object = ObjectDraft::new(value).stamp(entry.mod_revision);
            Ok(VersionedValue { object: Arc::new(object), revision: entry.mod_revision })
        });
        Some((key, object))
    }
}
