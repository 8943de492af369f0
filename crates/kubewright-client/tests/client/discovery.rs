//! Discovery and resource names.

use std::time::Duration;

use kubewright_client::discovery::{CachedDiscovery, DiskCache, RestMapper};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{DynamicObject, GroupKind, GroupResource, GroupVersion, GroupVersionResource, Object, json};

use crate::script::{Answer, Script, answer};
use crate::support::{test_client, unique};

pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub fn document(groups: &[(&str, &str, &str)]) -> Answer {
    let items: Vec<String> = groups
        .iter()
        .map(|(group, version, resource)| {
            format!(
                r#"{{"metadata":{{"name":"{group}"}},"versions":[{{"version":"{version}","freshness":"Current","resources":[
                {{"resource":"{resource}","responseKind":{{"group":"{group}","version":"{version}","kind":"{resource}"}},"scope":"Cluster",
                "singularResource":"","verbs":["get"]}}]}}]}}"#
            )
        })
        .collect();
    answer(200, format!(r#"{{"items":[{}]}}"#, items.join(","))).header("content-type", AGGREGATED)
}

fn failure(code: u16) -> Answer {
    answer(code, format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code}}}"#))
}

pub fn resource_list(version: &str, resources: &str) -> Answer {
    answer(200, format!(r#"{{"kind":"APIResourceList","groupVersion":"{version}","resources":[{resources}]}}"#))
}

#[tokio::test]
async fn both_ways_of_asking_give_the_same() {
    // DI-1
    let server = test_client().await;
    let aggregated = server.client.discovery().discover().await.unwrap();
    let legacy = server.client.discovery().legacy().discover().await.unwrap();
    let shape = |discovery: &kubewright_client::discovery::Discovery| {
        let mut all: Vec<String> = discovery
            .resources()
            // Concurrent tests on a shared server create and delete kinds.
            .filter(|(version, _)| !version.group.ends_with("example.com"))
            .map(|(version, one)| {
                let mut parts: Vec<String> =
                    one.subresources.iter().map(|part| format!("{}={}", part.name, part.kind)).collect();
                parts.sort();
                let mut verbs = one.verbs.clone();
                verbs.sort();
                format!(
                    "{version} {} {} {} {verbs:?} {:?} {parts:?}",
                    one.plural, one.kind, one.namespaced, one.short_names
                )
            })
            .collect();
        all.sort();
        all
    };
    // The number depends on the server; the embedded one has the whole stable API.
    assert!(aggregated.resources().count() > if server.is_embedded() { 50 } else { 5 });
    assert_eq!(shape(&aggregated), shape(&legacy));
    assert!(aggregated.failures.is_empty());
    assert!(aggregated.group_versions().any(|version| version == GroupVersion::new("apps", "v1")));
    let version = server.client.discovery().server_version().await.unwrap();
    assert!(version.numbers().is_some_and(|(major, minor)| major == 1 && minor > 20), "{version}");
    if !server.serves(&["autoscaling/v1 horizontalpodautoscalers", "autoscaling/v2 horizontalpodautoscalers"]).await {
        return;
    }
    let preferred: Vec<String> = aggregated
        .preferred_resources()
        .filter(|(_, one)| one.plural == "horizontalpodautoscalers")
        .map(|(version, _)| version.to_string())
        .collect();
    assert_eq!(preferred.len(), 1, "{preferred:?}");
}

#[tokio::test]
async fn the_aggregated_form_is_used_only_where_both_places_have_it() {
    // DI-1
    let script = Script::new([
        document(&[("", "v1", "pods")]),
        answer(200, r#"{"kind":"APIGroupList","groups":[]}"#),
        answer(200, r#"{"kind":"APIVersions","versions":["v1"]}"#),
        answer(200, r#"{"kind":"APIGroupList","groups":[]}"#),
        resource_list(
            "v1",
            r#"{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get"]}"#,
        ),
    ]);
    let discovery = script.client().discovery().discover().await.unwrap();
    let names: Vec<&str> = discovery.resources().map(|(_, one)| one.plural.as_str()).collect();
    assert_eq!(names, ["nodes"]);
    assert_eq!(
        script.asked()[0].headers["accept"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    );
    let script = Script::new([failure(404), document(&[("example.com", "v1", "foos")])]);
    let discovery = script.client().discovery().without_peers().discover().await.unwrap();
    assert!(script.asked()[0].headers["accept"].to_str().unwrap().contains(";profile=nopeer,"));
    assert_eq!(discovery.resources().count(), 1, "a server without a core group is one too");
}

#[tokio::test]
async fn a_part_that_fails_leaves_the_rest_right() {
    // DI-3
    let groups = r#"{"kind":"APIGroupList","groups":[{"name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"}]}]}"#;
    let round = || {
        [
            answer(200, r#"{"kind":"APIVersions","versions":["v1"]}"#),
            answer(200, groups),
            resource_list(
                "v1",
                r#"{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get"]}"#,
            ),
            failure(503),
        ]
    };
    let script = Script::new(round().into_iter().chain(round()));
    let discovery = script.client().discovery().legacy().discover().await.unwrap();
    assert_eq!(discovery.resources().count(), 1);
    assert_eq!(discovery.failures.len(), 1);
    assert!(discovery.failures[0].is_transient);
    assert_eq!(script.asked().len(), 8, "two attempts");
}

#[tokio::test]
async fn only_transient_discovery_failures_are_retried() {
    // DI-4
    let stale = document(&[("", "v1", "pods")]);
    let groups = answer(
        200,
        r#"{"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1","freshness":"Stale","resources":[]}]}]}"#,
    );
    let again = answer(
        200,
        r#"{"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1","freshness":"Stale","resources":[]}]}]}"#,
    );
    let foo = r#"{"name":"foos","singularName":"foo","namespaced":true,"kind":"Foo","verbs":["get"]}"#;
    let script = Script::new([
        stale,
        groups.header("content-type", AGGREGATED),
        document(&[("", "v1", "pods")]),
        again.header("content-type", AGGREGATED),
        // The second use: an empty document does not count; the next one does.
        resource_list("example.com/v1", ""),
        resource_list("example.com/v1", foo),
    ]);
    let cached = CachedDiscovery::new(script.client().discovery());
    assert!(!cached.is_fresh());
    assert_eq!(cached.get().await.unwrap().failures.len(), 1);
    assert!(cached.is_fresh());
    assert_eq!(cached.get().await.unwrap().failures.len(), 1);
    let whole = cached.get().await.unwrap();
    assert!(whole.failures.is_empty());
    assert!(whole.resource(&GroupVersionResource::new("example.com", "v1", "foos")).is_some());
    cached.get().await.unwrap();
    assert_eq!(script.asked().len(), 6, "what is known is not asked for");
    cached.invalidate().await;
    assert!(!cached.is_fresh());
    assert!(cached.get().await.is_err(), "the script is over");
}

#[tokio::test]
async fn the_disk_remembers_for_its_time() {
    // DI-4
    let directory = std::env::temp_dir().join(format!("kubewright-discovery-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let disk = DiskCache::new(&directory, Duration::from_secs(600));
    let script = Script::new([document(&[("", "v1", "pods")]), document(&[("example.com", "v1", "foos")])]);
    let first = CachedDiscovery::new(script.client().discovery()).disk(disk.clone());
    let known = first.get().await.unwrap();
    let nobody = Script::default();
    let second = CachedDiscovery::new(nobody.client().discovery()).disk(disk.clone());
    assert_eq!(*second.get().await.unwrap(), *known);
    assert!(!second.is_fresh(), "the disk may be old");
    assert!(nobody.asked().is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory) & !0o750, 0);
        assert_eq!(mode(&directory.join("discovery.json")) & !0o660, 0);
    }
    let file = std::fs::File::options().write(true).open(directory.join("discovery.json")).unwrap();
    for (ahead, is_known) in [(300, true), (86_400, false)] {
        // The clock was or is wrong: a file from the future must not be valid until then.
        file.set_modified(std::time::SystemTime::now() + Duration::from_secs(ahead)).unwrap();
        let other = CachedDiscovery::new(nobody.client().discovery()).disk(disk.clone());
        assert_eq!(other.get().await.is_ok(), is_known, "{ahead} seconds ahead");
    }
    let old = CachedDiscovery::new(nobody.client().discovery()).disk(DiskCache::new(&directory, Duration::ZERO));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(old.get().await.is_err(), "too old to be believed");
    std::fs::write(directory.join("discovery.json"), "garbage").unwrap();
    let broken = CachedDiscovery::new(nobody.client().discovery()).disk(disk);
    assert!(broken.get().await.is_err(), "a broken file is no file");
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(DiskCache::directory_name("https://example.com:6443/a"), "example.com_6443/a");
}

#[tokio::test]
async fn unchanged_discovery_documents_are_not_sent_again() {
    // DI-4
    let directory = std::env::temp_dir().join(format!("kubewright-tags-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    // The cache lifetime is zero, so each program contacts the server.
    let disk = DiskCache::new(&directory, Duration::ZERO);
    let unchanged = || answer(304, "").header("etag", "\"1\"");
    let script = Script::new([
        document(&[("", "v1", "pods")]).header("etag", "\"1\""),
        document(&[("example.com", "v1", "foos")]).header("etag", "\"1\""),
        unchanged(),
        unchanged(),
        unchanged(),
        document(&[("example.com", "v2", "foos")]).header("etag", "\"2\""),
    ]);
    let tags = |script: &Script| -> Vec<Option<String>> {
        let tag = |one: &crate::script::Asked| Some(one.headers.get("if-none-match")?.to_str().unwrap().to_owned());
        script.asked().iter().map(tag).collect()
    };
    let first = CachedDiscovery::new(script.client().discovery()).disk(disk.clone());
    let known = first.get().await.unwrap();
    assert_eq!(tags(&script), [None, None]);
    first.invalidate().await;
    assert_eq!(*first.get().await.unwrap(), *known, "from memory");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = CachedDiscovery::new(script.client().discovery()).disk(disk.clone());
    let changed = second.get().await.unwrap();
    assert_eq!(tags(&script)[2..], [(); 4].map(|()| Some("\"1\"".to_owned())), "from memory, and then from the disk");
    assert!(changed.resource(&GroupVersionResource::new("", "v1", "pods")).is_some());
    assert!(changed.resource(&GroupVersionResource::new("example.com", "v2", "foos")).is_some());
    assert!(changed.resource(&GroupVersionResource::new("example.com", "v1", "foos")).is_none());
    std::fs::write(directory.join("api.http"), "garbage").unwrap();
    let nobody = Script::default();
    assert!(CachedDiscovery::new(nobody.client().discovery()).disk(disk).get().await.is_err());
    assert_eq!(tags(&nobody)[0], None, "a broken file is no file");
    std::fs::remove_dir_all(&directory).unwrap();

    // Servers do send ETags.
    let server = test_client().await;
    let discovery = server.client.discovery();
    let once = discovery.discover().await.unwrap();
    let again = discovery.discover().await.unwrap();
    assert!(once.group("apps").is_some());
    assert_eq!(again.group("apps"), once.group("apps"));
}

#[tokio::test]
async fn resources_are_found_by_all_their_names() {
    // DI-5
    let server = test_client().await;
    let wanted = [
        "autoscaling/v1 horizontalpodautoscalers",
        "autoscaling/v2 horizontalpodautoscalers",
        "events.k8s.io/v1 events",
        "networking.k8s.io/v1 networkpolicies",
    ];
    if !server.serves(&wanted).await {
        return;
    }
    let mapper = server.client.rest_mapper();
    for (text, want) in [
        ("pods", "/v1, Resource=pods"),
        ("po", "/v1, Resource=pods"),
        ("Pod", "/v1, Resource=pods"),
        ("deploy", "apps/v1, Resource=deployments"),
        ("deployments.apps", "apps/v1, Resource=deployments"),
        ("deployments.v1.apps", "apps/v1, Resource=deployments"),
        ("horizontalpodautoscalers.v1.autoscaling", "autoscaling/v1, Resource=horizontalpodautoscalers"),
        ("hpa", "autoscaling/v2, Resource=horizontalpodautoscalers"),
        ("events", "/v1, Resource=events"),
        ("events.events.k8s.io", "events.k8s.io/v1, Resource=events"),
        ("netpol.networking", "networking.k8s.io/v1, Resource=networkpolicies"),
    ] {
        let found = mapper.find(text).await.unwrap();
        assert_eq!(found.resource.to_string(), want, "{text}");
    }
    let deployment = mapper.kind(&GroupKind::new("apps", "Deployment"), &[]).await.unwrap();
    assert!(deployment.namespaced);
    let old = mapper.kind(&GroupKind::new("autoscaling", "HorizontalPodAutoscaler"), &["v1"]).await.unwrap();
    assert_eq!(old.resource.version, "v1");
    let all = mapper.category("all").await.unwrap();
    assert!(all.iter().any(|one| one.resource.resource == "pods") && all.len() > 5);
    let missing = [
        (mapper.find("unicorns").await, "the server doesn't have a resource type \"unicorns\""),
        (
            mapper.resource(&GroupResource::new("x.y", "foos")).await,
            "the server doesn't have a resource type \"foos.x.y\"",
        ),
        (mapper.kind(&GroupKind::new("x.y", "Foo"), &[]).await, "no matches for kind \"Foo\" in group \"x.y\""),
    ];
    for (found, message) in missing {
        let error = found.unwrap_err();
        assert!(error.is_not_found() && error.to_string() == message, "{error}");
    }
    let maps = GroupVersionResource::new("", "v1", "configmaps");
    assert_eq!(mapper.scale_kind(&maps).await.unwrap_err().to_string(), "configmaps have no scale");
}

#[tokio::test]
async fn a_cache_miss_refreshes_discovery() {
    // DI-5
    let server = test_client().await;
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let definitions = server.client.dynamic(definitions);
    // The server may be shared and have other kinds of common names, so group and names are unique
    // to this run.
    let id = unique().replace('-', "");
    let (group, plural, short, kind) =
        (format!("t{id}.example.com"), format!("foos{id}"), format!("fo{id}"), format!("Foo{id}"));
    let mapper = RestMapper::new(CachedDiscovery::new(server.client.discovery()));
    assert!(mapper.find(&plural).await.is_err());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group.as_str(), "scope": "Namespaced",
            "names": {"plural": plural.as_str(), "singular": kind.to_lowercase(), "kind": kind.as_str(), "shortNames": [short.as_str()]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true
            }}}]
        }
    });
    let definition = definitions.create(&DynamicObject::try_from(definition).unwrap()).await.unwrap();
    // Other servers take a moment to serve a new definition.
    let mut found = mapper.find(&short).await;
    for _ in 0..50 {
        if found.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            found = mapper.find(&short).await;
        }
    }
    let found = found.unwrap();
    assert_eq!(found.resource.to_string(), format!("{group}/v1, Resource={plural}"));
    let foos = server.client.dynamic(found.resource).namespace(server.namespace.as_str());
    let foo = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "a"}, "spec": {"half": 0.5, "one": 1}});
    let foo = DynamicObject::try_from(foo).unwrap();
    // DY-1
    let created = foos.create(&foo).await.unwrap();
    assert_eq!(created.get(&["spec"]), foo.get(&["spec"]), "integers and floats stay what they are");
    definitions.delete_with(definition.name(), &DeleteOptions::default().uid(definition.uid())).await.unwrap();
}
