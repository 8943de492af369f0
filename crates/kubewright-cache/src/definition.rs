//! Proves that a custom resource no longer exists.
//!
//! A 404 alone is no proof: a broken proxy may answer 404 to every request. Built-in and aggregated
//! resources have no CustomResourceDefinition, so a missing definition proves nothing about them.

use std::time::Duration;

use kubewright_client::{Client, Error};
use kubewright_core::meta::v1::{APIGroupList, APIResourceList, Status};
use kubewright_core::{GroupVersionResource, Str};
use tokio::time::timeout;

/// Deadline of the check.
const TIMEOUT: Duration = Duration::from_secs(30);

const DEFINITIONS: GroupVersionResource =
    GroupVersionResource::from_static("apiextensions.k8s.io", "v1", "customresourcedefinitions");

/// Whether the CustomResourceDefinition of `resource` is deleted and discovery does not list the
/// resource.
pub(crate) async fn is_gone(client: &Client, resource: &GroupVersionResource) -> bool {
    // The group of a custom resource is a domain.
    if !resource.group.contains('.') {
        return false;
    }
    let proof = async { has_no_definition(client, resource).await && is_undiscovered(client, resource).await };
    timeout(TIMEOUT, proof).await.unwrap_or(false)
}

/// Whether the server reports that this CustomResourceDefinition does not exist.
async fn has_no_definition(client: &Client, resource: &GroupVersionResource) -> bool {
    let name = format!("{}.{}", resource.resource, resource.group);
    let Err(Error::Status(status)) = client.metadata(DEFINITIONS).get(&name).await else { return false };
    let names_it = |status: &Status| {
        let details = status.details.as_ref();
        details.is_some_and(|details| {
            let is = |field: &Option<Str>, text: &str| field.as_deref() == Some(text);
            is(&details.name, &name)
                && is(&details.group, &DEFINITIONS.group)
                && is(&details.kind, &DEFINITIONS.resource)
        })
    };
    status.is_not_found() && !status.is_unexpected_server_error() && names_it(&status)
}

/// Whether discovery works and does not list the resource.
async fn is_undiscovered(client: &Client, resource: &GroupVersionResource) -> bool {
    let get = |path: String| client.rest().get().absolute_path(&path).send();
    let group_version = format!("{}/{}", resource.group, resource.version);
    let groups = match get("/apis".to_owned()).await.and_then(|answer| answer.decode_message::<APIGroupList>()) {
        Ok(groups) if !groups.groups.is_empty() => groups,
        _ => return false,
    };
    let mut versions = groups.groups.iter().flat_map(|group| &group.versions);
    if !versions.any(|version| version.group_version == *group_version) {
        return true;
    }
    match get(format!("/apis/{group_version}")).await.and_then(|answer| answer.decode_message::<APIResourceList>()) {
        Ok(list) if list.group_version == *group_version => {
            !list.resources.iter().any(|listed| listed.name == resource.resource)
        }
        _ => false,
    }
}
