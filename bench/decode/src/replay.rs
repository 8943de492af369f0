//! Reads the pods of the replay server, and splits the list into one buffer per pod.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// The pods as JSON.
pub fn json_pods(server: &str, pods: usize) -> Vec<Vec<u8>> {
    let body = get(server, "application/json");
    let list: List<'_> = serde_json::from_slice(&body).expect("a list");
    list.items.iter().take(pods).map(|item| item.get().as_bytes().to_vec()).collect()
}

/// The pods as protobuf messages.
pub fn protobuf_pods(server: &str, pods: usize) -> Vec<Vec<u8>> {
    let body = get(server, "application/vnd.kubernetes.protobuf");
    let list = fields(&body[4..]).into_iter().find(|(number, _)| *number == 2).expect("the list in its envelope").1;
    fields(list).into_iter().filter(|(number, _)| *number == 2).take(pods).map(|(_, item)| item.to_vec()).collect()
}

/// Field numbers and bytes of the length-delimited fields of a message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let varint = |bytes: &mut &[u8]| {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a number");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        value
    };
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (tag, length) = (varint(&mut bytes), varint(&mut bytes));
        let (field, rest) = bytes.split_at(length as usize);
        fields.push((tag >> 3, field));
        bytes = rest;
    }
    fields
}

fn get(server: &str, accept: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).expect("a replay server, see bench/README.md");
    write!(stream, "GET /api/v1/pods HTTP/1.1\r\nHost: {server}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
        .expect("the request is sent");
    let mut answer = vec![0; 1 << 16];
    let mut read = 0;
    let end = loop {
        read += stream.read(&mut answer[read..]).expect("an answer");
        if let Some(end) = answer[..read].windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    let mut body = answer[end..read].to_vec();
    body.resize(length.expect("a length"), 0);
    stream.read_exact(&mut body[read - end..]).expect("the whole body");
    body
}
