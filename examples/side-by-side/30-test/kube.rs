// Tests a controller that copies the value of a config map into its annotation.

use std::sync::Arc;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> kube::Result<Action> {
    if let Some(colour) = map.data.as_ref().and_then(|data| data.get("colour")) {
        let namespace = map.namespace().unwrap_or_default();
        let maps = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "colour": colour } } }));
        maps.patch(&map.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

#[tokio::test]
async fn the_colour_is_copied() -> anyhow::Result<()> {
    let (service, mut server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let client = Arc::new(Client::new(service, "default"));
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": { "namespace": "default", "name": "side-by-side" },
        "data": { "colour": "blue" },
    }))?;
    let reconciled = tokio::spawn(reconcile(Arc::new(map), client));

    // The mock knows only this one request, and the response is whatever the test writes.
    let (request, send) = server.next_request().await.expect("the controller sends a patch");
    assert_eq!(request.method(), http::Method::PATCH);
    assert_eq!(request.uri().path(), "/api/v1/namespaces/default/configmaps/side-by-side");
    let body = request.into_body().collect_bytes().await?;
    let patch: serde_json::Value = serde_json::from_slice(&body)?;
    assert_eq!(patch["metadata"]["annotations"]["colour"], "blue");
    let patched = json!({ "metadata": { "namespace": "default", "name": "side-by-side" } });
    send.send_response(Response::new(Body::from(serde_json::to_vec(&patched)?)));
    reconciled.await??;
    Ok(())
}
