//! The custom resource of histories.
//!
//! The server accepts any `spec.size`, but the Rust type has a number. A widget whose size is a
//! word is a real object that no cache can decode.

use std::sync::Arc;

use kubewright_api::apiextensions::v1::{CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps};
use kubewright_cache::Transform;
use kubewright_core::{DynamicObject, GroupVersionKind, Object};
use kubewright_runtime::custom::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const GROUP: &str = "simulation.example.com";
pub const DEFINITION: &str = "widgets.simulation.example.com";

/// The transform fails for widgets of this size.
const UNTRANSFORMABLE: i64 = 13;
/// The transform panics for widgets of this size.
const PANICKING: i64 = 66;

/// The message of intended panics, which the test suppresses.
pub const ON_PURPOSE: &str = "a simulated panic";

/// The specification of a widget.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[resource(group = "simulation.example.com", version = "v1", kind = "Widget", namespaced, derive(Default, PartialEq))]
pub struct WidgetSpec {
    pub size: i64,
}

/// A size that the server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Every program can decode it.
    Good(i64),
    /// The transform fails.
    Untransformable,
    /// The transform panics.
    Panicking,
    /// It does not decode.
    Undecodable,
}

/// The definition of widgets, with a schema that accepts any size.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Widget::definition();
    for version in &mut definition.spec.versions {
        let schema = JSONSchemaProps {
            type_: Some("object".into()),
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..JSONSchemaProps::default()
        };
        let validation = CustomResourceValidation { open_apiv3_schema: Some(schema.into()) };
        version.schema = Some(validation.into());
    }
    definition
}

/// A widget as the server stores it.
pub fn widget(namespace: &str, name: &str, size: Size) -> DynamicObject {
    let mut object = DynamicObject::new(&GroupVersionKind::new(GROUP, "v1", "Widget"), name);
    object.set_namespace(namespace);
    set_size(&mut object, size);
    object
}

pub fn set_size(object: &mut DynamicObject, size: Size) {
    let value = match size {
        Size::Good(size) => size.into(),
        Size::Untransformable => UNTRANSFORMABLE.into(),
        Size::Panicking => PANICKING.into(),
        Size::Undecodable => kubewright_core::Value::from("large"),
    };
    object.set(&["spec", "size"], value).expect("a specification is an object");
}

/// The size of a widget on the server, if a cache with the transform can hold the widget.
pub fn good_size(object: &DynamicObject) -> Option<i64> {
    let size = object.get(&["spec", "size"])?.as_i64()?;
    (size != UNTRANSFORMABLE && size != PANICKING).then_some(size)
}

/// Fails for some widgets, and panics for others.
pub fn transform() -> Transform<Widget> {
    Arc::new(|widget: Widget| match widget.spec.size {
        UNTRANSFORMABLE => Err("a simulated failure".into()),
        PANICKING => panic!("{ON_PURPOSE}"),
        _ => Ok(widget),
    })
}
