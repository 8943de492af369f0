//! The object view of cell functions: values by path, and text in cell format.

use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{Decoder, MicroTime, Selector, Time, Value, tree};

use super::human_duration;

/// An object and the current time.
pub(super) struct PrintedObject<'v> {
    pub(super) value: &'v Value,
    pub(super) now: Time,
}

impl<'v> PrintedObject<'v> {
    /// The value at a path.
    pub(super) fn at(&self, path: &[&str]) -> Option<&'v Value> {
        tree::get(self.value, path).filter(|value| !value.is_null())
    }

    /// Whether there is a value at a path.
    pub(super) fn has(&self, path: &[&str]) -> bool {
        self.at(path).is_some()
    }

    /// The text at a path, or an empty one.
    pub(super) fn text(&self, path: &[&str]) -> &'v str {
        tree::text(self.value, path)
    }

    /// The text at a path as a cell, or `default` if it is missing or empty.
    pub(super) fn text_or(&self, path: &[&str], default: &'static str) -> Value {
        match self.text(path) {
            "" => default.into(),
            text => text.into(),
        }
    }

    /// The integer at a path, or 0.
    pub(super) fn number(&self, path: &[&str]) -> i64 {
        number_at(self.value, path)
    }

    /// The boolean at a path, or `default`.
    pub(super) fn flag(&self, path: &[&str], default: bool) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The items at a path.
    pub(super) fn items(&self, path: &[&str]) -> &'v [Value] {
        tree::items(self.value, path)
    }

    /// The number of items or entries at a path, as a cell.
    pub(super) fn count(&self, path: &[&str]) -> i64 {
        match self.at(path) {
            Some(Value::Array(items)) => items.len() as i64,
            Some(Value::Object(entries)) => entries.len() as i64,
            _ => 0,
        }
    }

    /// The name, as a cell.
    pub(super) fn name(&self) -> Value {
        self.text(&["metadata", "name"]).into()
    }

    /// The age of the object, as a cell.
    pub(super) fn age(&self) -> Value {
        self.since(&["metadata", "creationTimestamp"]).into()
    }

    /// The time elapsed since the time at a path.
    pub(super) fn since(&self, path: &[&str]) -> String {
        match time_at(self.value, path) {
            Some(time) => human_duration(self.now.as_unix() - time.as_unix()),
            None => "<unknown>".to_owned(),
        }
    }

    /// Whether the object is being deleted.
    pub(super) fn is_terminating(&self) -> bool {
        self.has(&["metadata", "deletionTimestamp"])
    }

    /// The names and images of the containers at a path, as two cells.
    pub(super) fn containers(&self, path: &[&str]) -> [Value; 2] {
        let containers = self.items(path);
        ["name", "image"].map(|key| join(containers.iter().map(|container| tree::text(container, &[key]))).into())
    }

    /// The labels at a path, as a cell.
    pub(super) fn labels(&self, path: &[&str]) -> Value {
        let labels = self.at(path).and_then(Value::as_object);
        let mut pairs: Vec<String> = labels
            .map(|labels| {
                labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect()
            })
            .unwrap_or_default();
        // Sort pairs, not keys: `app.example/x=1` comes before `app=1`.
        pairs.sort_unstable();
        or_none(pairs.join(","))
    }

    /// The label selector at a path as text. `None` if it is invalid.
    pub(super) fn selector(&self, path: &[&str]) -> Option<String> {
        let Some(value) = self.at(path) else { return Some(String::new()) };
        let selector: LabelSelector = Decoder::new().json(value.to_string().as_bytes()).ok()?;
        Some(Selector::from_label_selector(Some(&selector)).ok()?.to_string())
    }

    /// The label selector at a path, as a cell.
    pub(super) fn selector_cell(&self, path: &[&str]) -> Value {
        self.selector(path).map_or_else(|| "<error>".into(), or_none)
    }

    /// The conditions in the status.
    pub(super) fn conditions(&self) -> &'v [Value] {
        self.items(&["status", "conditions"])
    }

    /// The status of the first condition of this type.
    pub(super) fn condition(&self, ty: &str) -> Option<&'v str> {
        self.conditions()
            .iter()
            .find(|condition| tree::text(condition, &["type"]) == ty)
            .map(|found| tree::text(found, &["status"]))
    }
}

/// Parses the time at a path, with or without microseconds.
pub(super) fn time_at(value: &Value, path: &[&str]) -> Option<Time> {
    let text = tree::text(value, path);
    let time = text.parse().or_else(|_| text.parse::<MicroTime>().map(Time::from)).ok()?;
    Some(time).filter(|time| !time.is_zero())
}

/// Joins texts with commas.
pub(super) fn join<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    texts.into_iter().collect::<Vec<_>>().join(",")
}

/// The text as a cell, or `<none>` if it is empty.
pub(super) fn or_none(text: String) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// The first `limit` texts and the number of the others.
pub(super) fn shortened(texts: &[String], limit: usize, separator: &str) -> String {
    let shown = texts[..texts.len().min(limit)].join(separator);
    match texts.len().checked_sub(limit) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} + {more} more..."),
    }
}

/// A quantity, number or percentage as text, or 0.
pub(super) fn amount(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.to_string(),
        Some(value) if !value.is_null() => value.to_string(),
        _ => "0".to_owned(),
    }
}

/// The integer at a path, or 0.
pub(super) fn number_at(value: &Value, path: &[&str]) -> i64 {
    match tree::get(value, path) {
        Some(Value::Int(number)) => *number,
        Some(Value::Float(number)) => *number as i64,
        _ => 0,
    }
}
