//! Rules of the type tables: field presence, secret fields, and the sizes of cached types.

use std::mem::size_of;

use kubewright_api::batch::v1::Job;
use kubewright_api::core::v1::{
    ConfigMap, Container, ContainerStatus, Event, Node, Pod, PodSpec, PodStatus, Secret, Service, Volume,
};
use kubewright_api::{apps, coordination, discovery};
use kubewright_core::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference, Status};
use kubewright_core::protobuf::encode_message;
use kubewright_core::scheme::{Flags, Number, Numbers, Type, TypeInfo};
use kubewright_core::{Decoder, Object};

use crate::model;

/// Go writes zeros of value fields into protobuf and omits them from JSON, so both decode as
/// absent. A zero in a pointer field is kept.
#[test]
fn a_protobuf_zero_is_absent_unless_the_go_field_is_a_pointer() {
    let json = br#"{"spec":{"nodeName":"","hostNetwork":false,"priority":0,"enableServiceLinks":false,
        "terminationGracePeriodSeconds":0,"runtimeClassName":""}}"#;
    let pod: Pod = Decoder::new().json(json).expect("decodes");
    let spec = pod.spec.as_ref().expect("a specification");
    assert_eq!((spec.node_name.as_deref(), spec.host_network), (Some(""), Some(false)), "JSON keeps what it says");
    let mut bytes = Vec::new();
    encode_message(&pod, &mut bytes);
    let mut again = Pod::default();
    Decoder::new().protobuf_message_into(&mut again, &bytes).expect("decodes");
    let spec = again.spec.as_ref().expect("a specification");
    assert_eq!((spec.node_name.as_deref(), spec.host_network), (None, None), "held by value");
    let pointers = (spec.priority, spec.enable_service_links, spec.termination_grace_period_seconds);
    assert_eq!(pointers, (Some(0), Some(false), Some(0)), "held by pointer");
    assert_eq!(spec.runtime_class_name.as_deref(), Some(""), "held by pointer");
    // The server form of both is equal.
    assert_eq!(model::to_server_json(&pod), model::to_server_json(&again));
}

#[test]
fn the_zero_time_is_no_time() {
    let json = br#"{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z"}}"#;
    let pod: Pod = Decoder::new().json(json).expect("decodes");
    assert_eq!(pod.to_json(), br#"{"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":null}}"#);
    let mut bytes = Vec::new();
    encode_message(&pod, &mut bytes);
    let mut again = Pod::default();
    Decoder::new().protobuf_message_into(&mut again, &bytes).expect("decodes");
    assert_eq!(again.metadata.creation_timestamp, None);
}

#[test]
fn a_server_writes_structs_and_required_fields_that_are_unset() {
    let pod: Pod = Decoder::new()
        .json(br#"{"spec":{"containers":[{"name":"c","env":[{"name":"e","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}]}]}}"#)
        .expect("decodes");
    assert_eq!(
        model::to_server_json(&pod),
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"containers":[{"name":"c","env":[{"name":"e","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"0"}}}],"resources":{}}]},"status":{}}"#
    );
}

#[test]
fn debug_shows_no_secret() {
    let json = br#"{"metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="},"stringData":{"token":"hunter2"},"type":"Opaque"}"#;
    let secret: Secret = Decoder::new().json(json).expect("decodes");
    for shown in [format!("{secret:?}"), format!("{secret:#?}")] {
        assert!(shown.contains("Opaque") && shown.contains("<redacted>"), "{shown}");
        for hidden in ["hunter2", "aHVudGVyMg", "password", "token", "104, 117"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
    let secrets =
        model::types().into_iter().flat_map(|entry| entry.info.fields).filter(|field| field.flags.has(Flags::SECRET));
    assert!(secrets.count() >= 2);
}

#[test]
fn tables_are_sound() {
    let types = model::types();
    assert!(types.len() >= 500, "{} types", types.len());
    for entry in types {
        let info = entry.info;
        // The decoder tracks seen fields in a 64-bit word.
        assert!(info.fields.len() <= 64, "{} has {} fields", info.name, info.fields.len());
        for numbers in [info.numbers].iter().chain(info.embedded) {
            // Protobuf has no field number 0, and a table ends with the largest number.
            assert!(numbers.first().is_none_or(|zero| *zero == Number::NONE), "{}", info.name);
            assert!(numbers.last().is_none_or(|last| *last != Number::NONE), "{}", info.name);
        }
        let mut reached = vec![0; info.fields.len()];
        count_fields(info, info.numbers, &mut reached);
        assert!(reached.iter().all(|count| *count <= 1), "{}: a field has two numbers", info.name);
        let mut names: Vec<_> = info.fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|a, b| a < b), "{}: a name occurs twice", info.name);
        for field in info.fields {
            // Go has no pointers to lists and maps.
            let collection = matches!(field.ty, Type::List(_) | Type::Map(_));
            assert!(!(collection && field.flags.has(Flags::POINTER)), "{}.{}", info.name, field.name);
        }
    }
}

fn count_fields(info: &TypeInfo, numbers: Numbers, reached: &mut [usize]) {
    for number in numbers.iter().filter(|number| **number != Number::NONE) {
        match number.target.checked_sub(Number::EMBEDDED) {
            None => reached[usize::from(number.target)] += 1,
            Some(table) => count_fields(info, info.embedded[usize::from(table)], reached),
        }
    }
}

#[test]
fn resources_belong_to_types() {
    let resources = kubewright_api::resources();
    assert_eq!(resources.len(), 68);
    for resource in resources {
        let is_its = |entry: &&kubewright_core::message::TypeEntry| entry.info.kind == Some(resource.kind);
        assert!(model::types().iter().any(is_its), "{} has a type", resource.plural);
    }
}

/// Caches hold thousands of these. A bound may be raised deliberately.
#[test]
fn types_of_caches_stay_small() {
    let sizes = [
        ("Pod", size_of::<Pod>(), 544),
        ("PodSpec", size_of::<PodSpec>(), 208),
        ("PodStatus", size_of::<PodStatus>(), 160),
        ("Container", size_of::<Container>(), 200),
        ("ContainerStatus", size_of::<ContainerStatus>(), 144),
        ("Volume", size_of::<Volume>(), 80),
        ("ObjectMeta", size_of::<ObjectMeta>(), 176),
        ("OwnerReference", size_of::<OwnerReference>(), 72),
        ("ManagedFieldsEntry", size_of::<ManagedFieldsEntry>(), 104),
        ("Status", size_of::<Status>(), 136),
        ("Node", size_of::<Node>(), 464),
        ("Service", size_of::<Service>(), 360),
        ("ConfigMap", size_of::<ConfigMap>(), 216),
        ("Secret", size_of::<Secret>(), 232),
        ("Event", size_of::<Event>(), 440),
        ("Deployment", size_of::<apps::v1::Deployment>(), 728),
        ("ReplicaSet", size_of::<apps::v1::ReplicaSet>(), 304),
        ("Job", size_of::<Job>(), 816),
        ("Lease", size_of::<coordination::v1::Lease>(), 256),
        ("EndpointSlice", size_of::<discovery::v1::EndpointSlice>(), 224),
        ("Endpoint", size_of::<discovery::v1::Endpoint>(), 104),
    ];
    let grown: Vec<_> = sizes.iter().filter(|(_, size, bound)| size > bound).collect();
    assert!(grown.is_empty(), "name, size, bound: {grown:?}");
}
