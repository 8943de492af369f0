//! Cells of Events, whose field names differ between the two groups.

use kubewright_core::Value;

use crate::human_duration;
use crate::object::{PrintedObject, time_at};

/// Last seen, type, reason, object; subobject, source; message; first seen, count, name.
pub(super) fn event(event: &PrintedObject<'_>) -> Vec<Value> {
    let either = |core: &[&str], other: &[&str]| match event.text(core) {
        "" => event.text(other),
        text => text,
    };
    let regarding = |key: &str| either(&["involvedObject", key], &["regarding", key]);
    let since = |paths: &[&[&str]]| {
        let time = paths.iter().find_map(|path| time_at(event.value, path));
        time.map_or_else(|| "<unknown>".to_owned(), |time| human_duration(event.now.as_unix() - time.as_unix()))
    };
    let first = since(&[&["firstTimestamp"], &["deprecatedFirstTimestamp"], &["eventTime"]]);
    let (last, count) = if event.has(&["series"]) {
        (since(&[&["series", "lastObservedTime"]]), event.number(&["series", "count"]))
    } else {
        let last = [&["lastTimestamp"], &["deprecatedLastTimestamp"]];
        let last = if last.iter().any(|path| time_at(event.value, *path).is_some()) {
            since(&[&["lastTimestamp"], &["deprecatedLastTimestamp"]])
        } else {
            first.clone()
        };
        // In events.k8s.io, a single event has no count.
        (last, (event.number(&["count"]) + event.number(&["deprecatedCount"])).max(1))
    };
    let kind = regarding("kind").to_lowercase();
    let target = match regarding("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        event.text(&["type"]).into(),
        event.text(&["reason"]).into(),
        target.into(),
        regarding("fieldPath").into(),
        source(event).into(),
        either(&["message"], &["note"]).trim().into(),
        first.into(),
        count.into(),
        event.name(),
    ]
}

/// The reporting component and its host.
fn source(event: &PrintedObject<'_>) -> String {
    let first = |paths: [&[&str]; 3]| paths.into_iter().map(|path| event.text(path)).find(|text| !text.is_empty());
    let component = [&["source", "component"][..], &["deprecatedSource", "component"], &["reportingComponent"]];
    let component = first(component).unwrap_or_else(|| event.text(&["reportingController"]));
    let host = [&["source", "host"][..], &["deprecatedSource", "host"], &["reportingInstance"]];
    match first(host) {
        None => component.to_owned(),
        Some(host) => format!("{component}, {host}"),
    }
}
