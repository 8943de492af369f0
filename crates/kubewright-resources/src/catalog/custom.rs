//! The resources of a CustomResourceDefinition.

use std::collections::HashMap;
use std::sync::Arc;

use kubewright_core::tree::{self, Meta};
use kubewright_core::{Map, Str, Value, compare_kube_aware_versions};
use kubewright_schema::Schema;
use tokio::sync::watch;

use super::converter::ConversionWebhook;
use super::resource::{Custom, Resource, Subresource};
use kubewright_printers::{CustomColumn, Printer};

/// The verbs of every custom resource, in discovery order.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources of all definitions. Unchanged definitions are not parsed again, because schemas
/// can be large.
#[derive(Default)]
pub struct CustomResources {
    by_name: HashMap<Str, Definition>,
}

/// The resources of one definition.
struct Definition {
    revision: u64,
    /// UID and generation of the definition. Other changes concern its status only.
    identity: (Str, i64),
    resources: Vec<Arc<Resource>>,
    /// Kept while UID and generation stay the same. Watches end when it is dropped.
    lifetime: Arc<watch::Sender<()>>,
}

/// The resources of one definition before and after a change.
pub struct Replacement {
    /// The resources before the change.
    pub before: Vec<Arc<Resource>>,
    /// The resources after the change.
    pub after: Vec<Arc<Resource>>,
}

impl CustomResources {
    /// Sets or removes a definition at a revision. Returns its resources before and after, if they
    /// may differ.
    pub fn set(&mut self, name: &str, definition: Option<(u64, &Value)>) -> Option<Replacement> {
        let known = self.by_name.get(name);
        if known.map(|known| known.revision) == definition.map(|(revision, _)| revision) {
            return None;
        }
        let before = known.map(|known| known.resources.clone()).unwrap_or_default();
        let after = match definition {
            None => {
                self.by_name.remove(name);
                Vec::new()
            }
            Some((revision, definition)) => {
                let identity = (Str::from(definition.uid()), definition.generation());
                let same = known.filter(|known| known.identity == identity && !known.resources.is_empty());
                let lifetime = same.map_or_else(Arc::default, |known| Arc::clone(&known.lifetime));
                let resources: Vec<_> = resources(definition, &lifetime).into_iter().map(Arc::new).collect();
                let after = resources.clone();
                self.by_name.insert(name.into(), Definition { revision, identity, resources, lifetime });
                after
            }
        };
        (!before.is_empty() || !after.is_empty()).then_some(Replacement { before, after })
    }
}

/// The resources of an established definition, one for each version.
fn resources(definition: &Value, lifetime: &watch::Sender<()>) -> Vec<Resource> {
    if !is_established(definition) {
        return Vec::new();
    }
    let group = Str::from(tree::text(definition, &["spec", "group"]));
    let names = tree::get(definition, &["status", "acceptedNames"]).cloned().unwrap_or_default();
    let versions = tree::items(definition, &["spec", "versions"]);
    let schemas: Vec<Arc<Schema>> = versions.iter().map(schema).collect();
    let converter = ConversionWebhook::from_definition(definition).map(Arc::new);
    let stored = versions.iter().position(|version| tree::is_true(version, &["storage"])).unwrap_or_default();
    let api_version = |version: &Value| Str::from(format!("{group}/{}", tree::text(version, &["name"])));
    let api_versions: Arc<[Str]> = versions.iter().map(api_version).collect();
    let best = best_version(versions);
    let resource = |(index, version): (usize, &Value)| {
        let mut resource = resource(definition, &group, &names, version);
        if let Some(custom) = &mut resource.custom {
            let custom = Arc::make_mut(custom);
            custom.schema = Arc::clone(&schemas[index]);
            custom.storage_version = api_versions[stored].clone();
            custom.versions = Arc::clone(&api_versions);
            custom.storage_schema = Arc::clone(&schemas[stored]);
            custom.converter = converter.clone();
            custom.lifetime = Some(lifetime.subscribe());
            custom.deprecation = deprecation(definition, version, best);
        }
        resource
    };
    versions.iter().enumerate().map(resource).collect()
}

/// The highest version that is served and not deprecated.
fn best_version(versions: &[Value]) -> Option<&str> {
    versions
        .iter()
        .filter(|version| tree::is_true(version, &["served"]) && !tree::is_true(version, &["deprecated"]))
        .map(|version| tree::text(version, &["name"]))
        .max_by(|a, b| compare_kube_aware_versions(a, b))
}

/// The deprecation warning of a version, if it is deprecated. It names the best version, if that is
/// higher.
fn deprecation(definition: &Value, version: &Value, best: Option<&str>) -> Option<Str> {
    if !tree::is_true(version, &["deprecated"]) {
        return None;
    }
    if let Some(text) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(text.into());
    }
    let (group, kind) =
        (tree::text(definition, &["spec", "group"]), tree::text(definition, &["spec", "names", "kind"]));
    let name = tree::text(version, &["name"]);
    let better = best.filter(|best| compare_kube_aware_versions(name, best).is_lt());
    let instead = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{instead}").into())
}

/// The schema of a version.
fn schema(version: &Value) -> Arc<Schema> {
    let schema = tree::get(version, &["schema", "openAPIV3Schema"]);
    Arc::new(schema.map(Schema::parse).unwrap_or_default())
}

/// Whether the server has accepted the names of a definition.
pub fn is_established(definition: &Value) -> bool {
    tree::has_condition(definition, "Established")
}

fn resource(definition: &Value, group: &Str, names: &Value, version: &Value) -> Resource {
    let text = |field: &str| Str::from(tree::text(names, &[field]));
    let texts = |field: &str| tree::items(names, &[field]).iter().filter_map(Value::as_str).map(Str::from).collect();
    let name = Str::from(tree::text(version, &["name"]));
    let api_version = Str::from(format!("{group}/{name}"));
    let has_status = tree::get(version, &["subresources", "status"]).is_some();
    let scale = tree::get(version, &["subresources", "scale"]).map(|scale| {
        ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"]
            .map(|path| Str::from(tree::text(scale, &[path])))
    });
    let mut subresources = Vec::new();
    if has_status {
        let (api_version, kind) = (api_version.clone(), text("kind"));
        subresources.push(Subresource { name: "status".into(), api_version, kind, verbs: &["get", "patch", "update"] });
    }
    if scale.is_some() {
        let (api_version, kind) = ("autoscaling/v1".into(), "Scale".into());
        subresources.push(Subresource { name: "scale".into(), api_version, kind, verbs: &["get", "patch", "update"] });
    }
    let selectable = tree::items(version, &["selectableFields"]).iter();
    let selectable = selectable.map(|field| tree::text(field, &["jsonPath"]).trim_start_matches('.').into()).collect();
    // Like the real server, drop an invalid column and all columns after it.
    let columns = tree::items(version, &["additionalPrinterColumns"]).iter();
    let columns: Vec<CustomColumn> = columns.map_while(|column| CustomColumn::from_value(column).ok()).collect();
    let empty = [("apiVersion", Value::from(api_version.clone())), ("kind", text("kind").into())];
    Resource {
        group: group.clone(),
        version: name,
        api_version,
        kind: text("kind"),
        list_kind: text("listKind"),
        plural: text("plural"),
        singular: text("singular"),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: tree::text(definition, &["spec", "scope"]) == "Namespaced",
        verbs: VERBS,
        subresources,
        storage: format!("{}.{group}", text("plural")).into(),
        info: None,
        entry: None,
        empty: Value::Object(empty.into_iter().collect::<Map<Value>>()),
        printer: Printer::for_columns(&columns),
        custom: Some(Arc::new(Custom {
            terminating: tree::has_condition(definition, "Terminating"),
            served: tree::is_true(version, &["served"]),
            stored: tree::is_true(version, &["storage"]),
            scale,
            selectable,
            version: version.clone(),
            ..Custom::default()
        })),
    }
}
