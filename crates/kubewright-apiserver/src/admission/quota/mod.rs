//! ResourceQuotas: how much there may be in a namespace.
//!
//! What is used is counted anew for each write in a namespace that has a quota, so that it is never wrong; the status of the
//! quota shows what was counted last, also when something has gone and before anything has come: in a cluster that is the
//! work of a controller, here of `housekeeping`, since it is the server that can count without a cache. The lock is held until
//! the write is stored, so that two of them cannot both take what is left.

mod charge;

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use kubewright_core::meta::v1::Status;
use kubewright_core::{Quantity, Str, Value};

use crate::catalog::Resource;
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::storage::{Key, Scope};
use charge::{charge, is_in_scope, missing};

/// Amounts by the names that quotas give them.
type Amounts = BTreeMap<Str, Quantity>;

/// Refuses a write for which there is no room. The guard has to live until it is stored.
pub(crate) fn check<'r>(
    registry: &'r Registry,
    resource: &Resource,
    old: Option<&Value>,
    new: &Value,
    dry_run: bool,
) -> Result<Option<MutexGuard<'r, ()>>, Rejection> {
    if !resource.namespaced {
        return Ok(None);
    }
    let scope = Scope::namespace("resourcequotas", new.namespace());
    if registry.all(&scope).is_empty() {
        return Ok(None);
    }
    let turn = registry.quota.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in registry.all(&scope) {
        check_one(registry, resource, entry.object.value(), old, new, dry_run)?;
    }
    Ok(Some(turn))
}

fn check_one(
    registry: &Registry,
    resource: &Resource,
    quota: &Value,
    old: Option<&Value>,
    new: &Value,
    dry_run: bool,
) -> Result<(), Rejection> {
    let hard = hard(quota);
    let refuse = |why: String| Err(Status::forbidden(&resource.group_resource(), new.name(), why).into());
    let wanted = limited_to(charge(resource, new), &hard);
    if wanted.is_empty() && missing(resource, new, &hard).is_empty() {
        return Ok(());
    }
    if !is_in_scope(quota, resource, new) {
        return Ok(());
    }
    let lacking = missing(resource, new, &hard);
    if old.is_none() && !lacking.is_empty() {
        return refuse(format!("failed quota: {}: must specify {}", quota.name(), lacking.join("; ")));
    }
    let before = old.map(|old| charge(resource, old)).unwrap_or_default();
    let more: Amounts = wanted
        .into_iter()
        .map(|(name, amount)| {
            let freed = before.get(&name).cloned().unwrap_or_default();
            (name, amount - &freed)
        })
        .filter(|(_, amount)| amount.signum() > 0)
        .collect();
    if more.is_empty() {
        return Ok(());
    }
    let mut used = used(registry, quota, &hard);
    let exceeded: Vec<&Str> = more
        .iter()
        .filter(|(name, amount)| used.get(*name).cloned().unwrap_or_default() + amount > hard[*name])
        .map(|(name, _)| name)
        .collect();
    if !exceeded.is_empty() {
        let show = |amounts: &Amounts| {
            let shown =
                exceeded.iter().map(|name| format!("{name}={}", amounts.get(*name).cloned().unwrap_or_default()));
            shown.collect::<Vec<_>>().join(",")
        };
        return refuse(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            show(&more),
            show(&used),
            show(&hard)
        ));
    }
    if !dry_run {
        for (name, amount) in more {
            *used.entry(name).or_default() += &amount;
        }
        record(registry, quota, &hard, &used);
    }
    Ok(())
}

/// Counts anew what is used in a namespace, after something has gone from it or one of its quotas is another.
pub(crate) fn recount(registry: &Registry, namespace: &str) {
    let scope = Scope::namespace("resourcequotas", namespace);
    if registry.all(&scope).is_empty() {
        return;
    }
    let _turn = registry.quota.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in registry.all(&scope) {
        let quota = entry.object.value();
        let hard = hard(quota);
        let used = used(registry, quota, &hard);
        let is_shown = |field: &str, counted: &Amounts| match tree::get(quota, &["status", field]) {
            Some(shown) => *shown == amounts(counted),
            None => false,
        };
        if !is_shown("used", &used) || !is_shown("hard", &hard) {
            record(registry, quota, &hard, &used);
        }
    }
}

/// What a quota allows.
fn hard(quota: &Value) -> Amounts {
    let entries = tree::get(quota, &["spec", "hard"]).and_then(Value::as_object);
    let entries = entries.into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(name, value)| Some((name.clone(), super::limits::quantity(value)?))).collect()
}

fn limited_to(mut amounts: Amounts, hard: &Amounts) -> Amounts {
    amounts.retain(|name, _| hard.contains_key(name));
    amounts
}

/// What there is in the namespace of a quota, of all that it limits.
fn used(registry: &Registry, quota: &Value, hard: &Amounts) -> Amounts {
    let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::default())).collect();
    let catalog = registry.catalog();
    for resource in catalog.stored().filter(|resource| resource.namespaced && charge::is_counted(resource, hard)) {
        for entry in registry.all(&resource.scope(quota.namespace())) {
            let object = entry.object.value();
            if !is_in_scope(quota, resource, object) {
                continue;
            }
            for (name, amount) in limited_to(charge(resource, object), hard) {
                *used.entry(name).or_default() += &amount;
            }
        }
    }
    used
}

/// Whether a change of an object may leave more room than before, without a write that is checked.
pub(crate) fn may_free(key: &Key, value: &Value) -> bool {
    match key.resource() {
        "resourcequotas" => true,
        "pods" => matches!(tree::text(value, &["status", "phase"]), "Succeeded" | "Failed"),
        _ => false,
    }
}

fn amounts(amounts: &Amounts) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect())
}

/// Shows what was counted. Whoever deletes the quota meanwhile has the last word.
fn record(registry: &Registry, quota: &Value, hard: &Amounts, used: &Amounts) {
    let catalog = registry.catalog();
    let Some(quotas) = catalog.of_storage("resourcequotas") else { return };
    let _ = registry.change(quotas, quota.namespace(), quota.name(), |quota| {
        let mut quota = quota.clone();
        tree::set(&mut quota, &["status"], tree::map([("hard", amounts(hard)), ("used", amounts(used))]));
        Ok(quota)
    });
}
