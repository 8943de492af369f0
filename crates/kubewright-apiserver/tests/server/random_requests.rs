//! Random requests get a response, without a panic or a hang.

use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use kubewright_apiserver::ApiServer;
use proptest::prelude::*;

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z0-9.%/]{0,12}",
        Just("api".to_owned()),
        Just("apis".to_owned()),
        Just("v1".to_owned()),
        Just("watch".to_owned()),
        Just("namespaces".to_owned()),
        Just("default".to_owned()),
        Just("pods".to_owned()),
        Just("apps/v1/deployments".to_owned()),
        Just("scale".to_owned()),
        Just("kubernetes".to_owned()),
        Just("services".to_owned()),
    ];
    proptest::collection::vec(part, 0..7).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn query() -> impl Strategy<Value = String> {
    let pair = (
        prop_oneof![
            Just("limit"),
            Just("continue"),
            Just("resourceVersion"),
            Just("resourceVersionMatch"),
            Just("dryRun"),
            Just("fieldSelector"),
            Just("labelSelector"),
            Just("propagationPolicy"),
            Just("fieldValidation"),
            Just("timeoutSeconds"),
            Just("includeObject"),
            Just("sendInitialEvents"),
        ],
        "[a-zA-Z0-9=!,%.()-]{0,12}",
    );
    let pairs = proptest::collection::vec(pair, 0..4);
    pairs.prop_map(|pairs| pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"))
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let json = "[{}\\[\\]\":,a-z0-9null -]{0,80}".prop_map(String::into_bytes);
    let object = "[a-z]{0,8}".prop_map(|word| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{word}"}},"spec":{{"{word}":[null,{{}}]}}}}"#)
            .into_bytes()
    });
    let protobuf = proptest::collection::vec(any::<u8>(), 0..60).prop_map(|bytes| [b"k8s\0".to_vec(), bytes].concat());
    prop_oneof![json, object, protobuf]
}

fn media_type() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("application/json".to_owned()),
        Just("application/yaml".to_owned()),
        Just("application/vnd.kubernetes.protobuf".to_owned()),
        Just("application/merge-patch+json".to_owned()),
        Just("application/json-patch+json".to_owned()),
        Just("application/strategic-merge-patch+json".to_owned()),
        Just("application/json;as=Table;v=v1;g=meta.k8s.io".to_owned()),
        "[a-z*/;=,.+]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered(
        method in prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("PATCH"), Just("DELETE"), Just("HEAD"), Just("FOO")],
        path in path(),
        query in query(),
        body in body(),
        content_type in media_type(),
        accept in media_type(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
            let uri = format!("{path}?{query}");
            let request = Request::builder().method(method).uri(uri).header("content-type", content_type).header("accept", accept);
            // Skip input that is not a valid request.
            let Ok(request) = request.body(Bytes::from(body)) else { return Ok(()) };
            let answer = tokio::time::timeout(Duration::from_secs(30), server.service().call(request)).await;
            let code = answer.expect("the server does not hang").expect("no fault was injected").status().as_u16();
            prop_assert!((200..=504).contains(&code), "{code}");
            Ok(())
        })?;
    }
}
