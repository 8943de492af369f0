//! The cost of a write, a check or a deletion does not depend on the number of other objects.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::Value;
use kubewright_testing::processor_time;

use crate::client::text;

/// A server that runs on the test's thread.
pub struct Bench(RunningServer);

impl Bench {
    async fn start() -> Self {
        Bench(ApiServer::in_memory().start().await.expect("nothing can fail without a socket"))
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(body.to_owned().into()).expect("a valid request");
        let response = self.0.service().call(request).await.expect("no fault was injected");
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("the body ends").to_bytes();
        (code, Value::from_json(&body).unwrap_or_default())
    }

    async fn create(&self, path: &str, body: &str) -> Value {
        let (code, made) = self.call("POST", path, body).await;
        assert_eq!(code, 201, "{made}");
        made
    }

    /// Waits until an object is deleted.
    async fn until_gone(&self, path: &str) {
        for _ in 0..200_000 {
            if self.call("GET", path, "").await.0 == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{path} stays");
    }
}

/// Fails if four times as many objects take eight times as long in each of several attempts. `work`
/// prepares the server, and returns the CPU time at the start of the measurement.
async fn assert_linear(small: usize, work: impl AsyncFn(&Bench, usize) -> Duration) {
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let mut times = Vec::new();
        for size in [small, 4 * small] {
            let bench = Bench::start().await;
            let start = work(&bench, size).await;
            times.push((processor_time() - start).as_secs_f64());
        }
        let ratio = times[1] / times[0];
        if ratio < 8.0 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("four times as many objects take longer by {ratios:.1?}");
}

#[tokio::test]
async fn pods_are_created_under_a_quota() {
    assert_linear(80, async |bench, count| {
        let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},
            "spec":{"hard":{"pods":"100000","requests.cpu":"100000"}}}"#;
        bench.create("/api/v1/namespaces/default/resourcequotas", quota).await;
        let start = processor_time();
        for number in 0..count {
            let pod = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{number}"}},"spec":{{"containers":[
                {{"name":"c","image":"i","resources":{{"requests":{{"cpu":"1m"}}}}}}]}}}}"#
            );
            bench.create("/api/v1/namespaces/default/pods", &pod).await;
        }
        let (_, quota) = bench.call("GET", "/api/v1/namespaces/default/resourcequotas/q", "").await;
        assert_eq!(text(&quota, "status/used/pods"), count.to_string());
        start
    })
    .await;
}

#[tokio::test]
async fn services_get_addresses_and_ports() {
    assert_linear(400, async |bench, count| {
        let start = processor_time();
        for number in 0..count {
            let service = format!(
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s{number}"}},
                "spec":{{"type":"NodePort","ports":[{{"port":80}}]}}}}"#
            );
            bench.create("/api/v1/namespaces/default/services", &service).await;
        }
        start
    })
    .await;
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test]
async fn access_is_decided_among_bindings_of_other_users() {
    assert_linear(200, async |bench, count| {
        for number in 0..count {
            let binding = format!(
                r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{{"name":"b{number}"}},
                "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}},
                "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"u{number}"}}]}}"#
            );
            bench.create(&format!("{RBAC}/clusterrolebindings"), &binding).await;
        }
        let start = processor_time();
        for number in 0..count {
            let review = format!(
                r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{{"user":"u{number}",
                "resourceAttributes":{{"verb":"get","resource":"pods","namespace":"default"}}}}}}"#
            );
            let made = bench.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await;
            assert_eq!(text(&made, "status/allowed"), "true");
        }
        start
    })
    .await;
}

#[tokio::test]
async fn unused_claims_are_released() {
    assert_linear(60, async |bench, count| {
        let (pods, claims) = ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/persistentvolumeclaims");
        let volume = |number| format!(r#"{{"name":"v{number}","persistentVolumeClaim":{{"claimName":"other"}}}}"#);
        let volumes: Vec<String> = (0..40).map(volume).collect();
        let volumes = volumes.join(",");
        for number in 0..count {
            let pod = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{number}"}},"spec":{{"nodeName":"n",
                "containers":[{{"name":"c","image":"i"}}],"volumes":[{volumes}]}}}}"#
            );
            bench.create(pods, &pod).await;
            let claim = format!(
                r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"c{number}"}},
                "spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
            );
            bench.create(claims, &claim).await;
        }
        let start = processor_time();
        for number in 0..count {
            assert_eq!(bench.call("DELETE", &format!("{claims}/c{number}"), "").await.0, 200);
        }
        bench.until_gone(&format!("{claims}/c{}", count - 1)).await;
        start
    })
    .await;
}
