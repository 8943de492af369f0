//! The answers, serialised before the socket opens; watches are even cut into HTTP chunks, one
//! event to a chunk as an API server flushes them.

use std::io::Write;

use crate::{pb, podgen};

/// All data in one encoding.
#[derive(Default)]
pub struct Data {
    /// The concatenated items of the list (in JSON each with a comma), and their offsets including
    /// the end.
    pub list: Vec<u8>,
    pub off: Vec<usize>,
    /// HTTP chunks, one per event, and the offsets of the later events including the end.
    pub init: Vec<u8>,
    pub events: Vec<u8>,
    pub event_off: Vec<usize>,
    pub init_payload: u64,
    pub events_payload: u64,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Fmt {
    Json,
    Pb,
    Meta,
}

/// Appends one HTTP chunk, and returns the length of its content.
pub fn chunk(o: &mut Vec<u8>, data: &[u8]) -> u64 {
    write!(o, "{:x}\r\n", data.len()).unwrap();
    o.extend_from_slice(data);
    o.extend_from_slice(b"\r\n");
    data.len() as u64
}

fn add(d: &mut Data, f: Fmt, streamed: bool, body: &str, pbuf: &[u8], event: Option<&str>, tmp: &mut Vec<u8>) {
    tmp.clear();
    let kind = if f == Fmt::Meta {
        "PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1"
    } else {
        "Pod\",\"apiVersion\":\"v1"
    };
    let mut frame = |ty: &str, out: &mut Vec<u8>| {
        tmp.clear();
        if f == Fmt::Pb {
            pb::watch_frame(tmp, ty, "v1", "Pod", pbuf);
        } else {
            write!(tmp, "{{\"type\":\"{ty}\",\"object\":{{\"kind\":\"{kind}\",{body}}}}}\n").unwrap();
        }
        chunk(out, tmp)
    };
    match event {
        Some(ty) => {
            d.event_off.push(d.events.len());
            d.events_payload += frame(ty, &mut d.events);
        }
        None => {
            if streamed {
                d.init_payload += frame("ADDED", &mut d.init);
            }
            d.off.push(d.list.len());
            match f {
                Fmt::Json => write!(d.list, "{{{body}}},").unwrap(),
                Fmt::Meta => write!(d.list, "{{\"kind\":\"{kind}\",{body}}},").unwrap(),
                Fmt::Pb => pb::bytes(&mut d.list, 2, pbuf),
            }
        }
    }
}

/// Generates the pods and their events. Events of streaming lists are only generated if `streamed`:
/// for a million pods they take 4 GB.
///
/// With `diverse`, each pod has its own template instead of sharing one with its siblings.
pub fn build(f: Fmt, pods: u64, events: u64, streamed: bool, diverse: bool, threads: u64) -> Data {
    let part = |t: u64| {
        let mut d = Data::default();
        let (mut body, mut p, mut tmp) = (String::new(), Vec::new(), Vec::new());
        let mut one = |d: &mut Data, i: u64, rev: u64, rv: u64, ev: Option<&str>| {
            body.clear();
            p.clear();
            match f {
                Fmt::Meta => podgen::metadata(i, rev, rv, &mut body),
                _ => podgen::body(i, rev, rv, &mut body),
            }
            if diverse {
                body = podgen::diversify(i, &body);
            }
            if f == Fmt::Pb {
                let v: serde_json::Value = serde_json::from_str(&format!("{{{body}}}")).unwrap();
                pb::message(&mut p, "Pod", &v);
            }
            add(d, f, streamed, &body, &p, ev, &mut tmp);
        };
        for i in pods * t / threads..pods * (t + 1) / threads {
            one(&mut d, i, 0, 1_000 + i, None);
        }
        for j in events * t / threads..events * (t + 1) / threads {
            one(&mut d, podgen::event_target(j, pods), 1 + j / pods, podgen::LIST_RV + 1 + j, Some("MODIFIED"));
        }
        d
    };
    let parts: Vec<Data> = std::thread::scope(|s| {
        let h: Vec<_> = (0..threads).map(|t| s.spawn(move || part(t))).collect();
        h.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let mut d = Data::default();
    for p in parts {
        d.off.extend(p.off.iter().map(|o| o + d.list.len()));
        d.event_off.extend(p.event_off.iter().map(|o| o + d.events.len()));
        d.list.extend_from_slice(&p.list);
        d.init.extend_from_slice(&p.init);
        d.events.extend_from_slice(&p.events);
        d.init_payload += p.init_payload;
        d.events_payload += p.events_payload;
    }
    d.off.push(d.list.len());
    d.event_off.push(d.events.len());
    d
}
