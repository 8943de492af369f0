use kubewright_core::{GroupVersion, GroupVersionKind, Map, Value, tree};

use super::*;
use crate::discovery::Served;

fn document(group: &str, version: &str) -> Value {
    let version = GroupVersion::new(group, version);
    let mut document = OpenApiDocument::new(version.clone());
    for info in kubewright_api::resources() {
        let served = Served::from(info);
        if (&served.group, &served.version) == (&version.group, &version.version) {
            document.add(&served);
        }
    }
    document.to_value()
}

fn all_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                match value.as_str() {
                    Some(text) if key == "$ref" => found.push(text.to_owned()),
                    _ => all_references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| all_references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let mut versions: Vec<(&str, &str)> =
        kubewright_api::resources().iter().map(|info| (info.kind.group, info.kind.version)).collect();
    versions.dedup();
    for (group, version) in versions {
        let document = document(group, version);
        let schemas = document.get("components").unwrap().get("schemas").unwrap();
        let mut references = Vec::new();
        all_references(&document, &mut references);
        assert!(references.len() > 20, "{group}/{version}");
        for reference in references {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(schemas.get(name).is_some(), "{group}/{version}: {name}");
        }
    }
}

#[test]
fn every_type_and_field_is_described() {
    let mut versions: Vec<(&str, &str)> =
        kubewright_api::resources().iter().map(|info| (info.kind.group, info.kind.version)).collect();
    versions.dedup();
    for (group, version) in versions {
        let document = document(group, version);
        let schemas = tree::get(&document, &["components", "schemas"]).and_then(Value::as_object).unwrap();
        for (name, schema) in schemas.iter() {
            let is_described = |value: &Value| value.get("description").and_then(Value::as_str).is_some();
            assert!(is_described(schema), "{name}");
            for (field, property) in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
            {
                assert!(is_described(property), "{name}.{field}");
            }
        }
    }
}

#[test]
fn every_operation_and_parameter_is_described() {
    let is_described = |value: &Value| !tree::text(value, &["description"]).is_empty();
    for (group, version) in [("", "v1"), ("apps", "v1"), ("autoscaling", "v2")] {
        let document = document(group, version);
        for (path, item) in document.get("paths").and_then(Value::as_object).unwrap().iter() {
            let is_method = |(name, _): &(&kubewright_core::Str, &Value)| *name != "parameters";
            let operations: Vec<&Value> =
                item.as_object().unwrap().iter().filter(is_method).map(|(_, operation)| operation).collect();
            assert!(operations.iter().all(|operation| is_described(operation)), "{path}");
            let parameters = operations.iter().chain([&item]).flat_map(|owner| tree::items(owner, &["parameters"]));
            assert!(parameters.into_iter().all(is_described), "{path}");
        }
    }
    let core = document("", "v1");
    let text = |path: &str, method: &str| tree::text(&core, &["paths", path, method, "description"]).to_owned();
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    assert_eq!(text(pod, "get"), "Reads an object of the kind Pod.");
    assert_eq!(text(&format!("{pod}/exec"), "post"), "Connects POST requests to exec of an object of the kind Pod.");
    assert_eq!(text(&format!("{pod}/status"), "put"), "Replaces the subresource status of an object of the kind Pod.");
    assert_eq!(text("/api/v1/pods", "get"), "Lists objects of the kind Pod, or watches them.");
}

#[test]
fn operations_are_named_after_group_version_scope_and_kind() {
    let id = |document: &Value, path: &str, method: &str| {
        let operation = document.get("paths").unwrap().get(path).and_then(|path| path.get(method));
        operation.unwrap_or_else(|| panic!("{path}")).get("operationId").and_then(Value::as_str).unwrap().to_owned()
    };
    let core = document("", "v1");
    assert_eq!(id(&core, "/api/v1/pods", "get"), "listCoreV1PodForAllNamespaces");
    assert_eq!(id(&core, "/api/v1/nodes/{name}/status", "patch"), "patchCoreV1NodeStatus");
    let eviction = "/api/v1/namespaces/{namespace}/pods/{name}/eviction";
    assert_eq!(id(&core, eviction, "post"), "createCoreV1NamespacedPodEviction");
    let exec = "/api/v1/namespaces/{namespace}/pods/{name}/exec";
    assert_eq!(id(&core, exec, "get"), "connectCoreV1GetNamespacedPodExec");
    let rbac = document("rbac.authorization.k8s.io", "v1");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(id(&rbac, roles, "delete"), "deleteRbacAuthorizationV1CollectionClusterRole");
    let tags = rbac.get("paths").unwrap().get(roles).unwrap().get("get").unwrap().get("tags").unwrap();
    assert_eq!(tags.to_string(), r#"["rbacAuthorization_v1"]"#);
}

#[test]
fn custom_resources_are_published_with_type_and_object_metadata() {
    let kind = GroupVersionKind::new("stable.example.com", "v1", "CronTab");
    let served = Served::custom(kind, "crontabs", "crontab", true).with_status().with_scale();
    let schema = r#"{"type":"object","properties":{"spec":{"type":"object"}}}"#.parse().unwrap();
    let mut document = OpenApiDocument::new(GroupVersion::new("stable.example.com", "v1"));
    document.add_custom(&served, "CronTabList", Some(&schema));
    let value = document.to_value();
    let schemas = value.get("components").unwrap().get("schemas").unwrap();
    let object = schemas.get("com.example.stable.v1.CronTab").unwrap().to_string();
    assert!(object.contains(r##""#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta""##), "{object}");
    assert!(object.contains(r#"[{"group":"stable.example.com","kind":"CronTab","version":"v1"}]"#), "{object}");
    assert!(schemas.get("com.example.stable.v1.CronTabList").is_some());
    assert!(schemas.get("io.k8s.api.autoscaling.v1.Scale").is_some());
    let path = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}";
    let patch = value.get("paths").unwrap().get(path).unwrap().get("patch").unwrap();
    let body = patch.get("requestBody").unwrap().to_string();
    assert!(body.contains("application/merge-patch+json") && !body.contains("strategic"), "{body}");
    assert!(patch.get("parameters").unwrap().to_string().contains(r#""name":"fieldValidation""#));
}

#[test]
fn the_index_names_each_document_with_its_hash() {
    let index = index([("api/v1", "A"), ("apis/apps/v1", "B")]);
    let want = r#"{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=A"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=B"}}}"#;
    assert_eq!(index.to_string(), want);
    assert_ne!(hash(b"a"), hash(b"b"));
}

#[test]
fn a_document_is_the_same_each_time() {
    let apps = document("apps", "v1");
    assert_eq!(apps.to_string(), document("apps", "v1").to_string());
}
