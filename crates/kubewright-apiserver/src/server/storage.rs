//! Opens the storage of a server: memory, a data file, or etcd.

use std::path::Path;
use std::sync::Arc;

use kubewright_objects::object::StoredObject;
use kubewright_storage::{Durability, OpenDisk, OpenError, StoreOptions, private_file};
use tokio::sync::watch;

use super::{ApiServer, StartError, bootstrap};
use crate::registry::Registry;
use crate::service::BoxFuture;

/// A task that needs the registry, and ends when the server stops.
pub(super) type BackgroundWork = Box<dyn FnOnce(Arc<Registry>, watch::Receiver<bool>) -> BoxFuture<'static, ()> + Send>;

/// The storage of a server.
pub(super) struct OpenStorage {
    pub(super) registry: Registry,
    pub(super) disk: Option<OpenDisk>,
    /// The tasks that keep the storage going.
    pub(super) background: Vec<BackgroundWork>,
}

impl ApiServer {
    /// The directory of the certificate authority and the keys of tokens. `None` for memory.
    pub(super) fn key_directory(&self) -> Option<&Path> {
        self.pki.as_deref().or(self.data.as_deref())
    }

    /// Creates the directory of keys, if there is to be one.
    pub(super) fn create_key_directory(&self) -> Result<(), StartError> {
        let Some(directory) = &self.pki else { return Ok(()) };
        let created = private_file::directory(directory);
        created.map_err(|error| StartError::Certificates(format!("{}: {error}", directory.display()).into()))
    }

    /// Opens the storage.
    pub(super) async fn open_storage(
        &self,
        options: StoreOptions<StoredObject>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<OpenStorage, StartError> {
        #[cfg(feature = "etcd")]
        if let Some(etcd) = &self.etcd {
            return self.open_etcd(etcd, options, stopped).await;
        }
        let background = Vec::new();
        let Some(directory) = &self.data else {
            let registry = Registry::new(options, stopped.clone());
            return Ok(OpenStorage { registry, disk: None, background });
        };
        let durability = if self.unsafe_fast { Durability::Eventual } else { Durability::Immediate };
        let unusable = |error: OpenError| StartError::Data { message: error.to_string() };
        let (disk, contents) = OpenDisk::open(directory, durability).map_err(unusable)?;
        let registry = Registry::restored(options, &disk, contents, stopped.clone());
        Ok(OpenStorage { registry, disk: Some(disk), background })
    }

    #[cfg(feature = "etcd")]
    async fn open_etcd(
        &self,
        etcd: &crate::etcd::EtcdOptions,
        options: StoreOptions<StoredObject>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<OpenStorage, StartError> {
        use crate::etcd::{EtcdDatabase, EtcdPrimary, follow};
        use kubewright_etcd::compact_regularly;
        if self.data.is_some() {
            let message = "objects are stored either in a data directory or in etcd, not in both".to_owned();
            return Err(StartError::Data { message });
        }
        let event_ttl = self.event_ttl.unwrap_or(super::EVENT_TTL);
        let opened = EtcdDatabase::open(etcd, event_ttl).await;
        let (database, listed) = opened.map_err(|message| StartError::Data { message })?;
        let mut registry =
            Registry::over_database(options, EtcdPrimary(Arc::clone(&database)), listed, stopped.clone());
        database.attach(registry.store.clone());
        let (client, interval) = (database.client().clone(), etcd.interval());
        registry.database = Some(Arc::clone(&database) as _);
        let following: BackgroundWork = Box::new(move |registry, stop| Box::pin(follow(database, registry, stop)));
        let compacting: BackgroundWork = Box::new(move |_, stop| Box::pin(compact_regularly(client, interval, stop)));
        Ok(OpenStorage { registry, disk: None, background: vec![following, compacting] })
    }

    /// Creates the system objects and the preloaded objects.
    pub(super) async fn create_objects(&self, registry: &Arc<Registry>) -> Result<(), StartError> {
        let (writer, addresses, preloaded) = (Arc::clone(registry), self.service_addresses, self.preloaded.clone());
        let create = async move {
            bootstrap::create_system_objects(&writer, addresses)?;
            preloaded.iter().try_for_each(|documents| bootstrap::preload(&writer, documents))
        };
        registry.run_writes(create).await.map_err(bootstrap::failed)??;
        if registry.database.is_some() {
            // As in kube-apiserver, no watch starts before its server. A log from the first
            // revision of a new etcd on would allow it.
            registry.store.compact();
        }
        Ok(())
    }
}
