//! port-forward.

use kubewright_client::remote::PortForward;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Cluster, upgraded};

async fn forwarded(cluster: &Cluster, way: &str, ports: &[u16]) -> PortForward {
    let network =
        cluster.run("web", r#"{"kubewright.dev/http-response":"hello"}"#, r#","ports":[{"containerPort":80}]"#);
    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
    let path = &format!("/portForward/ns/web?port={}", list.join(","));
    match way {
        "tunnel" => {
            let (protocol, stream) =
                upgraded(&network, path, "websocket", "SPDY/3.1+portforward.k8s.io").await.unwrap();
            assert_eq!(protocol, "SPDY/3.1+portforward.k8s.io");
            PortForward::over_tunnel(stream, ports)
        }
        "channels" => {
            PortForward::over(upgraded(&network, path, "websocket", "v4.channel.k8s.io").await.unwrap().1, ports)
        }
        _ => PortForward::over_spdy(upgraded(&network, path, "SPDY/3.1", "portforward.k8s.io").await.unwrap().1, ports),
    }
}

#[tokio::test]
async fn a_container_answers_http_on_its_port() {
    let cluster = Cluster::default();
    for way in ["tunnel", "channels", "spdy"] {
        let mut forward = forwarded(&cluster, way, &[80]).await;
        let mut port = forward.take(0).unwrap();
        port.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            assert!(port.read_buf(&mut answer).await.unwrap() > 0, "{way}: {}", String::from_utf8_lossy(&answer));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{way}");
    }
}

#[tokio::test]
async fn a_port_without_a_listener_is_reported() {
    let cluster = Cluster::default();
    for way in ["tunnel", "channels", "spdy"] {
        let mut forward = forwarded(&cluster, way, &[80, 81]).await;
        let _listening = forward.take(0);
        let ended = forward.wait().await.unwrap_err().to_string();
        assert!(ended.contains("port 81") || ended.contains("refused"), "{way}: {ended}");
    }
}

#[tokio::test]
async fn channels_need_ports() {
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", "");
    let refused = upgraded(&network, "/portForward/ns/web?port=0", "websocket", "v4.channel.k8s.io").await;
    assert_eq!(refused.err().as_deref(), Some("400: port \"0\" must be > 0"));
}
