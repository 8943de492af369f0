//! As much of HTTP/1.1 as clients of the bench send.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// A request whose body has been read and thrown away.
pub struct Req {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub accept: String,
}

impl Req {
    /// A parameter of the query, empty if it has none of that name.
    pub fn q(&self, k: &str) -> &str {
        self.query.iter().find(|(a, _)| a == k).map_or("", |(_, v)| v)
    }
}

fn unescape(s: &str) -> String {
    let b = s.as_bytes();
    let (mut o, mut i) = (Vec::new(), 0);
    while i < b.len() {
        match b[i] {
            b'%' if i + 2 < b.len() => {
                o.push(u8::from_str_radix(&s[i + 1..i + 3], 16).unwrap_or(b'?'));
                i += 2;
            }
            b'+' => o.push(b' '),
            c => o.push(c),
        }
        i += 1;
    }
    String::from_utf8_lossy(&o).into_owned()
}

/// The next request, or nothing once the client has hung up.
pub fn read_request(r: &mut BufReader<TcpStream>) -> std::io::Result<Option<Req>> {
    let mut line = String::new();
    if r.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut it = line.split_whitespace();
    let (method, target) = (it.next().unwrap_or("").to_string(), it.next().unwrap_or("").to_string());
    let (mut accept, mut len) = (String::new(), 0usize);
    loop {
        line.clear();
        if r.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let l = line.trim_end();
        if l.is_empty() {
            break;
        }
        if let Some((k, v)) = l.split_once(':') {
            match k.to_ascii_lowercase().as_str() {
                "accept" => accept = v.trim().to_string(),
                "content-length" => len = v.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
    }
    std::io::copy(&mut r.by_ref().take(len as u64), &mut std::io::sink())?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Ok(Some(Req {
        method,
        path: path.to_string(),
        query: query.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (unescape(k), unescape(v))).collect(),
        accept,
    }))
}
