//! The entries of a recording.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Always `kubewright-recording`.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The name of the program.
    #[serde(default)]
    pub program: String,
    /// When the recording began.
    pub started: i64,
    /// Whether the contents of Secrets are replaced.
    #[serde(default)]
    pub redacted: bool,
}

/// An entry of a file, in the order in which things happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Entry {
    /// A cache was created.
    Cache(Cache),
    /// A cache shows changes.
    Applied(Applied),
    /// A reconcile began.
    Began(Began),
    /// A reconcile read a cache.
    Read(Read),
    /// A reconcile read the clock.
    Clock(Clock),
    /// A reconcile drew a random number.
    Random(Random),
    /// A request was sent.
    Request(Request),
    /// A request was answered.
    Response(Response),
    /// A reconcile ended.
    Ended(Ended),
    /// The recording ends early.
    Limit(Limit),
    /// The last entry.
    End(End),
}

/// The scope of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// When it was created.
    pub at: i64,
    /// Its number in the file.
    pub cache: u64,
    /// The group of the resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The version of the resource.
    pub version: String,
    /// The resource, such as `deployments`.
    pub resource: String,
    /// Its namespaces; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Its label selector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// Its field selector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fields: String,
    /// Whether it holds metadata only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub metadata: bool,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Changes of a cache that become visible together.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// When they were visible.
    pub at: i64,
    /// The number of the cache.
    pub cache: u64,
    /// The generation of the cache from which on they are visible.
    pub generation: u64,
    /// The resource version of the cache.
    pub version: String,
    /// The changes, in order.
    pub changes: Vec<CacheEntry>,
    /// Whether the next entry of the cache belongs to the same changes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continues: bool,
}

/// A change of a cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CacheEntry {
    /// The cache shows this object.
    Set(Box<RawValue>),
    /// The cache no longer shows the object of this key.
    Deleted(String),
}

/// The start of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Began {
    /// When it began.
    pub at: i64,
    /// Its number in the file.
    pub reconcile: u64,
    /// The name of the controller.
    pub controller: String,
    /// The key.
    pub key: String,
    /// Why it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its identifier in logs, a random draw.
    pub id: u64,
}

/// Why a reconcile ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The resource, or the name of another source.
    pub source: String,
    /// The key of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The kind of event, such as `updated`.
    pub kind: String,
}

/// A read of a cache by a reconcile that saw another generation than its read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Read {
    /// The number of the reconcile.
    pub reconcile: u64,
    /// The number of the cache.
    pub cache: u64,
    /// The generation that was read.
    pub generation: u64,
    /// The number of the read among those of the cache by this reconcile, from 1.
    pub read: u64,
}

/// A clock reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    /// The number of the reconcile.
    pub reconcile: u64,
    /// The time that it saw.
    pub reading: i64,
}

/// A random draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Random {
    /// The number of the reconcile.
    pub reconcile: u64,
    /// The number that it saw.
    pub draw: u64,
}

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// When it was sent.
    pub at: i64,
    /// Its number in the file.
    pub request: u64,
    /// The number of the reconcile that sent it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<u64>,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

impl Request {
    /// Whether the server may change objects because of it.
    pub fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

/// The body of a request or a response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// JSON.
    Json(Box<RawValue>),
    /// Other text.
    Text(String),
    /// A body that is not in the file, with its size in bytes if that is known.
    Omitted(Option<u64>),
}

/// A response, or the failure of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// When it was complete.
    pub at: i64,
    /// The number of the request.
    pub request: u64,
    /// The status code; 0 if there was no response.
    pub status: u16,
    /// The media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The value of `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// The body, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Why there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The end of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// When it ended.
    pub at: i64,
    /// The number of the reconcile.
    pub reconcile: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a reconcile ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It asked to be run again, after microseconds or when the rate limiter allows it.
    Requeue(Option<u64>),
    /// It failed with this error.
    Failed(String),
    /// It was dropped before its end.
    Dropped,
}

/// Why a recording ends early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// The size limit in bytes.
    pub bytes: u64,
}

/// The last entry of a complete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The number of entries before this one.
    pub entries: u64,
}

impl Entry {
    /// When it happened, if the entry says so.
    pub fn at(&self) -> Option<i64> {
        match self {
            Entry::Cache(entry) => Some(entry.at),
            Entry::Applied(entry) => Some(entry.at),
            Entry::Began(entry) => Some(entry.at),
            Entry::Request(entry) => Some(entry.at),
            Entry::Response(entry) => Some(entry.at),
            Entry::Ended(entry) => Some(entry.at),
            Entry::Read(_) | Entry::Clock(_) | Entry::Random(_) | Entry::Limit(_) | Entry::End(_) => None,
        }
    }

    /// The number of the reconcile that it belongs to. Responses have that of their request.
    pub fn reconcile(&self) -> Option<u64> {
        match self {
            Entry::Began(entry) => Some(entry.reconcile),
            Entry::Read(entry) => Some(entry.reconcile),
            Entry::Clock(entry) => Some(entry.reconcile),
            Entry::Random(entry) => Some(entry.reconcile),
            Entry::Request(entry) => entry.reconcile,
            Entry::Ended(entry) => Some(entry.reconcile),
            _ => None,
        }
    }
}
