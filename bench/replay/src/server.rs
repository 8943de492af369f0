//! Lists, watches, and the control requests of the bench.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::data::{Data, Fmt, chunk};
use crate::request::{Req, read_request};
use crate::{pb, podgen};

/// The data, and the last control request.
pub struct Server {
    pods: u64,
    events: u64,
    json: Data,
    pb: Data,
    meta: Data,
    epoch: Mutex<Epoch>,
    wake: Condvar,
    watchers: AtomicU64,
    lists: AtomicU64,
    sent: AtomicU64,
}

/// Notifies open watches of a control request.
#[derive(Clone, Copy, Default)]
struct Epoch {
    number: u64,
    wish: Wish,
}

#[derive(Clone, Copy, Default)]
enum Wish {
    /// All events, at full speed.
    #[default]
    Events,
    /// One event per interval, the first at the given time.
    Paced { first: SystemTime, interval: Duration },
    /// An error 410, and the end of the watch.
    Expire,
}

impl Server {
    /// A server of these pods and events. Formats without data are not served.
    pub fn new(pods: u64, events: u64, json: Data, pb: Data, meta: Data) -> Self {
        let (watchers, lists, sent) = Default::default();
        Server { pods, events, json, pb, meta, epoch: Mutex::default(), wake: Condvar::new(), watchers, lists, sent }
    }

    fn send(&self, w: &mut TcpStream, b: &[u8]) -> std::io::Result<()> {
        w.write_all(b)?;
        self.sent.fetch_add(b.len() as u64, Relaxed);
        Ok(())
    }

    fn simple(&self, w: &mut TcpStream, code: &str, body: &str) -> std::io::Result<()> {
        let r = format!(
            "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(w, r.as_bytes())
    }

    fn negotiate(&self, accept: &str) -> (Fmt, &Data) {
        if accept.contains("as=PartialObjectMetadata") && !self.meta.off.is_empty() {
            return (Fmt::Meta, &self.meta);
        }
        let first = accept.split(',').next().unwrap_or("");
        if first.contains("application/vnd.kubernetes.protobuf") && !first.contains("as=") && !self.pb.off.is_empty() {
            return (Fmt::Pb, &self.pb);
        }
        (Fmt::Json, &self.json)
    }

    fn list(&self, w: &mut TcpStream, q: &Req) -> std::io::Result<()> {
        let (f, d) = self.negotiate(&q.accept);
        let n = d.off.len() - 1;
        let start = q.q("continue").strip_prefix('c').and_then(|s| s.parse().ok()).unwrap_or(0usize).min(n);
        // like the API server's watch cache: resourceVersion=0 is answered whole, whatever the
        // limit
        let limit = match q.q("limit").parse::<usize>() {
            Ok(l) if l > 0 && q.q("resourceVersion") != "0" => l,
            _ => n,
        };
        let end = (start + limit).min(n);
        let cont = if end < n { format!("c{end}") } else { String::new() };
        let (head, items, tail): (Vec<u8>, &[u8], &[u8]) = match f {
            Fmt::Json | Fmt::Meta => {
                let (k, v) =
                    if f == Fmt::Json { ("PodList", "v1") } else { ("PartialObjectMetadataList", "meta.k8s.io/v1") };
                let more = if cont.is_empty() {
                    String::new()
                } else {
                    format!(",\"continue\":\"{cont}\",\"remainingItemCount\":{}", n - end)
                };
                let h = format!(
                    "{{\"kind\":\"{k}\",\"apiVersion\":\"{v}\",\"metadata\":{{\"resourceVersion\":\"{}\"{more}}},\"items\":[",
                    podgen::LIST_RV
                );
                let e = if end > start { d.off[end] - 1 } else { d.off[end] };
                (h.into_bytes(), &d.list[d.off[start]..e], b"]}\n")
            }
            Fmt::Pb => {
                let items = &d.list[d.off[start]..d.off[end]];
                let mut lm = Vec::new();
                pb::bytes(&mut lm, 1, b"");
                pb::bytes(&mut lm, 2, podgen::LIST_RV.to_string().as_bytes());
                pb::bytes(&mut lm, 3, cont.as_bytes());
                if end < n {
                    lm.push(4 << 3);
                    pb::varint(&mut lm, (n - end) as u64);
                }
                let mut l = Vec::new();
                pb::bytes(&mut l, 1, &lm);
                let mut h = Vec::new();
                pb::envelope_head(&mut h, "v1", "PodList", l.len() + items.len());
                h.extend_from_slice(&l);
                (h, items, pb::ENVELOPE_TAIL)
            }
        };
        let ct = if f == Fmt::Pb { "application/vnd.kubernetes.protobuf" } else { "application/json" };
        let mut h = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {ct}\r\nContent-Length: {}\r\n\r\n",
            head.len() + items.len() + tail.len()
        )
        .into_bytes();
        h.extend_from_slice(&head);
        self.send(w, &h)?;
        self.send(w, items)?;
        self.send(w, tail)
    }

    fn bookmark(&self, f: Fmt, rv: u64, initial_end: bool) -> Vec<u8> {
        let mut data = Vec::new();
        match f {
            Fmt::Pb => {
                let mut meta = Vec::new();
                for (t, v) in [(1, ""), (2, ""), (3, ""), (4, ""), (5, "")] {
                    pb::bytes(&mut meta, t, v.as_bytes());
                }
                pb::bytes(&mut meta, 6, rv.to_string().as_bytes());
                meta.extend_from_slice(&[7 << 3, 0, 8 << 3 | 2, 0]);
                if initial_end {
                    let mut e = Vec::new();
                    pb::bytes(&mut e, 1, b"k8s.io/initial-events-end");
                    pb::bytes(&mut e, 2, b"true");
                    pb::bytes(&mut meta, 12, &e);
                }
                let mut pod = Vec::new();
                pb::bytes(&mut pod, 1, &meta);
                pb::watch_frame(&mut data, "BOOKMARK", "v1", "Pod", &pod);
            }
            _ => {
                let (k, v) = if f == Fmt::Json { ("Pod", "v1") } else { ("PartialObjectMetadata", "meta.k8s.io/v1") };
                let ann = if initial_end { ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" } else { "" };
                let rest = if f == Fmt::Json { ",\"spec\":{\"containers\":null},\"status\":{}" } else { "" };
                data = format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"{k}\",\"apiVersion\":\"{v}\",\"metadata\":{{\"resourceVersion\":\"{rv}\",\"creationTimestamp\":null{ann}}}{rest}}}}}\n").into_bytes();
            }
        }
        let mut c = Vec::new();
        chunk(&mut c, &data);
        c
    }

    fn watch(&self, w: &mut TcpStream, q: &Req) -> std::io::Result<()> {
        let mut seen = self.epoch.lock().unwrap().number;
        let (f, d) = self.negotiate(&q.accept);
        let until = Instant::now() + Duration::from_secs(q.q("timeoutSeconds").parse().unwrap_or(1800));
        let ct = if f == Fmt::Pb { "application/vnd.kubernetes.protobuf;stream=watch" } else { "application/json" };
        self.send(
            w,
            format!("HTTP/1.1 200 OK\r\nContent-Type: {ct}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
        )?;
        let initial = q.q("sendInitialEvents") == "true";
        let mut rv = podgen::LIST_RV;
        if initial {
            self.send(w, &d.init)?;
            self.send(w, &self.bookmark(f, rv, true))?;
        }
        loop {
            let mut e = self.epoch.lock().unwrap();
            let mut timed_out = false;
            while e.number == seen && !timed_out {
                let (g, t) = self.wake.wait_timeout(e, Duration::from_secs(20)).unwrap();
                e = g;
                timed_out = t.timed_out();
            }
            let wish = (e.number != seen).then_some(e.wish);
            seen = e.number;
            drop(e);
            match wish {
                None => {}
                Some(Wish::Events) => self.send(w, &d.events)?,
                Some(Wish::Paced { first, interval }) => self.pace(w, d, first, interval)?,
                Some(Wish::Expire) => {
                    self.send(w, &expired(f))?;
                    return self.send(w, b"0\r\n\r\n");
                }
            }
            if wish.is_some() {
                rv = podgen::LIST_RV + self.events;
            }
            if q.q("allowWatchBookmarks") == "true" {
                self.send(w, &self.bookmark(f, rv, false))?;
            }
            if Instant::now() > until {
                return self.send(w, b"0\r\n\r\n");
            }
        }
    }

    /// Sends each event at its time, or immediately if that has passed, so that a slow client does
    /// not delay later events.
    fn pace(&self, w: &mut TcpStream, d: &Data, first: SystemTime, interval: Duration) -> std::io::Result<()> {
        for (number, ends) in d.event_off.windows(2).enumerate() {
            let due = first + interval * number as u32;
            if let Ok(left) = due.duration_since(SystemTime::now()) {
                std::thread::sleep(left);
            }
            self.send(w, &d.events[ends[0]..ends[1]])?;
        }
        Ok(())
    }

    fn wish(&self, wish: Wish) -> String {
        let mut epoch = self.epoch.lock().unwrap();
        *epoch = Epoch { number: epoch.number + 1, wish };
        self.wake.notify_all();
        let first = match wish {
            Wish::Paced { first, .. } => first,
            _ => SystemTime::now(),
        };
        let first = first.duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        format!("{{\"watchers\":{},\"first_ns\":{first}}}\n", self.watchers.load(Relaxed))
    }

    /// Sizes of the data, bytes sent, and the server's own CPU time.
    pub fn stats(&self) -> String {
        let mut u: libc::rusage = unsafe { std::mem::zeroed() };
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
        let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        let sizes = |d: &Data| {
            format!(
                "{{\"list_bytes\":{},\"init_bytes\":{},\"events_bytes\":{}}}",
                d.list.len(),
                d.init_payload,
                d.events_payload
            )
        };
        format!(
            "{{\"pods\":{},\"events\":{},\"cpu_user_s\":{:.6},\"cpu_sys_s\":{:.6},\"sent_bytes\":{},\"watchers\":{},\"lists\":{},\"json\":{},\"pb\":{},\"meta\":{}}}\n",
            self.pods,
            self.events,
            s(u.ru_utime),
            s(u.ru_stime),
            self.sent.load(Relaxed),
            self.watchers.load(Relaxed),
            self.lists.load(Relaxed),
            sizes(&self.json),
            sizes(&self.pb),
            sizes(&self.meta)
        )
    }

    /// Answers one connection until the client hangs up.
    pub fn serve(&self, c: TcpStream) -> std::io::Result<()> {
        c.set_nodelay(true)?;
        let mut w = c.try_clone()?;
        let mut r = BufReader::new(c);
        while let Some(q) = read_request(&mut r)? {
            match (q.method.as_str(), q.path.as_str()) {
                ("GET", "/api/v1/pods") if matches!(q.q("watch"), "true" | "1") => {
                    self.watchers.fetch_add(1, Relaxed);
                    let x = self.watch(&mut w, &q);
                    self.watchers.fetch_sub(1, Relaxed);
                    x?
                }
                ("GET", "/api/v1/pods") => {
                    self.lists.fetch_add(1, Relaxed);
                    self.list(&mut w, &q)?
                }
                ("POST", "/_control/start") => {
                    // A client that is reconnecting would miss the events, and wait for them
                    // forever.
                    for _ in 0..600 {
                        if self.watchers.load(Relaxed) > 0 {
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    let wish = match q.q("rate").parse::<u64>() {
                        Ok(rate) if rate > 0 => Wish::Paced {
                            first: SystemTime::now() + Duration::from_millis(100),
                            interval: Duration::from_nanos(1_000_000_000 / rate),
                        },
                        _ => Wish::Events,
                    };
                    let answer = self.wish(wish);
                    self.simple(&mut w, "200 OK", &answer)?
                }
                ("POST", "/_control/expire") => {
                    let answer = self.wish(Wish::Expire);
                    self.simple(&mut w, "200 OK", &answer)?
                }
                ("GET", "/_control/stats") => self.simple(&mut w, "200 OK", &self.stats())?,
                ("GET", "/version") => self.simple(&mut w, "200 OK", "{\"major\":\"1\",\"minor\":\"36\",\"gitVersion\":\"v1.36.0\"}")?,
                _ => self.simple(
                    &mut w,
                    "404 Not Found",
                    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"reason\":\"NotFound\",\"code\":404}",
                )?,
            }
        }
        Ok(())
    }
}

/// The 410 Expired event.
fn expired(f: Fmt) -> Vec<u8> {
    let mut data = Vec::new();
    if f == Fmt::Pb {
        let status = serde_json::json!({"status": "Failure", "message": "too old resource version", "reason": "Expired", "code": 410});
        let mut raw = Vec::new();
        pb::message(&mut raw, "Status", &status);
        pb::watch_frame(&mut data, "ERROR", "v1", "Status", &raw);
    } else {
        data = b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\",\"code\":410}}\n".to_vec();
    }
    let mut out = Vec::new();
    chunk(&mut out, &data);
    out
}
