//! Legacy discovery, version by version.

use std::sync::Arc;

use kubewright_core::meta::v1::{APIGroup, APIGroupList, APIResourceList, APIVersions};
use kubewright_core::{GroupVersion, GroupVersionKind, Str};
use tokio::task::JoinSet;

use super::catalog::{ApiGroup, ApiResource, Discovery, GroupFailure, Subresource, Version};
use crate::error::{Error, Result};
use kubewright_net::task::BoxFuture;

/// Number of concurrent requests.
const CONCURRENCY: usize = 16;

/// A pending list of the resources of one version.
pub(super) type Fetched = BoxFuture<'static, Result<Vec<ApiResource>>>;

/// Requests the resources of one version.
pub(super) type Fetch = dyn Fn(GroupVersion) -> Fetched + Send + Sync;

/// All versions of these groups, in the order of their groups.
#[inline]
pub(super) async fn discover(core: Option<APIVersions>, groups: Option<APIGroupList>, fetch: &Fetch) -> Discovery {
    let mut discovery = Discovery::default();
    if let Some(core) = core {
        let versions = core.versions.iter().map(|name| Version { name: name.clone(), resources: Vec::new() });
        discovery.groups.push(ApiGroup { name: Str::new(), versions: versions.collect() });
    }
    discovery.groups.extend(groups.iter().flat_map(|list| list.groups.iter()).map(group));

    let order: Arc<[GroupVersion]> = discovery.group_versions().collect();
    for (group_version, found) in ask(order.to_vec(), fetch).await {
        let group = discovery.groups.iter_mut().find(|group| group.name == group_version.group);
        let versions = &mut group.expect("it was asked for because of this group").versions;
        match found {
            Ok(resources) => {
                let place = versions.iter_mut().find(|version| version.name == group_version.version);
                place.expect("nobody else removes it").resources = resources;
            }
            Err(error) => {
                versions.retain(|version| version.name != group_version.version);
                discovery.failures.push(failure(group_version, Arc::clone(&order), &error));
            }
        }
    }
    discovery.groups.retain(|group| !group.versions.is_empty());
    discovery.failures.sort_by(|a, b| a.group_version.cmp(&b.group_version));
    discovery
}

/// The resources of these versions, in the given order, requested concurrently.
pub(super) async fn ask(
    versions: impl IntoIterator<Item = GroupVersion>,
    fetch: &Fetch,
) -> Vec<(GroupVersion, Result<Vec<ApiResource>>)> {
    let (mut wanted, mut running, mut answers) = (versions.into_iter().enumerate(), JoinSet::new(), Vec::new());
    loop {
        while running.len() < CONCURRENCY
            && let Some((place, version)) = wanted.next()
        {
            let fetched = fetch(version.clone());
            running.spawn(async move { (place, fetched.await, version) });
        }
        match running.join_next().await {
            Some(answer) => answers.extend(answer.ok()),
            None => break,
        }
    }
    answers.sort_by_key(|(place, ..)| *place);
    answers.into_iter().map(|(_, found, version)| (version, found)).collect()
}

#[inline]
pub(super) fn failure(group_version: GroupVersion, order: Arc<[GroupVersion]>, error: &Error) -> GroupFailure {
    GroupFailure { group_version, reason: error.to_string(), is_transient: error.is_retriable(), order }
}

#[inline]
fn group(group: &APIGroup) -> ApiGroup {
    let preferred = group.preferred_version.as_ref().map(|preferred| preferred.version.clone());
    let mut names: Vec<Str> = group.versions.iter().map(|version| version.version.clone()).collect();
    names.sort_by_key(|name| Some(name) != preferred.as_ref());
    let versions = names.into_iter().map(|name| Version { name, resources: Vec::new() });
    ApiGroup { name: group.name.clone(), versions: versions.collect() }
}

/// The resources of a list, with subresources attached to their parents.
///
/// # Errors
/// An empty list: a starting server has not filled it yet, and caching that would hide the group.
#[inline]
pub(super) fn resources(list: &APIResourceList, own: &GroupVersion) -> Result<Vec<ApiResource>> {
    if list.resources.is_empty() {
        return Err(
            kubewright_core::meta::v1::Status::service_unavailable(format!("{own} has no resources yet")).into()
        );
    }
    let mut found: Vec<ApiResource> = Vec::new();
    for item in list.resources.iter() {
        let or_own =
            |text: &Option<Str>, own: &Str| text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| own.clone());
        let version = or_own(&item.version, &own.version);
        // The core group has no name, so the version tells whether the kind is of another group.
        let group = if item.version.is_some() {
            item.group.clone().unwrap_or_default()
        } else {
            or_own(&item.group, &own.group)
        };
        let kind = GroupVersionKind::new(group, version, item.kind.clone());
        let verbs = item.verbs.to_vec();
        let (name, part) = item.name.split_once('/').unwrap_or((&item.name, ""));
        if part.is_empty() {
            found.push(ApiResource {
                plural: name.into(),
                singular: item.singular_name.clone(),
                kind,
                namespaced: item.namespaced,
                verbs,
                short_names: item.short_names.to_vec(),
                categories: item.categories.to_vec(),
                subresources: Vec::new(),
            });
            continue;
        }
        let at = found.iter().position(|resource| resource.plural == name).unwrap_or_else(|| {
            found.push(ApiResource { plural: name.into(), namespaced: item.namespaced, ..Default::default() });
            found.len() - 1
        });
        found[at].subresources.push(Subresource { name: part.into(), kind, verbs });
    }
    Ok(found)
}
