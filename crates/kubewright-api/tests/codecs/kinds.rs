//! All kinds of the API, each with the corresponding types of k8s-pb and k8s-openapi.

use kubewright_core::Kind;
use kubewright_core::message::Message;
use kubewright_core::scheme::TypeInfo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind with its counterparts.
pub struct KindCase {
    pub info: &'static TypeInfo,
    /// Decodes, clones, compares, and converts through serde.
    pub sanity: fn(json: &str),
    /// Decodes protobuf with k8s-pb; returns its encoding, and on request its debug form.
    pub k8s_pb: Option<ThroughK8sPb>,
    /// Decodes JSON with k8s-openapi, and returns its encoding.
    pub k8s_openapi: fn(Value) -> serde_json::Result<Value>,
}

type ThroughK8sPb = fn(bytes: &[u8], print: bool) -> Result<(Vec<u8>, String), prost::DecodeError>;

fn case<Ours, Openapi>(k8s_pb: Option<ThroughK8sPb>) -> KindCase
where
    Ours: Message + Default + Kind + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned,
    Openapi: Serialize + DeserializeOwned,
{
    KindCase { info: Ours::default().scheme(), sanity: sanity::<Ours>, k8s_pb, k8s_openapi: through_serde::<Openapi> }
}

macro_rules! kinds {
    ($($ours:path { $($kind:ident)* } $pb:path, $openapi:path;)*) => {
        pub fn all() -> Vec<KindCase> {
            let mut all = Vec::new();
            $(
                {
                    use $ours as ours;
                    use $openapi as openapi;
                    use $pb as pb;
                    $(all.push(case::<ours::$kind, openapi::$kind>(Some(through_k8s_pb::<pb::$kind>)));)*
                }
            )*
            // Kinds that k8s-pb does not have yet.
            {
                use k8s_openapi::api::admissionregistration::v1 as openapi;
                use kubewright_api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
                all.push(case::<MutatingAdmissionPolicy, openapi::MutatingAdmissionPolicy>(None));
                all.push(case::<MutatingAdmissionPolicyBinding, openapi::MutatingAdmissionPolicyBinding>(None));
            }
            all
        }
    };
}

kinds! {
    kubewright_api::admissionregistration::v1 { MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration }
        k8s_pb::api::admissionregistration::v1, k8s_openapi::api::admissionregistration::v1;
    kubewright_api::apiextensions::v1 { CustomResourceDefinition }
        k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1, k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1;
    kubewright_api::apiregistration::v1 { APIService }
        k8s_pb::kube_aggregator::pkg::apis::apiregistration::v1, k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1;
    kubewright_api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
        k8s_pb::api::apps::v1, k8s_openapi::api::apps::v1;
    kubewright_api::authentication::v1 { SelfSubjectReview TokenReview }
        k8s_pb::api::authentication::v1, k8s_openapi::api::authentication::v1;
    kubewright_api::authorization::v1 { LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview }
        k8s_pb::api::authorization::v1, k8s_openapi::api::authorization::v1;
    kubewright_api::autoscaling::v1 { HorizontalPodAutoscaler }
        k8s_pb::api::autoscaling::v1, k8s_openapi::api::autoscaling::v1;
    kubewright_api::autoscaling::v2 { HorizontalPodAutoscaler }
        k8s_pb::api::autoscaling::v2, k8s_openapi::api::autoscaling::v2;
    kubewright_api::batch::v1 { CronJob Job }
        k8s_pb::api::batch::v1, k8s_openapi::api::batch::v1;
    kubewright_api::certificates::v1 { CertificateSigningRequest }
        k8s_pb::api::certificates::v1, k8s_openapi::api::certificates::v1;
    kubewright_api::coordination::v1 { Lease }
        k8s_pb::api::coordination::v1, k8s_openapi::api::coordination::v1;
    kubewright_api::core::v1 { Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolumeClaim PersistentVolume Pod PodTemplate ReplicationController ResourceQuota Secret ServiceAccount Service }
        k8s_pb::api::core::v1, k8s_openapi::api::core::v1;
    kubewright_api::discovery::v1 { EndpointSlice }
        k8s_pb::api::discovery::v1, k8s_openapi::api::discovery::v1;
    kubewright_api::events::v1 { Event }
        k8s_pb::api::events::v1, k8s_openapi::api::events::v1;
    kubewright_api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
        k8s_pb::api::flowcontrol::v1, k8s_openapi::api::flowcontrol::v1;
    kubewright_api::networking::v1 { IngressClass Ingress IPAddress NetworkPolicy ServiceCIDR }
        k8s_pb::api::networking::v1, k8s_openapi::api::networking::v1;
    kubewright_api::node::v1 { RuntimeClass }
        k8s_pb::api::node::v1, k8s_openapi::api::node::v1;
    kubewright_api::policy::v1 { PodDisruptionBudget }
        k8s_pb::api::policy::v1, k8s_openapi::api::policy::v1;
    kubewright_api::rbac::v1 { ClusterRoleBinding ClusterRole RoleBinding Role }
        k8s_pb::api::rbac::v1, k8s_openapi::api::rbac::v1;
    kubewright_api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
        k8s_pb::api::resource::v1, k8s_openapi::api::resource::v1;
    kubewright_api::scheduling::v1 { PriorityClass }
        k8s_pb::api::scheduling::v1, k8s_openapi::api::scheduling::v1;
    kubewright_api::storage::v1 { CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass }
        k8s_pb::api::storage::v1, k8s_openapi::api::storage::v1;
}

fn through_k8s_pb<T: prost::Message + Default + std::fmt::Debug>(
    bytes: &[u8],
    print: bool,
) -> Result<(Vec<u8>, String), prost::DecodeError> {
    let object = T::decode(bytes)?;
    Ok((object.encode_to_vec(), if print { format!("{object:#?}") } else { String::new() }))
}

fn through_serde<T: Serialize + DeserializeOwned>(json: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(json)?)
}

fn sanity<T>(json: &str)
where
    T: Message + Default + Kind + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: T = kubewright_core::Decoder::new().json(json.as_bytes()).expect("fits the type");
    let mut other = object.clone();
    assert!(other == object, "a clone is equal");
    let value = serde_json::to_value(&object).expect("serialises");
    assert!(serde_json::from_value::<T>(value).expect("deserialises") == object, "serde keeps it equal");
    other.set_name("another");
    assert!(other != object, "another name is another object");
    assert_ne!(object, T::default(), "and an empty one too");
    assert!(format!("{object:?}").starts_with(T::RESOURCE.kind.kind), "debug begins with the kind");
}
