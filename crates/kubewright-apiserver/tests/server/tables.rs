//! Tables as requested by kubectl.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_core::Value;

use crate::client::{Client, server, text};

/// The response as a table. For a watch with a timeout, the table of the first event.
async fn table(client: &mut Client, path: &str) -> Value {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = Request::builder().uri(path).header("host", "localhost").header("accept", accept);
    let response = client.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let value = Value::from_json(first).unwrap_or_else(|error| panic!("{path}: {error}"));
    value.get("object").filter(|_| value.get("type").is_some()).unwrap_or(&value).clone()
}

/// A cell of the first row.
fn cell(table: &Value, column: usize) -> String {
    let row = table.get("rows").and_then(Value::as_array).and_then(|rows| rows.first()).expect("there is a row");
    row.get("cells").and_then(Value::as_array).expect("it has cells")[column].to_string()
}

#[tokio::test]
async fn an_autoscaler_shows_all_of_its_metrics_in_each_version() {
    let (_server, mut client) = server().await;
    let path = |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let object = r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":5,"scaleTargetRef":{"kind":"Deployment","name":"d"},"metrics":[{"type":"Pods","pods":{"metric":{"name":"p"},"target":{"type":"AverageValue","averageValue":"5"}}},{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}},{"type":"Resource","resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":60}}}]}}"#;
    let (code, made) = client.call("POST", &path("v2"), object).await;
    assert_eq!(code, 201, "{made}");
    for version in ["v1", "v2"] {
        let base = path(version);
        let watch = format!("{base}?watch=true&timeoutSeconds=1&resourceVersion=0");
        for path in [base.clone(), format!("{base}/h"), watch] {
            let table = table(&mut client, &path).await;
            assert_eq!(cell(&table, 2), r#""<unknown>/5, cpu: <unknown>/50% + 1 more...""#, "{path}: {table}");
        }
        // Objects in rows have the version of the path.
        let table = table(&mut client, &format!("{base}/h?includeObject=Object")).await;
        let object = table.get("rows").and_then(Value::as_array).unwrap()[0].get("object").unwrap();
        assert_eq!(text(object, "apiVersion"), format!("autoscaling/{version}"), "{table}");
        assert_eq!(cell(&table, 2), r#""<unknown>/5, cpu: <unknown>/50% + 1 more...""#, "{version}: {table}");
        assert_eq!(text(object, "spec/targetCPUUtilizationPercentage") == "50", version == "v1", "{table}");
    }
}
