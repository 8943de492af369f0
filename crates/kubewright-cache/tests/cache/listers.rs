//! Listers.

use kubewright_cache::{Indexers, Lister, Query, Store};
use kubewright_core::{DynamicObject, GroupResource, Object, Selector};

use crate::support::{labelled, named};

fn lister(indexers: Indexers<DynamicObject>) -> Lister<DynamicObject> {
    let store = Store::new(indexers);
    store.add(labelled("a", 1, &[("app", "web")]));
    store.add(labelled("b", 2, &[("app", "shop")]));
    let mut other = DynamicObject::clone(&labelled("a", 3, &[("app", "web")]));
    other.set_namespace("other");
    store.add(other);
    Lister::new(store)
}

// ST-18: Go's TestListers.
#[test]
fn lists_by_selector_and_namespace() {
    for indexers in [Indexers::by_namespace(), Indexers::new()] {
        let lister = lister(indexers);
        let web: Selector = "app=web".parse().unwrap();
        assert_eq!(named(&lister.list(&Selector::default())), ["a@1", "a@3", "b@2"]);
        assert_eq!(named(&lister.list(&web)), ["a@1", "a@3"]);
        assert!(lister.list(&Selector::nothing()).is_empty());
        let default = lister.namespace("default");
        assert_eq!(named(&default.list(&Selector::default())), ["a@1", "b@2"]);
        assert_eq!(named(&default.list(&web)), ["a@1"]);
        assert!(default.list(&Selector::nothing()).is_empty());
        assert!(lister.namespace("none").list(&web).is_empty());
        assert_eq!(lister.keys(), ["default/a", "default/b", "other/a"]);
    }
}

// ST-18
#[test]
fn a_lister_returns_not_found_for_a_missing_object() {
    let lister = lister(Indexers::by_namespace());
    let foos = GroupResource::new("example.com", "foos");
    assert_eq!(lister.namespace("other").get("a").unwrap().resource_version(), "3");
    let missing = lister.namespace("other").require(&foos, "b").unwrap_err();
    assert!(missing.is_not_found());
    assert_eq!(missing.to_string(), "foos.example.com \"b\" not found");
    assert!(lister.get("a").is_none() && lister.require(&foos, "a").is_err());
    assert_eq!(lister.by_index("namespace", "other").unwrap().len(), 1);
    assert_eq!(lister.select(&Query::index("namespace", "default")).unwrap().len(), 2);
}
