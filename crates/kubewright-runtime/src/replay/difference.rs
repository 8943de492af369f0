//! The first difference between a replay and its recording.

use std::fmt;

use kubewright_core::{MicroTime, Value};
use kubewright_recording::{Began, Body, Request};

use crate::object_history::changed_lines;

/// A write of a replayed controller.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplayedWrite {
    /// The number of its reconcile in the recording.
    pub reconcile: u64,
    /// The name of the controller.
    pub controller: String,
    /// The key of the reconcile.
    pub key: String,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The body: JSON if it is that, or text.
    pub body: Option<Value>,
    /// The status code of its answer; 0 if there was none.
    pub status: u16,
}

/// The first difference.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Difference {
    /// The reconcile, as it was recorded.
    pub reconcile: Began,
    /// The recorded write, if there is one.
    pub recorded: Option<ReplayedWrite>,
    /// The request of the replayed controller, if there is one.
    pub replayed: Option<ReplayedWrite>,
    /// The kind of difference.
    pub kind: DifferenceKind,
}

/// The kind of a [`Difference`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// Both write something else, or one of them writes nothing.
    Write,
    /// The replayed controller reads what the recording has no answer for.
    UnrecordedRead,
    /// The replayed reconcile does not end.
    Unfinished,
}

impl ReplayedWrite {
    /// A recorded request.
    pub(super) fn recorded(began: &Began, request: &Request) -> Self {
        ReplayedWrite::new(began, &request.method, &request.path, value_of(request.body.as_ref()))
    }

    pub(super) fn new(began: &Began, method: &str, path: &str, body: Option<Value>) -> Self {
        ReplayedWrite {
            reconcile: began.reconcile,
            controller: began.controller.clone(),
            key: began.key.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            body,
            status: 0,
        }
    }

    /// Whether both are the same request.
    pub(super) fn is_equal(&self, other: &ReplayedWrite) -> bool {
        let same_body = match (&self.body, &other.body) {
            (Some(one), Some(other)) => one.is_equivalent(other),
            (one, other) => one == other,
        };
        self.method == other.method && self.path == other.path && same_body
    }
}

/// A recorded body as a tree.
pub(super) fn value_of(body: Option<&Body>) -> Option<Value> {
    match body? {
        Body::Json(json) => Value::from_json(json.get().as_bytes()).ok(),
        Body::Text(text) => Some(Value::String(text.as_str().into())),
        Body::Omitted(_) => None,
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Began { reconcile, controller, key, attempt, at, reasons, .. } = &self.reconcile;
        write!(f, "in reconcile {reconcile} of controller {controller}, key {key}, attempt {attempt}")?;
        if let Some(time) = MicroTime::from_unix_micros(*at) {
            write!(f, ", at {time}")?;
        }
        writeln!(f)?;
        for reason in reasons {
            let object = reason.object.as_deref().unwrap_or_default();
            writeln!(f, "  because {} {object} {}", reason.source, reason.kind)?;
        }
        match (&self.recorded, &self.replayed, self.kind) {
            (Some(recorded), Some(replayed), _) => {
                write_request(f, "recorded", recorded)?;
                write_request(f, "replayed", replayed)?;
                let empty = Value::Null;
                let (before, after) =
                    (recorded.body.as_ref().unwrap_or(&empty), replayed.body.as_ref().unwrap_or(&empty));
                let mut lines = changed_lines(before, after);
                let version = |value: &Value| {
                    let version = value.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
                    version.map(ToString::to_string).unwrap_or_else(|| "none".to_owned())
                };
                if lines.is_empty() && version(before) != version(after) {
                    lines.push(format!("~ metadata.resourceVersion: {} → {}", version(before), version(after)));
                }
                lines.iter().try_for_each(|line| writeln!(f, "    {line}"))
            }
            (Some(recorded), None, _) => {
                write_request(f, "recorded", recorded)?;
                writeln!(f, "  replayed  nothing")?;
                write_body(f, '-', recorded)
            }
            (None, Some(replayed), DifferenceKind::UnrecordedRead) => {
                write_request(f, "replayed", replayed)?;
                writeln!(f, "  recorded  no answer to this request")
            }
            (None, Some(replayed), _) => {
                writeln!(f, "  recorded  nothing")?;
                write_request(f, "replayed", replayed)?;
                write_body(f, '+', replayed)
            }
            (None, None, _) => writeln!(f, "  the replayed reconcile does not end, and the recorded one did"),
        }
    }
}

fn write_request(f: &mut fmt::Formatter<'_>, who: &str, write: &ReplayedWrite) -> fmt::Result {
    writeln!(f, "  {who}  {} {}", write.method, write.path)
}

fn write_body(f: &mut fmt::Formatter<'_>, sign: char, write: &ReplayedWrite) -> fmt::Result {
    let Some(body) = &write.body else { return Ok(()) };
    for line in changed_lines(&Value::Null, body) {
        writeln!(f, "    {sign} {}", line.trim_start_matches("+ "))?;
    }
    Ok(())
}
