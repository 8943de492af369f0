//! ResourceQuotas.
//!
//! `usage` counts the used amounts in step with the writes. The status of a quota is updated after
//! each admitted write, and by [`update_status`] after other changes, which `housekeeping` calls.
//! In a cluster, the quota controller does that.
//!
//! The quota lock is held until the write is stored, so that two concurrent writes cannot use the
//! same remaining quota. Servers over one database charge the status of the quota in the
//! transaction that writes the object, as kube-apiserver charges it before. A charge of another
//! server changes the quota, and the write is checked again. As in kube-apiserver, usage that a
//! deletion frees is available once the status shows it.

mod charge;
mod usage;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use kubewright_core::meta::v1::Status;
use kubewright_core::{Quantity, Str, Value};

use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use charge::{charge, class, is_in_scope, missing};
use kubewright_objects::object::{Meta, ObjectDraft, StoredObject, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{EventKind, Key, KeyRange, PrimaryWrite};
use kubewright_validation::pod_totals;
pub(crate) use usage::QuotaUsage;
use usage::{Totals, with_totals};

/// Amounts by quota resource name.
type Amounts = BTreeMap<Str, Quantity>;

/// The state that quotas are compared with.
pub(crate) trait QuotaState: ClusterState {
    /// The usage of namespaces that have a quota.
    fn usage(&self) -> MutexGuard<'_, QuotaUsage>;

    /// Whether other servers write objects that the quotas limit.
    fn is_shared(&self) -> bool;

    /// Held while an object is written that a quota limits.
    fn lock_quotas(&self) -> MutexGuard<'_, ()>;
}

/// Permission for a write in a namespace with quotas. Hold it until the write is stored.
pub(crate) struct QuotaPermit<'r> {
    cluster: &'r dyn QuotaState,
    namespace: Str,
    /// The writes that charge the quotas, if other servers read them.
    charges: Vec<PrimaryWrite<StoredObject>>,
    /// Whether the status of the quotas has to be counted after the write.
    needs_count: bool,
    _turn: MutexGuard<'r, ()>,
}

impl QuotaPermit<'_> {
    /// The writes that are executed together with that of the object.
    pub(crate) fn charges(&self) -> &[PrimaryWrite<StoredObject>] {
        &self.charges
    }

    /// Updates the status of the quotas after the write.
    pub(crate) fn update_status(&self) {
        if self.needs_count {
            update_all(self.cluster, &self.namespace);
        }
    }
}

/// Rejects a write that would exceed a quota.
pub(crate) fn check<'r>(
    cluster: &'r dyn QuotaState,
    resource: &Resource,
    old: Option<&Value>,
    new: &Value,
) -> Result<Option<QuotaPermit<'r>>, Rejection> {
    let namespace = new.namespace();
    let is_on = cluster.has_plugin(AdmissionPlugin::ResourceQuota);
    if !is_on || !resource.namespaced || !cluster.usage().has_quota(namespace) {
        return Ok(None);
    }
    let turn = cluster.lock_quotas();
    let mut charges = Vec::new();
    for entry in cluster.all(&KeyRange::namespace("resourcequotas", namespace)) {
        let quota = &*entry.object.tree();
        let charged = check_one(cluster, resource, quota, old, new)?;
        if let Some(charged) = charged.filter(|_| cluster.is_shared()) {
            let key = Key::namespaced("resourcequotas", namespace, quota.name());
            let value = Arc::new(ObjectDraft::new(with_status(quota, &hard(quota), &charged)).stamp(0));
            charges.push(PrimaryWrite { key, kind: EventKind::Modified, expected: entry.revision, value });
        }
    }
    // A count would drop what other servers have charged for objects that they still have to store.
    // So it is made only if the write frees something.
    let kind = &*resource.storage;
    let is_freeing = || charges.is_empty() && old.is_some_and(|old| charge(kind, old) != charge(kind, new));
    let needs_count = !cluster.is_shared() || is_freeing();
    Ok(Some(QuotaPermit { cluster, namespace: namespace.into(), charges, needs_count, _turn: turn }))
}

/// Checks one quota. Returns its usage after the write, if it rises.
fn check_one(
    cluster: &dyn QuotaState,
    resource: &Resource,
    quota: &Value,
    old: Option<&Value>,
    new: &Value,
) -> Result<Option<Amounts>, Rejection> {
    let (hard, kind) = (hard(quota), &*resource.storage);
    let refuse = |why: String| Err(Status::forbidden(&resource.group_resource(), new.name(), why).into());
    let wanted = limited_to(charge(kind, new), &hard);
    let lacking = missing(kind, new, &hard);
    if wanted.is_empty() && lacking.is_empty() || !is_in_scope(quota, &class(kind, new)) {
        return Ok(None);
    }
    if old.is_none() && !lacking.is_empty() {
        return refuse(format!("failed quota: {}: must specify {}", quota.name(), lacking.join("; ")));
    }
    let counted = old.filter(|old| is_in_scope(quota, &class(kind, old)));
    let before = counted.map(|old| charge(kind, old)).unwrap_or_default();
    let more: Amounts = wanted
        .into_iter()
        .map(|(name, amount)| {
            let freed = before.get(&name).cloned().unwrap_or_default();
            (name, amount - &freed)
        })
        .filter(|(_, amount)| amount.signum() > 0)
        .collect();
    if more.is_empty() {
        return Ok(None);
    }
    let mut used = with_totals(cluster, new.namespace(), |totals| used(totals, quota, &hard));
    if cluster.is_shared() {
        // Another server may have charged objects that it has not stored yet.
        for (name, used) in &mut used {
            let shown = tree::get(quota, &["status", "used", name]).and_then(pod_totals::quantity);
            *used = shown.filter(|shown| *shown > *used).unwrap_or_else(|| used.clone());
        }
    }
    let exceeded: Vec<&Str> = more
        .iter()
        .filter(|(name, amount)| used.get(*name).cloned().unwrap_or_default() + amount > hard[*name])
        .map(|(name, _)| name)
        .collect();
    if exceeded.is_empty() {
        for (name, amount) in &more {
            *used.entry(name.clone()).or_default() += amount;
        }
        return Ok(Some(used));
    }
    let show = |amounts: &Amounts| {
        let shown = exceeded.iter().map(|name| format!("{name}={}", amounts.get(*name).cloned().unwrap_or_default()));
        shown.collect::<Vec<_>>().join(",")
    };
    refuse(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name(),
        show(&more),
        show(&used),
        show(&hard)
    ))
}

/// Updates the status of the quotas in a namespace after a deletion or a quota change.
pub(crate) fn update_status(cluster: &dyn QuotaState, namespace: &str) {
    if cluster.usage().has_quota(namespace) {
        let _turn = cluster.lock_quotas();
        update_all(cluster, namespace);
    }
}

fn update_all(cluster: &dyn QuotaState, namespace: &str) {
    for entry in cluster.all(&KeyRange::namespace("resourcequotas", namespace)) {
        let quota = entry.object.value();
        let hard = hard(quota);
        let used = with_totals(cluster, namespace, |totals| used(totals, quota, &hard));
        let is_shown = |field: &str, counted: &Amounts| match tree::get(quota, &["status", field]) {
            Some(shown) => *shown == amounts(counted),
            None => false,
        };
        if !is_shown("used", &used) || !is_shown("hard", &hard) {
            write_status(cluster, quota, &hard, &used);
        }
    }
}

/// The hard limits of a quota.
fn hard(quota: &Value) -> Amounts {
    let entries = tree::get(quota, &["spec", "hard"]).and_then(Value::as_object);
    let entries = entries.into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(name, value)| Some((name.clone(), pod_totals::quantity(value)?))).collect()
}

fn limited_to(mut amounts: Amounts, hard: &Amounts) -> Amounts {
    amounts.retain(|name, _| hard.contains_key(name));
    amounts
}

/// The used amount of each resource that the quota limits.
fn used(totals: &Totals, quota: &Value, hard: &Amounts) -> Amounts {
    let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::default())).collect();
    for (_, amounts) in totals.iter().filter(|(class, _)| is_in_scope(quota, class)) {
        for (name, used) in &mut used {
            if let Some(amount) = amounts.get(name) {
                *used += amount;
            }
        }
    }
    used
}

/// Whether a change can lower the usage or alter a quota without passing [`check`].
///
/// A charge by another server alters the status of a quota. It must stay until the object is
/// stored, so that only a new limit counts then.
pub(crate) fn may_free(cluster: &dyn QuotaState, key: &Key, value: &Value) -> bool {
    match key.resource() {
        "resourcequotas" if cluster.is_shared() => {
            tree::get(value, &["status", "hard"]) != Some(&amounts(&hard(value)))
        }
        "resourcequotas" => true,
        "pods" => matches!(tree::text(value, &["status", "phase"]), "Succeeded" | "Failed"),
        _ => false,
    }
}

fn amounts(amounts: &Amounts) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect())
}

/// Writes the status of a quota. A failure is ignored: the quota may just have been deleted.
fn write_status(cluster: &dyn QuotaState, quota: &Value, hard: &Amounts, used: &Amounts) {
    let catalog = cluster.catalog();
    let Some(quotas) = catalog.of_storage("resourcequotas") else { return };
    let _ =
        cluster.change_object(quotas, quota.namespace(), quota.name(), &mut |quota| Ok(with_status(quota, hard, used)));
}

fn with_status(quota: &Value, hard: &Amounts, used: &Amounts) -> Value {
    let mut quota = quota.clone();
    tree::set(&mut quota, &["status"], tree::map([("hard", amounts(hard)), ("used", amounts(used))]));
    quota
}
