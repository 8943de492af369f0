//! The usage of each namespace with a quota, kept in step with the store.
//!
//! The first quota of a namespace opens a ledger. The ledger is filled once, from a list of the
//! namespace. From then on, each write adds its difference. Writes between the opening and the list
//! are queued with their revisions; those newer than the list are added afterwards.

use std::collections::{BTreeMap, HashMap};

use kubewright_core::{Str, Value};

use super::Amounts;
use super::QuotaState;
use super::charge::{ScopeClass, charge, class};
use kubewright_objects::object::StoredObject;
use kubewright_storage::{Key, StoreListOptions};

const QUOTAS: &str = "resourcequotas";
/// Larger amounts may be rounded, so subtracting them would not restore the old sum.
const EXACT_MAX: f64 = 1e24;

/// The ledgers of all namespaces with a quota.
#[derive(Default)]
pub(crate) struct QuotaUsage {
    ledgers: HashMap<Str, NamespaceTotals>,
    /// The generation number of the next ledger or recount.
    next_number: u64,
}

/// The totals of one namespace.
#[derive(Default)]
struct NamespaceTotals {
    quotas: usize,
    /// Unique per opening and recount, so that a late list cannot fill a newer ledger.
    number: u64,
    totals: Totals,
    /// Queued changes with their revisions while the list is under way. `None` afterwards.
    pending: Option<Vec<(u64, Totals)>>,
}

/// Amounts by class. In a difference they may be negative.
pub(super) type Totals = BTreeMap<ScopeClass, Amounts>;

impl QuotaUsage {
    /// Records a write.
    pub(crate) fn change(
        &mut self,
        key: &Key,
        revision: u64,
        before: Option<&StoredObject>,
        after: Option<&StoredObject>,
    ) {
        let Some(namespace) = key.namespace() else { return };
        if key.resource() == QUOTAS && before.is_none() && after.is_some() {
            self.open(namespace);
        }
        let Some(ledger) = self.ledgers.get_mut(namespace) else { return };
        let mut difference = Totals::new();
        let mut is_exact = true;
        for (object, sign) in [(before, -1), (after, 1)] {
            let Some(object) = object else { continue };
            is_exact &= add(&mut difference, key.resource(), &object.tree(), sign);
        }
        match &mut ledger.pending {
            Some(pending) => pending.push((revision, difference)),
            None => merge(&mut ledger.totals, difference),
        }
        if key.resource() == QUOTAS && before.is_some() && after.is_none() {
            ledger.quotas -= 1;
            if ledger.quotas == 0 {
                self.ledgers.remove(namespace);
            }
        }
        if !is_exact {
            self.reset(key);
        }
    }

    fn open(&mut self, namespace: &str) {
        self.next_number += 1;
        let empty =
            || NamespaceTotals { number: self.next_number, pending: Some(Vec::new()), ..NamespaceTotals::default() };
        self.ledgers.entry(namespace.into()).or_insert_with(empty).quotas += 1;
    }

    /// Requests a recount of the namespace of an object.
    pub(crate) fn reset(&mut self, key: &Key) {
        self.next_number += 1;
        if let Some(ledger) = key.namespace().and_then(|namespace| self.ledgers.get_mut(namespace)) {
            ledger.number = self.next_number;
            ledger.totals.clear();
            ledger.pending = Some(Vec::new());
        }
    }

    /// Whether a namespace has a quota.
    pub(super) fn has_quota(&self, namespace: &str) -> bool {
        self.ledgers.contains_key(namespace)
    }
}

/// Calls `read` with the totals of a namespace, after counting them if necessary. Without a quota
/// they are empty.
pub(super) fn with_totals<T>(cluster: &dyn QuotaState, namespace: &str, read: impl FnOnce(&Totals) -> T) -> T {
    let nothing = Totals::new();
    loop {
        let number = match cluster.usage().ledgers.get(namespace) {
            None => return read(&nothing),
            Some(NamespaceTotals { pending: None, totals, .. }) => return read(totals),
            Some(uncounted) => uncounted.number,
        };
        let Some((totals, revision)) = count(cluster, namespace) else { continue };
        let mut usage = cluster.usage();
        let Some(ledger) = usage.ledgers.get_mut(namespace).filter(|ledger| ledger.number == number) else {
            continue;
        };
        ledger.totals = totals;
        for (_, difference) in ledger.pending.take().into_iter().flatten().filter(|(at, _)| *at > revision) {
            merge(&mut ledger.totals, difference);
        }
    }
}

/// Counts all objects of a namespace at one revision. `None` if that revision expired meanwhile.
fn count(cluster: &dyn QuotaState, namespace: &str) -> Option<(Totals, u64)> {
    let mut totals = Totals::new();
    let mut revision = None;
    for resource in cluster.catalog().stored().filter(|resource| resource.namespaced) {
        let options =
            revision.map_or_else(StoreListOptions::default, |revision| StoreListOptions::default().at(revision));
        let page = cluster.page(&resource.scope(namespace), options)?;
        revision = Some(page.revision);
        for (key, entry) in page.entries {
            add(&mut totals, key.resource(), &entry.object.tree(), 1);
        }
    }
    Some((totals, revision?))
}

/// Adds the usage of an object `sign` times. Returns whether that can be undone exactly.
fn add(totals: &mut Totals, resource: &str, object: &Value, sign: i64) -> bool {
    let mut is_exact = true;
    let of_class = totals.entry(class(resource, object)).or_default();
    for (name, amount) in charge(resource, object) {
        is_exact &= amount.to_f64().abs() < EXACT_MAX;
        *of_class.entry(name).or_default() += &(amount * sign);
    }
    is_exact
}

/// Adds a difference. Zero amounts are removed.
fn merge(totals: &mut Totals, difference: Totals) {
    for (class, amounts) in difference {
        let of_class = totals.entry(class.clone()).or_default();
        for (name, amount) in amounts {
            let total = of_class.entry(name.clone()).or_default();
            *total += &amount;
            if total.is_zero() {
                of_class.remove(&name);
            }
        }
        if of_class.is_empty() {
            totals.remove(&class);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubewright_core::options::DeleteOptions;
    use tokio::sync::watch;

    use super::*;
    use crate::registry::{CreateRequest, Ownership, Registry};
    use kubewright_storage::{EventKind, KeyRange, Observer, StoreEvent, StoreOptions};

    fn registry() -> Registry {
        let registry = Registry::new(StoreOptions::default(), watch::channel(false).1);
        create(&registry, "namespaces", "", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#);
        registry
    }

    fn create(registry: &Registry, storage: &str, namespace: &str, object: &str) {
        let (catalog, value) = (registry.catalog(), object.parse().expect("valid JSON"));
        let resource = catalog.of_storage(storage).expect("it is built in");
        let (control, ownership, dry_run) = (None, Ownership::Keep, false);
        let made = registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run });
        made.unwrap_or_else(|refused| panic!("{refused:?}"));
    }

    fn pod(name: usize, cpu: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{name}"}},"spec":{{"containers":[
            {{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
        )
    }

    fn quota(registry: &Registry) {
        let quota =
            r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"9"}}}"#;
        create(registry, "resourcequotas", "shop", quota);
    }

    fn delete(registry: &Registry, storage: &str, name: &str) {
        let resource = registry.catalog().of_storage(storage).cloned().expect("it is built in");
        let deleted = registry.delete(&resource, "shop", name, &DeleteOptions::default(), &mut Vec::new(), None);
        deleted.unwrap_or_else(|refused| panic!("{refused:?}"));
    }

    /// The totals of the ledger, after comparing them with a fresh count.
    #[track_caller]
    fn checked(registry: &Registry) -> Totals {
        let totals = with_totals(registry, "shop", Clone::clone);
        assert_eq!(totals, count(registry, "shop").expect("there is no writer").0);
        totals
    }

    #[test]
    fn a_ledger_equals_a_recount_after_any_write() {
        let registry = registry();
        (0..3).for_each(|name| create(&registry, "pods", "shop", &pod(name, "100m")));
        quota(&registry);
        create(&registry, "pods", "shop", &pod(3, "7"));
        checked(&registry);
        create(&registry, "pods", "shop", &pod(4, "1500u"));
        delete(&registry, "pods", "p1");
        let pods = registry.catalog().of_storage("pods").cloned().expect("it is built in");
        let ended = registry.change(&pods, "shop", "p2", |pod| {
            let mut pod = pod.clone();
            kubewright_objects::object::tree::set(&mut pod, &["status", "phase"], "Succeeded");
            Ok(pod)
        });
        assert!(ended.is_ok());
        assert!(!checked(&registry).is_empty());
        delete(&registry, "resourcequotas", "q");
        assert!(with_totals(&registry, "shop", Totals::is_empty));
        create(&registry, "pods", "shop", &pod(5, "1"));
        quota(&registry);
        checked(&registry);
    }

    #[test]
    fn inexact_sums_are_recounted() {
        let registry = registry();
        quota(&registry);
        create(&registry, "pods", "shop", &pod(0, "100m"));
        checked(&registry);
        create(&registry, "pods", "shop", &pod(1, "1e45"));
        delete(&registry, "pods", "p1");
        checked(&registry);
    }

    #[test]
    fn an_undone_write_is_not_counted() {
        let registry = registry();
        quota(&registry);
        create(&registry, "pods", "shop", &pod(0, "100m"));
        checked(&registry);
        let page =
            registry.store.list(&KeyRange::namespace("pods", "shop"), StoreListOptions::default()).expect("it is now");
        let (_, entry) = page.entries.into_iter().next().expect("it has a pod");
        let key = Key::namespaced("pods", "shop", "other");
        let (kind, object, revision) = (EventKind::Created, Arc::clone(&entry.object), page.revision + 1);
        let event = StoreEvent::new(key, kind, object, None, revision);
        registry.indices.apply(&event);
        registry.indices.revert(&event);
        checked(&registry);
    }
}
