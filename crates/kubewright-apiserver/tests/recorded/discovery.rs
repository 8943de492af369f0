//! Compares discovery of the built-in resources with the real server's.

use kubewright_core::Value;
use kubewright_resources::accept::{Form, Offer, negotiate};
use kubewright_resources::discovery::{Served, ServedApis};

use crate::scenario::{assert_answer, shared, steps, text};

fn built_in() -> ServedApis {
    ServedApis::new(kubewright_api::resources().into_iter().map(Served::from))
}

fn answer(discovery: &ServedApis, path: &str, aggregated: bool) -> Option<Value> {
    let document = match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        ["api"] if aggregated => Some(discovery.aggregated_core()),
        ["apis"] if aggregated => Some(discovery.aggregated_groups()),
        ["api"] => Some(discovery.api_versions("127.0.0.1:6443")),
        ["apis"] => Some(discovery.api_group_list()),
        ["apis", group] => discovery.api_group(group),
        ["api", version] => discovery.api_resource_list("", version),
        ["apis", group, version] => discovery.api_resource_list(group, version),
        _ => None,
    };
    document.map(|document| Value::from_json(&document.to_json()).unwrap())
}

#[test]
fn discovery_answers_as_recorded() {
    let discovery = built_in();
    let mut compared = 0;
    let steps: Vec<Value> = ["discovery-legacy", "discovery-aggregated"].iter().flat_map(|name| steps(name)).collect();
    for step in &steps {
        let path = text(step, &["path"]);
        if !path.starts_with("/api") || !text(step, &["headers", "If-None-Match"]).is_empty() {
            continue;
        }
        let offer = if matches!(path, "/api" | "/apis") { Offer::Discovery } else { Offer::Plain };
        let accept = step.get("headers").and_then(|headers| headers.get("Accept")).and_then(Value::as_str);
        let status = step.get("expect").unwrap().get("status").and_then(Value::as_i64).unwrap();
        let accepted = match negotiate(accept, offer) {
            Ok(accepted) => accepted,
            Err(_) => {
                assert_eq!(status, 406, "{step}");
                continue;
            }
        };
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split(';').map(str::to_owned).collect();
            parts[1..].sort();
            parts
        };
        match answer(&discovery, path, accepted.form == Form::AggregatedDiscovery) {
            None => assert_eq!(status, 404, "{step}"),
            Some(mut body) => {
                assert_eq!(sorted(accepted.content_type()), sorted(text(step, &["expect", "type"])), "{step}");
                if text(step, &["expect", "type"]) == "application/yaml" {
                    continue;
                }
                if path == "/api" {
                    body.as_object_mut().unwrap().remove("serverAddressByClientCIDRs");
                }
                assert_answer(step, &body);
            }
        }
        compared += 1;
    }
    assert!(steps.is_empty() || compared > 20, "{compared} answers compared");
}

#[test]
fn every_resource_of_the_table_is_discovered_as_the_server_lists_it() {
    let Some(table) = shared("api/resources.json") else { return };
    let discovery = built_in();
    for resource in table.as_array().unwrap() {
        let part = |key: &str| text(resource, &[key]);
        let list = discovery.api_resource_list(part("group"), part("version")).unwrap();
        let list = Value::from_json(&list.to_json()).unwrap();
        let entries = list.get("resources").and_then(Value::as_array).unwrap();
        let entry = entries.iter().find(|entry| text(entry, &["name"]) == part("resource")).unwrap();
        assert_eq!(entry.get("verbs"), resource.get("verbs"), "{entry}");
        assert_eq!(text(entry, &["kind"]), part("kind"), "{entry}");
        assert_eq!(text(entry, &["singularName"]), part("singular"), "{entry}");
        for subresource in resource.get("subresources").and_then(Value::as_array).unwrap() {
            let name = format!("{}/{}", part("resource"), text(subresource, &["name"]));
            let entry = entries.iter().find(|entry| text(entry, &["name"]) == name).unwrap();
            for key in ["group", "version", "kind"] {
                assert_eq!(text(entry, &[key]), text(subresource, &[key]), "{name}: {key}");
            }
            assert_eq!(entry.get("verbs"), subresource.get("verbs"), "{entry}");
        }
    }
}
