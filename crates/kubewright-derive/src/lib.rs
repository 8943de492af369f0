//! Derives custom resources.
//!
//! `attribute` parses the attribute and `expand` generates code, which mostly calls functions of
//! `kubewright_runtime::custom`.
//!
//! The derive macro is used through `kubewright`, with its feature `derive`:
//!
//! ```ignore
//! #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
//! #[resource(group = "example.com", version = "v1", kind = "Foo", namespaced, status = FooStatus)]
//! pub struct FooSpec {
//!     replicas: i32,
//! }
//! ```

mod apply;
mod attribute;
mod expand;
mod names;
mod root;
mod serde_names;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives a custom resource from the struct of its spec.
///
/// ```text
/// #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
/// #[resource(group = "example.com", version = "v1", kind = "Foo", namespaced, status = FooStatus)]
/// pub struct FooSpec { replicas: i32 }
/// ```
/// generates a struct `Foo` with `metadata`, `spec` and `status`, which implements `Object` and
/// `Kind`, and whose `CustomResource::definition` is the CustomResourceDefinition. Attributes:
///
/// - `group`, `version` and `kind` (required); `plural`, `singular` and `list_kind` to override the
///   derived names;
/// - `struct = "SelfResource"`: the name of the struct, for kinds such as `Self` and `Option` that
///   cannot or should not be the name of a struct;
/// - `flat`: the struct has the fields of the object beside `metadata`, for resources without a
///   `spec`. The generated struct has them in `fields`;
/// - `namespaced`: objects are namespaced, otherwise cluster-scoped;
/// - `status = Type`: the status, with its subresource;
/// - `scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector")`;
/// - `short_names("fo")`, `categories("all")`, `selectable(".spec.color")`;
/// - `column(name = "Size", type = "integer", path = ".spec.size", format = "int32", priority = 1,
///   description = "…")`, any number;
/// - `rule(rule = "self.spec.size > 0", message = "too small")`, any number: CEL rules of the whole
///   object; also with `message_expression`, `reason` and `field_path`;
/// - `apply`: builders `FooApply` and `FooSpecApply` for server-side apply; the status needs
///   `#[derive(Apply)]`;
/// - `derive(Default, PartialEq)`: more traits for the struct;
/// - `not_stored`, `not_served` and `deprecated = "why"`, for one of several versions;
/// - `crate = path`: the path of `kubewright_runtime`. By default the manifest decides: the
///   dependency on `kubewright-runtime`, otherwise the one on `kubewright`, under any name.
///
/// Rules of fields, at any depth, are transforms of schemars from `kubewright_runtime::custom`,
/// such as `#[schemars(transform = custom::immutable)]`. Several versions are declared with
/// `Versions`.
#[proc_macro_derive(CustomResource, attributes(resource))]
pub fn derive_custom_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Derives a builder for server-side apply from a struct in a custom resource, such as its status.
///
/// The builder of `FooStatus` is `FooStatusApply`. It has a setter for each field, under the name
/// that serde gives it. A field with `#[resource(nested)]`, whose type also has a builder, is set
/// by a closure. Fields with `with` or `serialize_with` of serde have no setter. Needs `Serialize`.
/// `#[resource(apply)]` of a custom resource derives the builder of its spec.
#[proc_macro_derive(Apply, attributes(resource))]
pub fn derive_apply(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    apply::expand(&input, &root::of_this_crate()).unwrap_or_else(syn::Error::into_compile_error).into()
}
