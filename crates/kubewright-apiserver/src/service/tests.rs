//! Responses to writes that the disk rejects.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::sync::watch;

use super::*;
use kubewright_auth::authentication::{ServiceAccountOptions, ServiceAccountTokens};
use kubewright_storage::{Directory, Durability, OpenDisk, StoreOptions};

const NAMESPACES: &str = "/api/v1/namespaces";

/// A server whose disk is full while `is_full` is set.
fn service(directory: &Path, is_full: &Arc<AtomicBool>) -> Service {
    let opened = OpenDisk::on_full_disk(directory, Durability::Immediate, is_full);
    let (disk, contents) = opened.expect("the file can be opened");
    let registry = Registry::restored(StoreOptions::default(), &disk, contents, watch::channel(false).1);
    let registry = Arc::new(registry);
    let disk = disk.start(Arc::clone(&registry)).expect("a thread can be started");
    let accounts = ServiceAccountTokens::new(&ServiceAccountOptions::default(), None).expect("keys can be generated");
    let authenticator =
        Authenticator { tokens: Default::default(), accounts, request_header: None, rejects_anonymous: false };
    let limits = (InFlight::new(100, 100, 100), MemoryBudget::new(1 << 20));
    let faults = Faults::new(Arc::clone(&registry));
    Service::new(registry, authenticator, limits, Some(Arc::new(disk)), faults, false, None)
}

async fn call(service: &Service, method: &str, path: &str, body: String) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Bytes::from(body)).expect("a valid request");
    let response = service.call(request).await.expect("no fault was injected");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body is whole").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn create(service: &Service, name: &str) -> (u16, String) {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
    call(service, "POST", NAMESPACES, body).await
}

#[tokio::test]
async fn a_write_that_the_disk_rejects_fails_and_is_not_visible() {
    let (directory, is_full) = (Directory::new("service"), Arc::new(AtomicBool::new(false)));
    let service = service(&directory.0, &is_full);
    assert_eq!(create(&service, "before").await.0, 201);
    let read = |name: &'static str| call(&service, "GET", name, String::new());

    is_full.store(true, Ordering::SeqCst);
    let (status, body) = create(&service, "during").await;
    assert!(status == 500 && body.contains("objects cannot be written"), "{status} {body}");
    assert_eq!(read("/api/v1/namespaces/during").await.0, 404);
    assert_eq!(read("/api/v1/namespaces/before").await.0, 200, "reads go on");
    let (status, _) = call(&service, "DELETE", "/api/v1/namespaces/before", String::new()).await;
    assert_eq!(status, 500);
    assert!(!read("/api/v1/namespaces/before").await.1.contains("deletionTimestamp"));
    assert_eq!(read("/readyz").await.0, 500);

    is_full.store(false, Ordering::SeqCst);
    let recovered = async {
        while read("/readyz").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), recovered).await.expect("there is room again");
    assert_eq!(create(&service, "during").await.0, 201);
    assert_eq!(create(&service, "during").await.0, 409);
    drop(service);
    let (_disk, contents) = OpenDisk::open(&directory.0, Durability::Immediate).expect("the file is sound");
    let paths: Vec<&str> = contents.objects.iter().map(|object| &*object.path).collect();
    assert_eq!(paths, ["before", "during"]);
}
