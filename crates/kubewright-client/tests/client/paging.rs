//! Lists in pages.

use kubewright_api::core::v1::ConfigMap;
use kubewright_client::{Api, Pager};
use kubewright_core::Object;
use kubewright_core::options::{ListOptions, ResourceVersionMatch};

use crate::script::{Answer, Script, answer};
use crate::support::{config_map, test_client};

fn page(version: &str, token: &str, names: &[&str]) -> Answer {
    let items: Vec<String> = names.iter().map(|name| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).collect();
    let metadata = format!(r#"{{"resourceVersion":"{version}","continue":"{token}"}}"#);
    answer(200, format!(r#"{{"kind":"ConfigMapList","metadata":{metadata},"items":[{}]}}"#, items.join(",")))
}

fn expired() -> Answer {
    answer(410, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#)
}

fn pager(script: &Script) -> Pager<ConfigMap> {
    Pager::new(Api::namespaced(&script.client(), "default"))
}

fn exact() -> ListOptions {
    ListOptions::default().resource_version("5").resource_version_match(ResourceVersionMatch::Exact)
}

#[tokio::test]
async fn pages_are_combined_and_only_the_first_request_names_a_version() {
    // PG-1
    let script = Script::new([page("5", "t1", &["a", "b"]), page("5", "t2", &["c"]), page("5", "", &["d"])]);
    let list = pager(&script).list(&exact()).await.unwrap();
    let names: Vec<&str> = list.items.iter().map(Object::name).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(list.metadata.resource_version.as_deref(), Some("5"));
    assert_eq!(list.metadata.continue_, None);
    let path = "GET /api/v1/namespaces/default/configmaps";
    assert_eq!(
        script.lines(),
        [
            format!("{path}?limit=500&resourceVersion=5&resourceVersionMatch=Exact"),
            format!("{path}?continue=t1&limit=500"),
            format!("{path}?continue=t2&limit=500"),
        ]
    );
}

#[tokio::test]
async fn a_list_of_one_page_is_the_servers_own() {
    // PG-1
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5","remainingItemCount":0},
        "items":[{"metadata":{"name":"a"}}]}"#;
    let script = Script::new([answer(200, list)]);
    let list = pager(&script).list(&ListOptions::default().limit(7)).await.unwrap();
    assert_eq!((list.items.len(), list.metadata.remaining_item_count), (1, Some(0)));
    assert_eq!(
        script.lines(),
        ["GET /api/v1/namespaces/default/configmaps?limit=7"],
        "a limit that is asked for counts"
    );
}

#[tokio::test]
async fn an_expired_page_falls_back_to_one_full_list() {
    // PG-1
    let script = Script::new([page("5", "t1", &["a"]), expired(), page("9", "", &["a", "b", "c"])]);
    let list = pager(&script).list(&exact()).await.unwrap();
    assert_eq!((list.items.len(), list.metadata.resource_version.as_deref()), (3, Some("9")));
    let last = script.lines().pop().unwrap();
    assert!(last.ends_with("configmaps?resourceVersion=5&resourceVersionMatch=Exact"), "{last}");

    let script = Script::new([expired()]);
    assert!(
        pager(&script).list(&exact()).await.unwrap_err().is_expired(),
        "the first page has nothing to fall back from"
    );
    let script = Script::new([page("5", "t1", &["a"]), expired()]);
    assert!(pager(&script).fail_if_expired().list(&exact()).await.unwrap_err().is_expired());
}

#[tokio::test]
async fn items_are_yielded_page_by_page_and_once() {
    // PG-1
    let script = Script::new([page("5", "t1", &["a", "b"]), expired()]);
    let mut items = pager(&script).each(exact());
    assert_eq!(items.next().await.unwrap().unwrap().name(), "a");
    assert_eq!(items.next().await.unwrap().unwrap().name(), "b");
    assert!(items.next().await.unwrap().unwrap_err().is_expired());
    for _ in 0..2 {
        assert!(items.next().await.is_none());
    }

    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    for index in 0..25 {
        let mut map = config_map(&format!("m{index:02}"));
        map.metadata.labels.insert("of", "test".into());
        api.create(&map).await.unwrap();
    }
    // The server's controllers may create config maps in each namespace.
    let ours = ListOptions::default().labels("of=test".parse().unwrap());
    let all = Pager::new(api).page_size(4);
    let list = all.list(&ours).await.unwrap();
    assert_eq!(list.items.len(), 25);
    let mut items = all.each(ours);
    for want in &list.items {
        assert_eq!(items.next().await.unwrap().unwrap(), *want);
    }
    assert!(items.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn so_many_pages_are_read_ahead_and_no_more() {
    // PG-1
    for (prefetched, asked) in [(Some(1), 1), (Some(3), 3), (None, 10)] {
        let script = Script::new((0..20).map(|_| page("5", "t", &["a"])));
        let pager = pager(&script);
        let mut items = prefetched.map_or(pager.clone(), |pages| pager.prefetch(pages)).each(exact());
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(script.lines().len(), asked);
        items.next().await.unwrap().unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(script.lines().len(), asked + 1);
        drop(items);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(script.lines().len(), asked + 1, "nobody reads on");
    }
}
