//! Types of k8s-openapi are objects of ours.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kubewright_core::stream::{Encoding, ListDecoder, WatchDecoder, WatchEvent};
use kubewright_core::{Decoder, DynamicObject, Kind, Object, ObjectList};

use crate::samples::POD_JSON;

fn pod() -> Pod {
    serde_json::from_slice(POD_JSON).expect("a pod")
}

#[test]
fn metadata_is_the_same_through_both() {
    let theirs = pod();
    let ours: kubewright_api::core::v1::Pod = Decoder::new().json(POD_JSON).expect("a pod");
    assert_eq!(theirs.key(), ours.key());
    assert_eq!((theirs.uid(), theirs.resource_version()), (ours.uid(), ours.resource_version()));
    assert_eq!(theirs.generation(), ours.generation());
    assert_eq!(theirs.creation_timestamp(), ours.creation_timestamp());
    assert!(theirs.creation_timestamp().is_some());
    assert_eq!((theirs.deletion_timestamp(), theirs.is_being_deleted()), (None, false));
    assert!(theirs.labels().iter().eq(ours.labels().iter()) && !theirs.labels().is_empty());
    assert!(theirs.annotations().iter().eq(ours.annotations().iter()));
    assert_eq!(theirs.owner_references(), ours.owner_references());
    assert_eq!(theirs.finalizers(), ours.finalizers());
    assert_eq!(theirs.group_version_kind(), ours.group_version_kind());
    let mut theirs = theirs;
    theirs.set_name("other");
    theirs.set_namespace("");
    theirs.set_resource_version("8");
    theirs.set_owner_references(vec![]);
    assert_eq!(theirs.metadata.owner_references, None);
    let references = ours.owner_references().into_owned();
    assert!(!references.is_empty());
    theirs.set_owner_references(references.clone());
    assert_eq!(theirs.owner_references().into_owned(), references);
    assert_eq!((theirs.key().to_string().as_str(), theirs.resource_version()), ("other", "8"));
    assert_eq!(theirs.metadata.namespace, None);
}

#[test]
fn the_resource_is_known_when_the_program_is_compiled() {
    fn check<Theirs: Kind, Ours: Kind>() {
        let (theirs, ours) = (Theirs::RESOURCE, Ours::RESOURCE);
        assert_eq!((theirs.kind, theirs.plural, theirs.namespaced), (ours.kind, ours.plural, ours.namespaced));
    }
    check::<Pod, kubewright_api::core::v1::Pod>();
    check::<Namespace, kubewright_api::core::v1::Namespace>();
    check::<CustomResourceDefinition, kubewright_api::apiextensions::v1::CustomResourceDefinition>();
    check::<k8s_openapi::api::apps::v1::Deployment, kubewright_api::apps::v1::Deployment>();
    const { assert!(!Namespace::RESOURCE.namespaced) };
}

#[test]
fn objects_become_json_and_dynamic_objects() {
    let pod = pod();
    let written: serde_json::Value = serde_json::from_slice(&pod.to_json()).expect("JSON");
    assert_eq!(written, serde_json::to_value(&pod).expect("JSON"));
    let dynamic = DynamicObject::from_typed(&pod).expect("an object");
    assert_eq!((dynamic.kind.as_str(), dynamic.key()), ("Pod", pod.key()));
}

#[test]
fn lists_and_watches_of_them_are_decoded_as_bytes_arrive() {
    let list = [br#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":["#, POD_JSON, b"]}"].concat();
    let mut stream = ListDecoder::<Pod>::new(Encoding::Json);
    let mut decoder = Decoder::new().skip_managed_fields();
    let mut pods = Vec::new();
    for piece in list.chunks(1000) {
        stream.push(piece);
        while let Some(pod) = stream.next(&mut decoder).expect("decodes") {
            pods.push(pod);
        }
    }
    assert_eq!(stream.finish().expect("is whole").resource_version.as_deref(), Some("9"));
    let mut expected = pod();
    assert!(expected.metadata.managed_fields.take().is_some());
    assert_eq!(pods, [expected]);

    let mut watch = WatchDecoder::<Namespace>::new(Encoding::Json);
    watch.push(br#"{"type":"ADDED","object":{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}}"#);
    let event = watch.next(&mut decoder).expect("decodes");
    assert!(matches!(event, Some(WatchEvent::Added(namespace)) if namespace.name() == "a"));

    let error = ObjectList::<Pod>::from_json(br#"{"items":[{"spec":7}]}"#, &mut decoder).expect_err("is no pod");
    assert!(error.to_string().starts_with("items[0]: invalid type"), "{error}");
}
