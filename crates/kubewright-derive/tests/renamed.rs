//! Derived code finds `kubewright` under the name that the manifest gives it.

use renamed::runtime::custom::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "example.com", version = "v1", kind = "Foo", namespaced)]
struct FooSpec {
    size: i32,
}

#[test]
fn derived_code_finds_a_renamed_dependency() {
    let foo = Foo::new("one", FooSpec { size: 2 });
    assert_eq!(foo.metadata.name.as_deref(), Some("one"));
    assert_eq!(Foo::definition().metadata.name.as_deref(), Some("foos.example.com"));
}
