// Rejects config maps without a colour.

use std::net::SocketAddr;

use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().expect("it is the first one");
    let app = Router::new().route("/validate--v1-configmap", post(validate));
    let certificate = RustlsConfig::from_pem_file("tls.crt", "tls.key").await?;
    let address = std::env::args().nth(1).unwrap_or("[::]:9443".into());
    axum_server::bind_rustls(address.parse::<SocketAddr>()?, certificate)
        .serve(app.into_make_service())
        .await?;
    Ok(())
}

async fn validate(
    Json(review): Json<AdmissionReview<ConfigMap>>,
) -> Json<AdmissionReview<DynamicObject>> {
    let request: AdmissionRequest<ConfigMap> = match review.try_into() {
        Ok(request) => request,
        Err(error) => return Json(AdmissionResponse::invalid(error).into_review()),
    };
    let response = AdmissionResponse::from(&request);
    let data = request.object.and_then(|map| map.data).unwrap_or_default();
    let response = match data.get("colour") {
        Some(_) => response,
        None => response.deny("a colour is needed"),
    };
    Json(response.into_review())
}
