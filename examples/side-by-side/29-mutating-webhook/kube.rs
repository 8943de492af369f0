// Sets the default colour of config maps.

use std::net::SocketAddr;

use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().expect("it is the first one");
    let app = Router::new().route("/mutate--v1-configmap", post(mutate));
    let certificate = RustlsConfig::from_pem_file("tls.crt", "tls.key").await?;
    let address = std::env::args().nth(1).unwrap_or("[::]:9443".into());
    axum_server::bind_rustls(address.parse::<SocketAddr>()?, certificate)
        .serve(app.into_make_service())
        .await?;
    Ok(())
}

async fn mutate(
    Json(review): Json<AdmissionReview<ConfigMap>>,
) -> Json<AdmissionReview<DynamicObject>> {
    let request: AdmissionRequest<ConfigMap> = match review.try_into() {
        Ok(request) => request,
        Err(error) => return Json(AdmissionResponse::invalid(error).into_review()),
    };
    let response = AdmissionResponse::from(&request);
    let data = request.object.and_then(|map| map.data);
    let patched = match &data {
        Some(data) if data.contains_key("colour") => Ok(response.clone()),
        Some(_) => response.clone().with_patch(add(&["data", "colour"], json!("blue"))),
        None => response.clone().with_patch(add(&["data"], json!({ "colour": "blue" }))),
    };
    let response = patched.unwrap_or_else(|error| response.deny(error.to_string()));
    Json(response.into_review())
}

fn add(path: &[&str], value: serde_json::Value) -> Patch {
    let path = PointerBuf::from_tokens(path.iter().copied());
    Patch(vec![PatchOperation::Add(AddOperation { path, value })])
}
