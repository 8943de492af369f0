//! Compares tables with those of the real server.

use std::collections::BTreeMap;

use kubewright_core::{Map, ResourceInfo, Value};
use kubewright_merge::patch::{json_patch, merge_patch};
use kubewright_printers::{CustomColumn, Include, Printer, RowOptions};

use crate::scenario::{find, shared, steps, text};

/// Adds the server-set fields that tables show.
fn with_defaults(mut object: Value, plural: &str) -> Value {
    let created = Value::from("2025-10-01T12:00:00Z");
    let set = |object: &mut Value, pointer: &str, value: Value| {
        if find(object, pointer).is_none() {
            let (parent, key) = pointer[1..].split_once('/').expect("two keys");
            let parent = object.as_object_mut().unwrap().get_or_insert_with(parent, || Map::new().into());
            parent.as_object_mut().unwrap().insert(key, value);
        }
    };
    set(&mut object, "/metadata/creationTimestamp", created);
    match plural {
        "pods" => set(&mut object, "/status/phase", "Pending".into()),
        "services" => {
            set(&mut object, "/spec/type", "ClusterIP".into());
            let service = text(&object, &["spec", "type"]).to_owned();
            if service != "ExternalName" {
                set(&mut object, "/spec/clusterIP", "<ip>".into());
            }
            let ports = find(&object, "/spec/ports").and_then(Value::as_array).cloned().unwrap_or_default();
            let ports = ports.into_iter().map(|mut port| {
                let entries = port.as_object_mut().unwrap();
                entries.get_or_insert_with("protocol", || "TCP".into());
                if service == "NodePort" || service == "LoadBalancer" {
                    entries.insert("nodePort", Value::from(30_000));
                }
                port
            });
            let ports: Vec<Value> = ports.collect();
            object
                .as_object_mut()
                .unwrap()
                .get_mut("spec")
                .unwrap()
                .as_object_mut()
                .unwrap()
                .insert("ports", Value::from(ports));
        }
        "secrets" => {
            let data = object.get("stringData").cloned().unwrap_or_default();
            object.as_object_mut().unwrap().insert("data", data);
            object.as_object_mut().unwrap().insert("type", "Opaque".into());
        }
        "statefulsets" => set(&mut object, "/spec/replicas", 1.into()),
        "cronjobs" => set(&mut object, "/spec/suspend", false.into()),
        "persistentvolumeclaims" => {
            set(&mut object, "/status/phase", "Pending".into());
            set(&mut object, "/spec/volumeMode", "Filesystem".into());
        }
        "jobs" => {
            let selector = r#"{"matchLabels":{"batch.kubernetes.io/controller-uid":"some-uid"}}"#;
            set(&mut object, "/spec/selector", selector.parse().unwrap());
        }
        _ => {}
    }
    object
}

fn built_in(path: &str) -> Option<&'static ResourceInfo> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let plural = match parts[..] {
        ["api", "v1", "namespaces", _] => "namespaces",
        ["api", "v1", "nodes", ..] => "nodes",
        ["api", _, "namespaces", _, plural, ..] | ["apis", _, _, "namespaces", _, plural, ..] => plural,
        _ => return None,
    };
    kubewright_api::resources().into_iter().find(|info| info.plural == plural)
}

/// A cell with random and time-dependent values masked.
fn masked(cell: &Value, column: &str) -> Value {
    match (column, cell) {
        ("Age" | "When", _) => "<age>".into(),
        ("Cluster-IP" | "IP", Value::String(ip)) if ip.contains("ip") || ip.contains('.') => "<ip>".into(),
        ("Port(s)", Value::String(ports)) => ports.replace("30000", "<nodePort>").into(),
        ("Selector", Value::String(selector)) => selector.replace("some-uid", "<uid>").into(),
        (_, cell) => cell.clone(),
    }
}

fn assert_rows(step: &Value, printer: &Printer, objects: &BTreeMap<String, Value>) -> usize {
    let name = text(step, &["name"]);
    let body = find(step, "/expect/body").unwrap();
    let columns = printer.columns();
    let columns = columns.as_array().unwrap();
    let recorded = body.get("columnDefinitions").or_else(|| body.get("/columnDefinitions"));
    if let Some(recorded) = recorded.and_then(Value::as_array) {
        let part = |columns: &[Value]| -> Vec<String> {
            let parts = |column: &Value| {
                ["name", "type", "format", "priority"].map(|key| column.get(key).unwrap().to_string()).join(" ")
            };
            columns.iter().map(parts).collect()
        };
        assert_eq!(part(columns), part(recorded), "{name}");
    }
    let mut compared = 0;
    for (index, object) in objects.values().enumerate() {
        let row = printer.row(object, &RowOptions::default());
        let cells = row.get("cells").and_then(Value::as_array).unwrap();
        for (at, (cell, column)) in cells.iter().zip(columns).enumerate() {
            let pointers = [format!("/rows/{index}/cells"), format!("/rows/{index}/cells/{at}")];
            let want = find(body, &pointers[1])
                .or_else(|| body.get(&pointers[0])?.as_array()?.get(at))
                .or_else(|| body.get(&pointers[1]));
            let Some(want) = want else { continue };
            let column = text(column, &["name"]);
            assert_eq!(masked(cell, column), masked(want, column), "{name}: row {index}, {column}");
            compared += 1;
        }
    }
    compared
}

fn replay(scenario: &str) -> usize {
    let mut objects: BTreeMap<&'static str, BTreeMap<String, Value>> = BTreeMap::new();
    objects.entry("namespaces").or_default().insert(
        "ns".to_owned(),
        r#"{"metadata":{"name":"conf-{{run}}-ns"},"status":{"phase":"Active"}}"#.parse().unwrap(),
    );
    let mut compared = 0;
    for step in steps(scenario) {
        let Some(info) = built_in(text(&step, &["path"])) else { continue };
        let known = objects.entry(info.plural).or_default();
        let target = text(&step, &["path"]).split('/').find(|part| known.contains_key(*part)).map(str::to_owned);
        match text(&step, &["method"]) {
            "POST" => {
                let object = with_defaults(step.get("body").unwrap().clone(), info.plural);
                known.insert(text(&object, &["metadata", "name"]).to_owned(), object);
            }
            "PATCH" => {
                let object = known.get_mut(&target.expect("what is patched was made")).unwrap();
                *object = merge_patch(object, step.get("body").unwrap()).unwrap();
            }
            "DELETE" if info.plural == "pods" => {
                let patch = r#"[{"op":"add","path":"/metadata/deletionTimestamp","value":"2025-10-01T12:00:00Z"}]"#;
                let object = known.get_mut(&target.expect("what is deleted was made")).unwrap();
                *object = json_patch(object, &patch.parse().unwrap()).unwrap();
            }
            "" if text(&step, &["headers", "Accept"]).contains("as=Table") => {
                let selected =
                    text(&step, &["query", "fieldSelector"]).strip_prefix("metadata.name=").map(str::to_owned);
                let shown = known
                    .iter()
                    .filter(|(name, _)| selected.as_ref().or(target.as_ref()).is_none_or(|wanted| wanted == *name));
                let shown: BTreeMap<String, Value> =
                    shown.map(|(name, object)| (name.clone(), object.clone())).collect();
                compared += assert_rows(&step, &Printer::for_resource(info), &shown);
            }
            _ => {}
        }
    }
    compared
}

#[test]
fn built_in_kinds_are_printed_as_recorded() {
    for (scenario, at_least) in
        [("table-pods", 80), ("table-workloads", 40), ("table-services-and-config", 50), ("table-nodes-basics", 10)]
    {
        let compared = replay(scenario);
        assert!(compared == 0 || compared >= at_least, "{scenario}: {compared} cells compared");
    }
}

#[test]
fn custom_resources_are_printed_as_recorded() {
    let steps = steps("crd-printer-columns");
    let mut columns = Vec::new();
    let mut objects = BTreeMap::new();
    let mut compared = 0;
    for step in &steps {
        let body = step.get("body").cloned().unwrap_or_default();
        if let Some(defined) = find(&body, "/spec/versions/0/additionalPrinterColumns").and_then(Value::as_array) {
            columns = defined.iter().map(|column| CustomColumn::from_value(column).unwrap()).collect();
        } else if text(step, &["method"]) == "POST" {
            let object = with_defaults(body, "");
            objects.insert(text(&object, &["metadata", "name"]).to_owned(), object);
        } else if find(step, "/expect/body/kind").and_then(Value::as_str) == Some("Table") {
            compared += assert_rows(step, &Printer::for_columns(&columns), &objects);
        } else if text(step, &["query", "includeObject"]) == "Some" {
            let error = Include::parse("Some").unwrap_err();
            assert_eq!(error.to_string(), text(step, &["expect", "body", "message"]));
        }
    }
    assert!(steps.is_empty() || compared >= 20, "{compared} cells compared");
}

#[test]
fn every_listable_resource_has_the_columns_of_the_server() {
    let Some(table) = shared("api/columns.json") else { return };
    let mut compared = 0;
    for info in kubewright_api::resources() {
        let key = format!("{}/{}", info.kind.api_version, info.plural);
        let columns = Printer::for_resource(info).columns();
        let names: Vec<&str> = columns.as_array().unwrap().iter().map(|column| text(column, &["name"])).collect();
        let recorded = table.get(&key).or_else(|| table.get(info.plural)).and_then(Value::as_array);
        if let Some(recorded) = recorded {
            let recorded: Vec<&str> = recorded.iter().map(|column| text(column, &["name"])).collect();
            assert_eq!(names, recorded, "{key}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared} resources compared");
}
