//! Derives custom resources.
//!
//! The macro reads the attribute (`attribute`) and writes code (`expand`) that leans on `kubewright_runtime::custom`, where
//! everything is that can be a function.

mod attribute;
mod expand;
mod names;
mod root;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a kind of the struct of its specification.
///
/// ```text
/// #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
/// #[resource(group = "example.com", version = "v1", kind = "Foo", namespaced, status = FooStatus)]
/// pub struct FooSpec { replicas: i32 }
/// ```
/// gives a struct `Foo` with `metadata`, `spec` and `status`, which is an `Object` and a `Kind`, and whose `CustomResource::definition`
/// is the CustomResourceDefinition. The attribute takes:
///
/// - `group`, `version` and `kind`, which have to be there; `plural`, `singular` and `list_kind` where the usual ones are wrong;
/// - `namespaced`, without which objects belong to the cluster;
/// - `status = Type`: the status, with its subresource;
/// - `scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector")`;
/// - `short_names("fo")`, `categories("all")`, `selectable(".spec.color")`;
/// - `column(name = "Size", type = "integer", path = ".spec.size", format = "int32", priority = 1, description = "…")`, any number;
/// - `rule(rule = "self.spec.size > 0", message = "too small")`, any number: CEL rules of the whole object; also with
///   `message_expression`, `reason` and `field_path`;
/// - `derive(Default, PartialEq)`: more traits for the struct;
/// - `not_stored`, `not_served` and `deprecated = "why"`, for one of several versions;
/// - `crate = path`: where `kubewright_runtime` is found. By default at `kubewright::runtime` for crates that depend on `kubewright`
///   and not on `kubewright-runtime` itself; to be said where they are renamed.
#[proc_macro_derive(CustomResource, attributes(resource))]
pub fn derive_custom_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
