// Written by `kubewright types`.
#![allow(dead_code, clippy::all, rustdoc::all)]

pub mod kitchen {
    pub mod v1 {
        use std::collections::BTreeMap;

        use kubewright::IntOrString;
        use kubewright::runtime::custom::CustomResource;
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpecByName {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub name: Option<String>,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpecConfig {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub known: Option<String>,
            /// Fields that the schema does not describe.
            #[serde(flatten)]
            pub other_fields: BTreeMap<String, serde_json::Value>,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
        pub enum KitchenSpecFallback {
            A,
            B,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpecFirst {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub key: Option<String>,
            pub name: String,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
        pub enum KitchenSpecOvenMode {
            Fan,
            Grill,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpecOven {
            pub mode: KitchenSpecOvenMode,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub since: Option<String>,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpecSelfSigned {}

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
        pub enum KitchenSpecStrategy {
            RollingUpdate,
            Recreate,
            #[serde(rename = "")]
            Empty,
            #[serde(rename = "*")]
            Other,
            #[serde(rename = "1.2")]
            V12,
            #[serde(rename = "Self")]
            Self_,
        }

        /// The desired kitchen.
        ///
        /// indented <code> and [a link]
        /// '''
        /// a fence
        /// '''
        #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
        #[resource(group = "example.com", version = "v1", kind = "Kitchen", plural = "kitchens", singular = "kitchen", list_kind = "KitchenList", namespaced, status = KitchenStatus, short_names("kit"), categories("all"), derive(PartialEq))]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpec {
            #[serde(rename = "$ref", default, skip_serializing_if = "Option::is_none")]
            pub r#ref: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub anything: Option<serde_json::Value>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub by_name: Option<BTreeMap<String, Vec<KitchenSpecByName>>>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub config: Option<KitchenSpecConfig>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub fallback: Option<KitchenSpecFallback>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub first: Option<KitchenSpecFirst>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub labels: Option<BTreeMap<String, String>>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub limits: Option<BTreeMap<String, IntOrString>>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub matrix: Option<Vec<Vec<i64>>>,
            pub may_be_null: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub oven: Option<KitchenSpecOven>,
            #[serde(rename = "podIPs", default, skip_serializing_if = "Option::is_none")]
            pub pod_ips: Option<Vec<String>>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub port: Option<IntOrString>,
            /// The same name in Rust as $ref.
            #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
            pub ref2: Option<String>,
            pub replicas: i32,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub second: Option<KitchenSpecFirst>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub self_: Option<bool>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub self_signed: Option<KitchenSpecSelfSigned>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub size: Option<i64>,
            pub strategy: KitchenSpecStrategy,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub template: Option<serde_json::Value>,
            /// A keyword of Rust.
            pub r#type: String,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub values: Option<serde_json::Value>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub weight: Option<f64>,
            #[serde(rename = "x-odd_Name", default, skip_serializing_if = "Option::is_none")]
            pub x_odd_name: Option<String>,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
        pub enum KitchenStatusConditionsStatus {
            True,
            False,
            Unknown,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenStatusConditions {
            pub status: KitchenStatusConditionsStatus,
            pub r#type: String,
        }

        #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenStatus {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub conditions: Option<Vec<KitchenStatusConditions>>,
        }
    }
    pub mod v1beta1 {
        use kubewright::runtime::custom::CustomResource;
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
        #[resource(
            group = "example.com",
            version = "v1beta1",
            kind = "Kitchen",
            plural = "kitchens",
            singular = "kitchen",
            list_kind = "KitchenList",
            namespaced,
            short_names("kit"),
            categories("all"),
            derive(PartialEq)
        )]
        #[serde(rename_all = "camelCase")]
        pub struct KitchenSpec {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub replicas: Option<i64>,
        }
    }
}
pub mod settings {
    use kubewright::runtime::custom::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
    #[serde(rename_all = "camelCase")]
    pub struct SettingsFieldsOperation {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub sync: Option<bool>,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
    #[serde(rename_all = "camelCase")]
    pub struct SettingsFieldsSpec {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
    #[serde(rename_all = "camelCase")]
    pub struct SettingsFieldsStatus {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub phase: Option<String>,
    }

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
    #[resource(
        group = "example.com",
        version = "v1",
        kind = "Settings",
        plural = "settings",
        singular = "settings",
        list_kind = "SettingsList",
        flat,
        derive(PartialEq)
    )]
    #[serde(rename_all = "camelCase")]
    pub struct SettingsFields {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub data: Option<serde_json::Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub operation: Option<SettingsFieldsOperation>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub spec: Option<SettingsFieldsSpec>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<SettingsFieldsStatus>,
    }
}
pub mod option {
    use std::collections::BTreeMap;

    use kubewright::runtime::custom::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
    #[resource(
        group = "example.com",
        version = "v1",
        kind = "Option",
        struct = "OptionResource",
        plural = "options",
        singular = "option",
        list_kind = "OptionList",
        namespaced,
        flat,
        derive(PartialEq)
    )]
    #[serde(rename_all = "camelCase")]
    pub struct OptionResourceFields {
        /// Fields that the schema does not describe.
        #[serde(flatten)]
        pub other_fields: BTreeMap<String, serde_json::Value>,
    }
}
