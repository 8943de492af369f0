//! HTTP caching of API documents.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_core::Value;

use crate::client::{Client, server, text};

/// Status code, some headers, and body length of a response.
async fn get(client: &mut Client, path: &str, header: (&str, &str)) -> (u16, [String; 4], usize) {
    let request = Request::builder().uri(path).header("host", "localhost").header(header.0, header.1);
    let response = client.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    let value = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let (code, headers) = (response.status().as_u16(), ["etag", "location", "cache-control", "vary"].map(value));
    (code, headers, response.into_body().collect().await.unwrap().to_bytes().len())
}

/// The URL of a document by the index.
async fn place(client: &mut Client) -> String {
    let (_, index) = client.call("GET", "/openapi/v3", "").await;
    let index = match index {
        Value::String(text) => text.parse().expect("the index is JSON"),
        index => index,
    };
    let paths = index.get("paths").and_then(|paths| paths.get("apis/coordination.k8s.io/v1")).cloned();
    text(&paths.expect("leases are served"), "serverRelativeURL")
}

#[tokio::test]
async fn a_document_is_cacheable_by_its_hash() {
    let (_server, mut client) = server().await;
    let place = place(&mut client).await;
    let (path, hash) = place.split_once("?hash=").expect("it has a hash");
    let json = ("accept", "application/json");
    let (code, [tag, _, keep, vary], length) = get(&mut client, &place, json).await;
    assert_eq!((code, keep.as_str(), vary.as_str()), (200, "public, immutable", "Accept"));
    assert_eq!(tag, format!("\"{hash}\""));
    assert!(length > 1000);
    let (code, [_, _, keep, _], _) = get(&mut client, path, json).await;
    assert_eq!((code, keep.as_str()), (200, "no-cache, private"));
    // An outdated hash is redirected to the current one.
    let (code, [_, location, ..], length) = get(&mut client, &format!("{path}?hash=OLD"), json).await;
    assert_eq!((code, location, length), (301, place.clone(), 0));
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let (code, _, length) = get(&mut client, path, ("if-none-match", &known)).await;
        assert_eq!((code, length), (304, 0), "{known}");
    }
    assert_eq!(get(&mut client, path, ("if-none-match", "\"x\"")).await.0, 200);
}

#[tokio::test]
async fn openapi_v3_documents_are_served_only_as_json() {
    let (_server, mut client) = server().await;
    for path in ["/openapi/v3/apis/coordination.k8s.io/v1", "/openapi/v2"] {
        for (accept, want) in [
            ("application/json", 200),
            ("*/*", 200),
            ("application/*;q=0.5", 200),
            ("text/html, application/json;q=0.1", 200),
            ("application/yaml", 406),
            ("text/html", 406),
        ] {
            let (code, [.., vary], _) = get(&mut client, path, ("accept", accept)).await;
            assert_eq!((code, vary.as_str()), (want, "Accept"), "{path} {accept}");
        }
    }
}

#[tokio::test]
async fn the_openapi_v2_document_follows_the_served_resources() {
    let (_server, mut client) = server().await;
    let json = ("accept", "application/json");
    let (_, [tag, ..], _) = get(&mut client, "/openapi/v2", json).await;
    assert_eq!(get(&mut client, "/openapi/v2", ("if-none-match", &tag)).await.0, 304);
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    let (code, made) = client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(code, 201, "{made}");
    client.until("/apis/example.com/v1/foos", 200).await;
    assert_eq!(get(&mut client, "/openapi/v2", ("if-none-match", &tag)).await.0, 200);
}

/// The doc of a field, from the description of the API.
fn doc(file: &str, ty: &str, field: &str) -> String {
    let path = format!("{}/../../api/{file}.api", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != format!("type {ty}")).collect();
    let place = lines.iter().position(|line| line.starts_with(&format!("  {field} "))).expect(field);
    lines[place - 1].trim_start().strip_prefix("/// ").expect("a field has a doc").to_owned()
}

#[tokio::test]
async fn fields_have_the_docs_of_the_description() {
    let (_server, mut client) = server().await;
    let doc = doc("apps.v1", "DeploymentSpec", "replicas");
    for (path, schemas) in
        [("/openapi/v3/apis/apps/v1", &["components", "schemas"][..]), ("/openapi/v2", &["definitions"])]
    {
        let document = match client.call("GET", path, "").await.1 {
            Value::String(text) => text.parse().expect("the document is JSON"),
            document => document,
        };
        let replicas = schemas
            .iter()
            .chain(&["io.k8s.api.apps.v1.DeploymentSpec", "properties", "replicas"])
            .try_fold(&document, |value, key| value.get(key))
            .expect(path);
        assert_eq!(text(replicas, "description"), doc, "{path}");
    }
}

/// Status code, content type and body of a response.
async fn body(client: &mut Client, path: &str, accept: &str) -> (u16, String, Bytes) {
    let request = Request::builder().uri(path).header("host", "localhost").header("accept", accept);
    let response = client.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    (response.status().as_u16(), content_type, response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn json_ends_with_a_newline_unless_it_is_indented() {
    let (_server, mut client) = server().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    for (path, accept) in [
        ("/api", "*/*"),
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        ("/apis/apps/v1", "*/*"),
        ("/api/v1/namespaces", "*/*"),
        ("/api/v1/namespaces", table),
        ("/api/v1/namespaces", metadata),
        ("/api/v1/pods", metadata),
        ("/api/v1/namespaces/default", "*/*"),
        ("/api/v1/namespaces/default", table),
        ("/api/v1/namespaces/none", "*/*"),
    ] {
        let (_, _, bytes) = body(&mut client, path, accept).await;
        assert!(bytes.ends_with(b"}\n") && !bytes.ends_with(b"\n\n"), "{path} {accept}: {bytes:?}");
        let indented = format!("{path}?pretty=true");
        let (_, _, bytes) = body(&mut client, &indented, accept).await;
        assert!(bytes.ends_with(b"\n}"), "{indented} {accept}: {bytes:?}");
    }
    let (code, _, version) = body(&mut client, "/version", "*/*").await;
    assert!(
        code == 200 && version.starts_with(b"{\n  \"major\": \"1\",\n") && version.ends_with(b"\"\n}"),
        "{version:?}"
    );
}

#[tokio::test]
async fn paths_below_the_version_are_not_found() {
    let (_server, mut client) = server().await;
    let (code, status) = client.call("GET", "/version/x", "").await;
    assert_eq!((code, text(&status, "message").as_str()), (404, "the server could not find the requested resource"));
}

#[tokio::test]
async fn rows_of_an_empty_table_are_null_where_go_leaves_them_unset() {
    let (_server, mut client) = server().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (path, rows) in [
        ("/api/v1/limitranges", r#""rows":null}"#),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", r#""rows":null}"#),
        ("/api/v1/pods", r#""rows":[]}"#),
    ] {
        let (_, _, bytes) = body(&mut client, path, table).await;
        assert!(bytes.trim_ascii_end().ends_with(rows.as_bytes()), "{path}: {bytes:?}");
    }
}

#[tokio::test]
async fn discovery_is_served_as_protobuf() {
    let (_server, mut client) = server().await;
    let protobuf = "application/vnd.kubernetes.protobuf";
    let aggregated = format!("{protobuf};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    for (path, accept, kind) in [
        ("/api", protobuf, "APIVersions"),
        ("/apis", protobuf, "APIGroupList"),
        ("/apis/apps", protobuf, "APIGroup"),
        ("/apis/apps/v1", protobuf, "APIResourceList"),
        ("/api/v1", protobuf, "APIResourceList"),
        ("/api", &aggregated, "APIGroupDiscoveryList"),
        ("/apis", &aggregated, "APIGroupDiscoveryList"),
    ] {
        let (code, content_type, bytes) = body(&mut client, path, accept).await;
        assert_eq!((code, content_type.as_str()), (200, accept), "{path}");
        let envelope = kubewright_core::protobuf::Envelope::decode(&bytes).unwrap();
        assert_eq!(envelope.kind, kind, "{path}");
        assert!(!envelope.raw.is_empty(), "{path}");
    }
}
