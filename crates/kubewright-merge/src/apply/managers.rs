//! The managers of an object with the fields that each owns: `metadata.managedFields`.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::fmt;
use std::sync::LazyLock;

use super::check::check;
use super::compare::{FieldDifferences, compare};
use super::error::{ApplyError, Conflict};
use super::extract::field_set;
use super::field_set::{Element, FieldSet};
use super::merge::merge;
use super::prune::remove_fields;
use super::schema::MergeSchema;
use kubewright_core::quote::Quoted;
use kubewright_core::{Map, Str, Value};

/// If more managers than this only update, the oldest are merged.
const MAX_UPDATERS: usize = 10;
/// Limit on the total size of reported conflicts: each one repeats the whole path.
const MAX_CONFLICT_BYTES: usize = 1024 * 1024;
/// The manager that owns the fields of merged managers.
const ANCIENT: &str = "ancient-changes";
/// Fields that are never owned.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagedFieldsOperation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl ManagedFieldsOperation {
    fn name(self) -> &'static str {
        match self {
            ManagedFieldsOperation::Apply => "Apply",
            ManagedFieldsOperation::Update => "Update",
        }
    }
}

/// An owner of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerIdentifier {
    /// The name.
    pub name: Str,
    /// The kind of write.
    pub operation: ManagedFieldsOperation,
    /// The API version of its last write.
    pub api_version: Str,
    /// The subresource that it writes; empty for the object.
    pub subresource: Str,
}

impl ManagerIdentifier {
    /// Whether both are the same manager.
    fn is(&self, other: &ManagerIdentifier) -> bool {
        self.identity() == other.identity()
    }

    /// The identity of a manager: name, operation, subresource and version. A manager that applies
    /// may change its version.
    fn identity(&self) -> (Str, ManagedFieldsOperation, Str, Option<Str>) {
        let version = (self.operation == ManagedFieldsOperation::Update).then(|| self.api_version.clone());
        (self.name.clone(), self.operation, self.subresource.clone(), version)
    }
}

/// The notation of conflict messages.
impl fmt::Display for ManagerIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", Quoted(&self.subresource))?;
        }
        match self.operation {
            ManagedFieldsOperation::Apply => Ok(()),
            ManagedFieldsOperation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// The managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers {
    /// Invariant: no duplicate manager, and none without fields.
    entries: Vec<ManagedFieldsEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ManagedFieldsEntry {
    manager: ManagerIdentifier,
    time: Option<Str>,
    fields: FieldSet,
}

impl Managers {
    /// No managers.
    pub fn new() -> Self {
        Managers::default()
    }

    /// Whether no manager owns anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All managers.
    pub fn iter(&self) -> impl Iterator<Item = &ManagerIdentifier> {
        self.entries.iter().map(|entry| &entry.manager)
    }

    /// Removes managers for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&ManagerIdentifier) -> bool) {
        self.entries.retain(|entry| keep(&entry.manager));
    }

    /// Parses `metadata.managedFields`; `None` if it is malformed.
    pub fn from_value(value: &Value) -> Option<Managers> {
        let mut managers = Managers::new();
        let mut position_of = HashMap::new();
        for entry in value.as_array()?.iter() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => ManagedFieldsOperation::Apply,
                "Update" => ManagedFieldsOperation::Update,
                _ => return None,
            };
            if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let manager = ManagerIdentifier {
                name: text("manager").into(),
                operation,
                api_version: text("apiVersion").into(),
                subresource: text("subresource").into(),
            };
            let fields = entry.get("fieldsV1").map_or_else(|| Some(FieldSet::new()), FieldSet::from_value)?;
            if fields.is_empty() {
                continue;
            }
            let time = entry.get("time").and_then(Value::as_str).map(Str::from);
            match position_of.entry(manager.identity()) {
                Vacant(place) => {
                    place.insert(managers.entries.len());
                    managers.entries.push(ManagedFieldsEntry { manager, time, fields });
                }
                // The last entry wins, under the version of the first one.
                Occupied(place) => {
                    let entry = &mut managers.entries[*place.get()];
                    entry.time = time;
                    entry.fields = fields;
                }
            }
        }
        Some(managers)
    }

    /// The managers in the format of `metadata.managedFields`; `None` if there are none.
    pub fn to_value(&self) -> Option<Value> {
        let mut sorted: Vec<_> = self.entries.iter().collect();
        sorted.sort_by(|a, b| {
            let order = |entry: &ManagedFieldsEntry| {
                let ManagerIdentifier { name, operation, api_version, subresource } = entry.manager.clone();
                (operation, entry.time.clone(), name, api_version, subresource)
            };
            order(a).cmp(&order(b))
        });
        let list: Vec<Value> = sorted.into_iter().map(ManagedFieldsEntry::to_value).collect();
        (!list.is_empty()).then(|| Value::from(list))
    }

    /// Records that `manager` replaced `old` by `new` at the time `now`: it owns the differences,
    /// and all others lose them.
    ///
    /// Fields in `ignored` are not written by this endpoint and do not count.
    pub fn update(
        &mut self,
        old: &Value,
        new: &Value,
        schema: MergeSchema<'_>,
        ignored: &FieldSet,
        manager: &ManagerIdentifier,
        now: Option<&str>,
    ) {
        let found = compare(old, new, schema).ignoring(ignored);
        if found.is_same() {
            return;
        }
        for entry in &mut self.entries {
            entry.lose(&found);
        }
        let FieldDifferences { added, modified, removed } = found;
        // The new fields are usually most of it.
        let taken = added.union(&modified).minus(&removed).minus(&UNOWNED);
        if !taken.is_empty() {
            let entry = self.entry(manager);
            entry.fields = taken.union(&entry.fields);
            entry.time = now.map(Str::from);
        }
        self.drop_empty();
        self.merge_ancient();
    }

    /// Applies a configuration. Returns the new object, or `None` if at most the managers change.
    ///
    /// Fields that the manager applied before and now omits are removed, unless another manager
    /// owns them too. After an error, discard the managers.
    ///
    /// # Errors
    /// If the configuration violates the schema, or conflicts with other managers and `force` is
    /// not set.
    #[expect(clippy::too_many_arguments, reason = "each of them is one of the facts that an apply is made of")]
    pub fn apply(
        &mut self,
        live: &Value,
        config: &Value,
        schema: MergeSchema<'_>,
        ignored: &FieldSet,
        manager: &ManagerIdentifier,
        force: bool,
        now: Option<&str>,
    ) -> Result<Option<Value>, ApplyError> {
        let problems = check(config, schema);
        if !problems.is_empty() {
            return Err(ApplyError::SchemaViolation(problems));
        }
        let entry = self.entry(manager);
        let wanted = field_set(config, schema).without_trees(ignored);
        let last = std::mem::replace(&mut entry.fields, wanted);
        entry.manager.api_version = manager.api_version.clone();
        let merged = merge(live, config, schema);
        let new = if last.is_empty() { merged } else { self.prune(merged, &last, schema) };
        let found = compare(live, &new, schema).ignoring(ignored);
        let conflicts = self.conflicts(&found, manager);
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        for entry in &mut self.entries {
            if entry.manager.is(manager) {
                entry.fields = entry.fields.difference(&UNOWNED);
                if !found.is_same() {
                    entry.time = now.map(Str::from);
                }
            } else {
                entry.lose(&found);
            }
        }
        self.drop_empty();
        Ok((!found.is_same()).then_some(new))
    }

    /// The object without the fields of `last` that have no owner any more.
    fn prune<'s>(&self, merged: Value, last: &FieldSet, schema: MergeSchema<'s>) -> Value {
        let step = |schema: MergeSchema<'s>, element: &Element| schema.step(element);
        let is_named =
            |schema: MergeSchema<'s>, element: &Element| element.field_name().is_some_and(|name| schema.is_named(name));
        let named = |set: FieldSet| set.with_members(schema, &step, &is_named);
        let last = named(last.clone());
        let pruned = remove_fields(&merged, &last, schema);
        let owned = FieldSet::union_all(self.entries.iter().map(|entry| entry.fields.clone()).collect());
        let all = named(field_set(&merged, schema));
        // First restore what is owned, then everything that the manager never applied.
        let kept = named(field_set(&pruned, schema)).union(&named(owned));
        let pruned = remove_fields(&merged, &all.difference(&kept), schema);
        let kept = named(field_set(&pruned, schema));
        remove_fields(&merged, &all.difference(&kept).intersection(&last), schema)
    }

    fn conflicts(&self, found: &FieldDifferences, manager: &ManagerIdentifier) -> Vec<Conflict> {
        let changed = found.modified.clone().union(&found.added);
        let mut conflicts = Vec::new();
        let mut bytes_left = MAX_CONFLICT_BYTES;
        for entry in self.entries.iter().filter(|entry| !entry.manager.is(manager)) {
            let manager = entry.manager.to_string();
            for field in entry.fields.intersection(&changed).paths_within(bytes_left) {
                bytes_left = bytes_left.saturating_sub(field.len() + manager.len());
                conflicts.push(Conflict { manager: manager.clone(), field });
            }
        }
        conflicts.sort_by(|a, b| a.manager.cmp(&b.manager));
        conflicts
    }

    /// The entry of a manager, created on demand.
    fn entry(&mut self, manager: &ManagerIdentifier) -> &mut ManagedFieldsEntry {
        let at = self.entries.iter().position(|entry| entry.manager.is(manager)).unwrap_or_else(|| {
            self.entries.push(ManagedFieldsEntry { manager: manager.clone(), time: None, fields: FieldSet::new() });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Merges the oldest managers that update, per version, if there are too many.
    fn merge_ancient(&mut self) {
        let count =
            self.entries.iter().filter(|entry| entry.manager.operation == ManagedFieldsOperation::Update).count();
        let Some(mut surplus) = count.checked_sub(MAX_UPDATERS).filter(|surplus| *surplus > 0) else { return };
        self.entries.sort_by(|a, b| (&a.time, &a.manager.name).cmp(&(&b.time, &b.manager.name)));
        let mut kept: Vec<ManagedFieldsEntry> = Vec::new();
        // By version: the index of the oldest manager, and the fields of those merged into it.
        let mut oldest_of: HashMap<Str, (usize, Vec<FieldSet>)> = HashMap::new();
        for entry in std::mem::take(&mut self.entries) {
            if entry.manager.operation != ManagedFieldsOperation::Update || surplus == 0 {
                kept.push(entry);
                continue;
            }
            match oldest_of.entry(entry.manager.api_version.clone()) {
                Vacant(place) => {
                    place.insert((kept.len(), Vec::new()));
                    kept.push(entry);
                }
                Occupied(mut place) => {
                    let (at, merged) = place.get_mut();
                    let bucket = &mut kept[*at];
                    bucket.manager.name = Str::from_static(ANCIENT);
                    bucket.manager.subresource = Str::new();
                    bucket.time = entry.time;
                    merged.push(entry.fields);
                    surplus -= 1;
                }
            }
        }
        for (at, mut sets) in oldest_of.into_values() {
            sets.push(std::mem::take(&mut kept[at].fields));
            kept[at].fields = FieldSet::union_all(sets);
        }
        self.entries = kept;
    }
}

impl ManagedFieldsEntry {
    /// Removes fields that another manager changed or removed.
    fn lose(&mut self, found: &FieldDifferences) {
        for lost in [&found.modified, &found.added, &found.removed] {
            if !lost.is_empty() {
                self.fields = self.fields.difference(lost);
            }
        }
    }

    fn to_value(&self) -> Value {
        let ManagerIdentifier { name, operation, api_version, subresource } = &self.manager;
        let mut entry = Map::new();
        entry.reserve_exact(7);
        // In alphabetical order, so that each one is appended.
        entry.insert("apiVersion", api_version.clone().into());
        entry.insert("fieldsType", "FieldsV1".into());
        entry.insert("fieldsV1", self.fields.to_value());
        entry.insert("manager", name.clone().into());
        entry.insert("operation", operation.name().into());
        if !subresource.is_empty() {
            entry.insert("subresource", subresource.clone().into());
        }
        if let Some(time) = &self.time {
            entry.insert("time", time.clone().into());
        }
        Value::Object(entry)
    }
}
