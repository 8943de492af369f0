//! Paths of a kubelet, and HTTP of pods.

use crate::command::run;
use crate::{Cluster, get};

#[tokio::test]
async fn a_kubelet_has_its_own_paths() {
    let cluster = Cluster::default();
    let network = cluster.run("web", r#"{"kubewright.dev/cpu-usage":"250m"}"#, "");
    let at = async |path: &str| get(&network, &format!("https://node:10250{path}")).await.unwrap();
    assert_eq!(at("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(at("/nothing").await.0, 404);
    assert!(at("/pods").await.1.contains(r#""name":"web""#));
    let summary = at("/stats/summary").await.1;
    assert!(summary.contains(r#""usageNanoCores":250000000"#) && summary.contains(r#""nodeName":"node""#), "{summary}");
    assert!(at("/metrics/resource").await.1.contains("node_memory_working_set_bytes{node=\"node\"} 10485760"));
    assert_eq!(at("/exec/ns/web/main?command=ls").await, (400, "Upgrade request required".to_owned()));
    let unreachable = get(&network, "https://other:10250/healthz").await.unwrap_err();
    assert!(unreachable.contains("dial tcp other:10250: connect: no route to host"), "{unreachable}");
}

#[tokio::test]
async fn a_pod_answers_on_its_ports() {
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", "");
    assert_eq!(get(&network, "http://10.0.0.7/any").await.unwrap(), (200, "web\n".to_owned()));
    let annotated = r#"{"http-status.kubewright.dev/main":"503","kubewright.dev/http-response":"busy"}"#;
    let network = cluster.run("web", annotated, r#","ports":[{"containerPort":8080}]"#);
    assert_eq!(get(&network, "http://10.0.0.7:8080/").await.unwrap(), (503, "busy".to_owned()));
    let refused = get(&network, "http://10.0.0.7:80/").await.unwrap_err();
    assert!(refused.contains("dial tcp 10.0.0.7:80: connect: connection refused"), "{refused}");
    assert!(get(&network, "http://10.0.0.8/").await.unwrap_err().contains("no route to host"));
}

#[tokio::test]
async fn a_file_that_a_command_moves_away_is_not_served() {
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", r#","image":"agnhost:2.53","args":["test-webserver"]"#);
    let status = async || get(&network, "http://10.0.0.7/localhost.crt").await.unwrap().0;
    assert_eq!(status().await, 200);
    run(&network, "mv -v /localhost.crt /tmp/").await;
    assert_eq!(status().await, 404);
    run(&network, "mv -v /tmp/localhost.crt /").await;
    assert_eq!(status().await, 200);
    let network = cluster.run("web", "{}", r#","image":"nginx""#);
    assert_eq!(get(&network, "http://10.0.0.7/").await.unwrap(), (200, "web\n".to_owned()));
    assert_eq!(get(&network, "http://10.0.0.7/none").await.unwrap().0, 404);
}
