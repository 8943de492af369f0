use kubewright_core::{GroupVersionKind, Value};

use super::*;

fn built_in() -> Vec<Served> {
    kubewright_api::resources().into_iter().map(Served::from).collect()
}

fn widgets(version: &str) -> Served {
    let kind = GroupVersionKind::new("example.com", version, "Widget");
    Served::custom(kind, "widgets", "widget", true)
}

fn tree(document: &DiscoveryDocument) -> Value {
    Value::from_json(&document.to_json()).unwrap()
}

fn names(list: &Value, key: &str, name: &str) -> Vec<String> {
    let items = list.get(key).and_then(Value::as_array).unwrap();
    items.iter().map(|item| item.get(name).and_then(Value::as_str).unwrap().to_owned()).collect()
}

#[test]
fn groups_are_ordered_by_priority_and_custom_groups_follow_by_name() {
    let custom = ["b.example.com", "a.example.com"].map(|group| Served { group: group.into(), ..widgets("v1") });
    let discovery = ServedApis::new(custom.into_iter().chain(built_in().into_iter().rev()));
    let groups = names(&tree(&discovery.api_group_list()), "groups", "name");
    assert_eq!(groups[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert_eq!(groups[groups.len() - 3..], ["flowcontrol.apiserver.k8s.io", "a.example.com", "b.example.com"]);
}

#[test]
fn the_highest_stable_version_is_preferred() {
    let discovery = ServedApis::new(["v1beta1", "v2alpha1", "v1", "v2"].map(widgets));
    let group = tree(&discovery.api_group("example.com").unwrap());
    assert_eq!(names(&group, "versions", "version"), ["v2", "v1", "v1beta1", "v2alpha1"]);
    assert_eq!(group.get("preferredVersion").unwrap().get("version").unwrap().as_str(), Some("v2"));
}

#[test]
fn storage_version_hashes_equal_those_of_kube_apiserver() {
    let hash = |group: &str, plural: &str| {
        let resource = built_in().into_iter().find(|served| served.group == *group && served.plural == *plural);
        resource.unwrap().storage_version_hash()
    };
    assert_eq!(hash("", "pods").as_deref(), Some("xPOwRZ+Yhw8="));
    assert_eq!(hash("events.k8s.io", "events").as_deref(), Some("r2yiGXH7wu8="));
    assert_eq!(hash("", "events").as_deref(), Some("r2yiGXH7wu8="));
    assert_eq!(hash("authentication.k8s.io", "tokenreviews"), None);
    assert_eq!(hash("", "componentstatuses"), None);
}

#[test]
fn subresources_follow_their_resource_and_name_foreign_kinds_in_full() {
    let discovery = ServedApis::new([widgets("v1").with_status().with_scale()]);
    let list = tree(&discovery.api_resource_list("example.com", "v1").unwrap());
    assert_eq!(names(&list, "resources", "name"), ["widgets", "widgets/status", "widgets/scale"]);
    let resources = list.get("resources").and_then(Value::as_array).unwrap();
    assert_eq!(resources[1].get("group"), None);
    assert_eq!(resources[2].get("group").and_then(Value::as_str), Some("autoscaling"));
    let aggregated = String::from_utf8(discovery.aggregated_groups().to_json()).unwrap();
    assert!(aggregated.contains(r#""responseKind":{"group":"example.com","version":"v1","kind":"Widget"}"#));
}

#[test]
fn unserved_groups_have_no_document() {
    let discovery = ServedApis::new(built_in());
    assert!(discovery.api_group("none.example.com").is_none());
    assert!(discovery.api_group("").is_none());
    assert!(discovery.api_resource_list("apps", "v3").is_none());
    let core = tree(&discovery.api_resource_list("", "v1").unwrap());
    assert_eq!((core.get("apiVersion"), core.get("groupVersion").and_then(Value::as_str)), (None, Some("v1")));
}

#[test]
fn protobuf_documents_have_the_same_content_as_json_ones() {
    use kubewright_api::apidiscovery::v2::APIGroupDiscoveryList;
    use kubewright_core::Decoder;
    use kubewright_core::json::Writer;
    use kubewright_core::meta::v1::{APIGroup, APIGroupList, APIResourceList, APIVersions};
    use kubewright_core::protobuf::Envelope;

    fn check<M: kubewright_core::message::Message + Default>(document: &DiscoveryDocument, api_version: &str) {
        let protobuf = document.to_protobuf();
        let envelope = Envelope::decode(&protobuf).unwrap();
        assert_eq!(envelope.api_version, api_version);
        let mut message = M::default();
        Decoder::new().protobuf_into(&mut message, &protobuf).unwrap();
        let mut json = Vec::new();
        Writer::new(&mut json).as_server().message(&message);
        let fields = String::from_utf8(json).unwrap();
        let whole = String::from_utf8(document.to_json()).unwrap();
        assert!(whole.ends_with(&fields[1..]) && whole.contains(envelope.kind.as_str()), "{fields}");
    }
    let discovery = ServedApis::new(built_in().into_iter().chain([widgets("v1").with_scale()]));
    check::<APIVersions>(&discovery.api_versions("localhost"), "");
    check::<APIGroupList>(&discovery.api_group_list(), "v1");
    check::<APIGroup>(&discovery.api_group("example.com").unwrap(), "v1");
    check::<APIResourceList>(&discovery.api_resource_list("", "v1").unwrap(), "");
    check::<APIResourceList>(&discovery.api_resource_list("example.com", "v1").unwrap(), "v1");
    check::<APIGroupDiscoveryList>(&discovery.aggregated_core(), "apidiscovery.k8s.io/v2");
    check::<APIGroupDiscoveryList>(&discovery.aggregated_groups(), "apidiscovery.k8s.io/v2");
}

/// In Go, `verbs` is a message of its own around the strings.
#[test]
fn protobuf_documents_nest_verbs_as_go_does() {
    let discovery = ServedApis::new([widgets("v1")]);
    let protobuf = discovery.api_resource_list("example.com", "v1").unwrap().to_protobuf();
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let mut items = Vec::new();
    for verb in verbs {
        items.extend([0x0a, verb.len() as u8]);
        items.extend(verb.as_bytes());
    }
    let mut field = vec![0x22, items.len() as u8];
    field.append(&mut items);
    assert!(protobuf.windows(field.len()).any(|bytes| bytes == field), "{protobuf:02x?}");
}

fn remote(group: &str, version: &str, plural: Option<&str>) -> RemoteVersion {
    let resources = plural.map(|plural| {
        let kind = GroupVersionKind::new(group, version, "Metrics");
        vec![Served { stored_as: None, custom: false, ..Served::custom(kind, plural, "", true) }]
    });
    RemoteVersion { group: group.into(), version: version.into(), resources }
}

#[test]
fn versions_of_aggregated_servers_are_listed_and_replace_local_ones() {
    let local = ServedApis::new([widgets("v1"), widgets("v2")]);
    let remote = [remote("example.com", "v1", Some("gadgets")), remote("metrics.k8s.io", "v1beta1", None)];
    let discovery = local.with_remote(&remote);
    assert_eq!(names(&tree(&discovery.api_group_list()), "groups", "name"), ["example.com", "metrics.k8s.io"]);
    let group = tree(&discovery.api_group("example.com").unwrap());
    assert_eq!(names(&group, "versions", "version"), ["v2", "v1"]);
    let list =
        |version| names(&tree(&discovery.api_resource_list("example.com", version).unwrap()), "resources", "name");
    assert_eq!((list("v1"), list("v2")), (vec!["gadgets".to_owned()], vec!["widgets".to_owned()]));
    let aggregated = String::from_utf8(discovery.aggregated_groups().to_json()).unwrap();
    let stale = r#"{"version":"v1beta1","freshness":"Stale"}"#;
    assert!(aggregated.contains(stale), "{aggregated}");
}

#[test]
fn the_document_of_an_aggregated_server_is_read_with_subresources() {
    use kubewright_core::Decoder;
    use kubewright_core::meta::v1::APIResourceList;

    let discovery = ServedApis::new([widgets("v1").with_status().with_scale()]);
    let document = discovery.api_resource_list("example.com", "v1").unwrap().to_json();
    let list: APIResourceList = Decoder::new().json(&document).unwrap();
    let read = RemoteVersion::resources_of("example.com", "v1", &list);
    let expected = widgets("v1").with_status().with_scale();
    assert_eq!(read, [Served { stored_as: None, custom: false, ..expected }]);
}
