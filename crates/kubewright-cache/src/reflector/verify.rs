//! Compares a streaming list with a plain one, for those who look for faults in servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_client::Error;
use kubewright_core::options::{ListOptions, ResourceVersionMatch};
use kubewright_core::{Object, ObjectKey, ResourceVersion};

use super::{Reflector, ReflectorError};
use crate::lister_watcher::{Listed, next};

/// The version of each object.
type Versions = BTreeMap<ObjectKey, String>;

impl<T: Object> Reflector<T> {
    /// Lists at exactly `version`, and tells if that gives other objects than were streamed.
    pub(super) async fn verify(&self, streamed: &[Arc<T>], version: &ResourceVersion) {
        let listed = match self.versions_at(version).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::debug!(reflector = %self.shared.options.name, %error, "cannot verify a streaming list");
                return;
            }
        };
        let streamed: Versions =
            streamed.iter().map(|object| (object.key(), object.resource_version().to_owned())).collect();
        if streamed != listed {
            let key = different(&streamed, &listed).or_else(|| different(&listed, &streamed));
            let key = key.expect("the maps differ");
            self.tell(ReflectorError::Inconsistent { key, version: version.clone() });
        }
    }

    async fn versions_at(&self, version: &ResourceVersion) -> Result<Versions, Error> {
        let options = ListOptions::default()
            .resource_version(version.as_str())
            .resource_version_match(ResourceVersionMatch::Exact);
        let mut items = self.shared.lister_watcher.list(options).await?;
        let mut versions = BTreeMap::new();
        while let Some(item) = next(&mut items).await {
            match item {
                Ok(Listed::Item(object)) => {
                    versions.insert(object.key(), object.resource_version().to_owned());
                }
                Ok(Listed::End(_)) => break,
                // Left out of the stream as well.
                Err(Error::Decode(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(versions)
    }
}

/// An object of `two` that `one` does not have so.
fn different(one: &Versions, two: &Versions) -> Option<ObjectKey> {
    two.iter().find(|(key, version)| one.get(key) != Some(version)).map(|(key, _)| key.clone())
}
