//! The memory cost of a list that is not stored.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http::{Request, Response};
use kubewright_api::core::v1::Pod;
use kubewright_client::transport::{Body, ResponseFuture, TransportError};
use kubewright_client::{Api, Client};
use kubewright_core::options::ListOptions;
use kubewright_core::protobuf::{Encoder, Envelope};
use kubewright_core::stream::Encoding;
use kubewright_core::{Decoder, Object};

const PODS: usize = 100_000;
/// Chunk size of a body.
const CHUNK: usize = 64 << 10;

/// The bytes of a list, generated on the fly.
struct Endless {
    head: Vec<u8>,
    item: Vec<u8>,
    tail: Vec<u8>,
    left: usize,
}

impl Stream for Endless {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut chunk = std::mem::take(&mut self.head);
        while self.left > 0 && chunk.len() < CHUNK {
            chunk.extend_from_slice(&self.item);
            self.left -= 1;
        }
        if self.left == 0 {
            chunk.append(&mut self.tail);
        }
        Poll::Ready((!chunk.is_empty()).then(|| Ok(chunk.into())))
    }
}

fn pod() -> Pod {
    let json = br#"{"metadata":{"name":"web-7d9c6b5f4-abcde","namespace":"default","uid":"3f1d6c0a-0000-4000-8000-000000000000",
        "resourceVersion":"123456","labels":{"app":"web","pod-template-hash":"7d9c6b5f4"},"annotations":{"example.com/note":"some text"}},
        "spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.2.3","ports":[{"containerPort":8080}],
        "env":[{"name":"A","value":"b"}],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}],"nodeName":"node-17"},
        "status":{"phase":"Running","podIP":"10.0.0.17","conditions":[{"type":"Ready","status":"True"}]}}"#;
    Decoder::new().json(json).unwrap()
}

fn list(encoding: Encoding) -> Endless {
    match encoding {
        Encoding::Json => {
            let mut item = pod().to_json();
            item.push(b',');
            let last = String::from_utf8(pod().to_json()).unwrap();
            let head = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":["#.to_vec();
            Endless { head, item, tail: format!("{last}]}}").into_bytes(), left: PODS - 1 }
        }
        Encoding::Protobuf => {
            let enveloped = pod().to_protobuf().unwrap();
            let raw = Envelope::decode(&enveloped).unwrap().raw;
            let mut item = Vec::new();
            Encoder { out: &mut item }.bytes(2, raw);
            let mut meta = Vec::new();
            Encoder { out: &mut meta }.delimited(1, |list| list.bytes(2, b"9"));
            let mut head = b"k8s\0".to_vec();
            let length = (meta.len() + item.len() * PODS) as u64;
            // The tag of the list field; its content follows.
            head.push(2 << 3 | 2);
            let mut rest = length;
            while rest >= 0x80 {
                head.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            head.push(rest as u8);
            head.extend(meta);
            Endless { head, item, tail: Vec::new(), left: PODS }
        }
    }
}

#[test]
fn a_streamed_list_of_a_hundred_thousand_pods_holds_less_than_two_mebibytes() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let client = Client::over(move |_: Request<Bytes>| -> ResponseFuture {
            let response = Response::builder().header("content-type", encoding.media_type());
            Box::pin(async move { Ok(response.body(Body::new(list(encoding))).unwrap()) })
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut count = 0;
        let used = allocation_counter::measure(|| {
            runtime.block_on(async {
                let mut stream = Api::<Pod>::all(&client).list_stream(&ListOptions::default()).await.unwrap();
                while let Some(pod) = stream.next().await {
                    pod.unwrap();
                    count += 1;
                }
                assert_eq!(stream.metadata().resource_version.as_deref(), Some("9"));
            });
        });
        assert_eq!(count, PODS);
        assert!(used.bytes_max < 2 << 20, "{encoding:?}: {} bytes at the most", used.bytes_max);
    }
}
