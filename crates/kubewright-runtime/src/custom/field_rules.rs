//! Rules of fields that Rust types cannot express: immutability, CEL, and how lists and maps merge.
//!
//! Each is a transform of schemars. They work on fields at any depth, without a derive of ours on
//! nested structs. kube-rs has attributes of a second derive for this, `KubeSchema`.

use schemars::Schema;
use serde_json::{Value, json};

/// A field that cannot change once it is set.
///
/// It can still be removed if it is optional, and set if it was unset, because rules of a field are
/// not evaluated without a value.
///
/// ```
/// # use kubewright_runtime::custom;
/// # use schemars::JsonSchema;
/// #[derive(JsonSchema)]
/// struct Storage {
///     #[schemars(transform = custom::immutable)]
///     class: String,
/// }
/// # assert_eq!(custom::schema_of::<Storage>()["properties"]["class"]["x-kubernetes-validations"][0]["rule"], "self == oldSelf");
/// ```
pub fn immutable(schema: &mut Schema) {
    add_rule(schema, json!({"rule": "self == oldSelf", "message": "field is immutable"}));
}

/// A CEL rule of a field, with the message of a violation: `self` is the value of the field,
/// `oldSelf` its previous value.
///
/// ```
/// # use kubewright_runtime::custom;
/// # use schemars::JsonSchema;
/// #[derive(JsonSchema)]
/// struct Scaling {
///     #[schemars(transform = custom::rule("self % 2 == 1", "must be odd"))]
///     members: i32,
/// }
/// # assert_eq!(custom::schema_of::<Scaling>()["properties"]["members"]["x-kubernetes-validations"][0]["message"], "must be odd");
/// ```
pub fn rule(rule: &str, message: &str) -> impl FnMut(&mut Schema) {
    let rule = json!({"rule": rule, "message": message});
    move |schema| add_rule(schema, rule.clone())
}

/// A list whose items are identified by these fields, as containers are by `name`. Each key must be
/// required or have a default.
///
/// Several managers can then apply items of the list, and duplicates are rejected.
///
/// ```
/// # use kubewright_runtime::custom;
/// # use schemars::JsonSchema;
/// #[derive(JsonSchema)]
/// struct Gateway {
///     #[schemars(transform = custom::list_map(["name"]))]
///     listeners: Vec<Listener>,
/// }
/// #[derive(JsonSchema)]
/// struct Listener {
///     name: String,
///     port: u16,
/// }
/// # assert_eq!(custom::schema_of::<Gateway>()["properties"]["listeners"]["x-kubernetes-list-map-keys"][0], "name");
/// ```
#[doc(alias = "listMapKey")]
pub fn list_map<const N: usize>(keys: [&'static str; N]) -> impl FnMut(&mut Schema) {
    move |schema| {
        set(schema, "x-kubernetes-list-type", "map".into());
        set(schema, "x-kubernetes-list-map-keys", keys.to_vec().into());
    }
}

/// A list of different scalars. Several managers can apply items of it.
pub fn list_set(schema: &mut Schema) {
    set(schema, "x-kubernetes-list-type", "set".into());
}

/// A list that has one owner as a whole. This is the default.
pub fn list_atomic(schema: &mut Schema) {
    set(schema, "x-kubernetes-list-type", "atomic".into());
}

/// A map or struct that has one owner as a whole. By default each entry has its own.
pub fn map_atomic(schema: &mut Schema) {
    set(schema, "x-kubernetes-map-type", "atomic".into());
}

fn set(schema: &mut Schema, keyword: &str, value: Value) {
    schema.insert(keyword.to_owned(), value);
}

fn add_rule(schema: &mut Schema, rule: Value) {
    match schema.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut) {
        Some(rules) => rules.push(rule),
        None => set(schema, "x-kubernetes-validations", json!([rule])),
    }
}
