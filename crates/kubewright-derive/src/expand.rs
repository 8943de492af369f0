//! Generates the code of a custom resource.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Result};

use crate::apply;
use crate::attribute::{ColumnAttribute, ResourceAttribute, RuleAttribute, Scale};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !matches!(input.data, Data::Struct(_)) {
        return Err(Error::new(
            input.ident.span(),
            "a custom resource is derived from the struct of its specification",
        ));
    }
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a custom resource has no type parameters"));
    }
    let resource = ResourceAttribute::of(input)?;
    let object = object(input, &resource);
    let traits = if resource.is_flat { flat_traits(input, &resource) } else { traits(input, &resource) };
    let definition = definition(input, &resource);
    let builders = if resource.has_builder { builders(input, &resource)? } else { TokenStream::new() };
    Ok(quote! { #object #traits #definition #builders })
}

/// The struct and its constructor.
fn object(input: &DeriveInput, resource: &ResourceAttribute) -> TokenStream {
    let (spec, visibility, root) = (&input.ident, &input.vis, &resource.root);
    let name = &resource.type_name;
    let derives = &resource.derives;
    let status_field = resource.status.as_ref().map(|status| {
        quote! {
            /// The observed state; written through the status subresource.
            pub status: ::std::option::Option<#status>,
        }
    });
    let status_new = resource.status.as_ref().map(|_| quote! { status: ::std::option::Option::None, });
    let doc = format!("A custom resource of the group `{}`.", resource.group);
    if resource.is_flat {
        return quote! {
            #[doc = #doc]
            #[derive(::std::clone::Clone, ::std::fmt::Debug, #(#derives),*)]
            #visibility struct #name {
                /// Name, namespace, labels and other metadata.
                pub metadata: #root::custom::ObjectMeta,
                /// The other fields of the object.
                pub fields: #spec,
            }

            impl #name {
                /// An object with this name, without a namespace.
                #visibility fn new(name: &str, fields: #spec) -> Self {
                    let mut object = #name { metadata: ::std::default::Default::default(), fields };
                    #root::custom::Object::set_name(&mut object, name);
                    object
                }
            }
        };
    }
    quote! {
        #[doc = #doc]
        #[derive(::std::clone::Clone, ::std::fmt::Debug, #(#derives),*)]
        #visibility struct #name {
            /// Name, namespace, labels and other metadata.
            pub metadata: #root::custom::ObjectMeta,
            /// The desired state.
            pub spec: #spec,
            #status_field
        }

        impl #name {
            /// An object with this name, without a namespace.
            #visibility fn new(name: &str, spec: #spec) -> Self {
                let mut object = #name { metadata: ::std::default::Default::default(), spec, #status_new };
                #root::custom::Object::set_name(&mut object, name);
                object
            }
        }
    }
}

/// The builders of the object and of its spec.
fn builders(input: &DeriveInput, resource: &ResourceAttribute) -> Result<TokenStream> {
    let (spec, visibility, root) = (&input.ident, &input.vis, &resource.root);
    let name = &resource.type_name;
    let builder = apply::builder_of(name);
    let of_spec = apply::expand(input, root)?;
    let status = resource.status.as_ref().map(|status| {
        quote! {
            /// The observed state; applied through the status subresource.
            status "status" object(<#status as #root::custom::HasApply>::Apply);
        }
    });
    let doc = format!("Fields of [`{name}`] for server-side apply.");
    Ok(quote! {
        #of_spec

        #root::custom::apply_part! {
            #[doc = #doc]
            #visibility #builder for #name {
                /// Name, namespace, labels and other metadata.
                metadata "metadata" object(#root::custom::ObjectMetaApply);
                /// The desired state.
                spec "spec" object(<#spec as #root::custom::HasApply>::Apply);
                #status
            }
        }

        #root::custom::apply_metadata!(#builder);

        impl #root::custom::ApplyObject for #builder {
            type Object = #name;
            fn kind() -> #root::custom::KindInfo {
                <#name as #root::custom::Kind>::RESOURCE.kind
            }
            fn schema() -> #root::custom::ApplySchema {
                #root::custom::ApplySchema::Json(<#name as #root::custom::CustomResource>::schema())
            }
        }
    })
}

/// `Object`, `Kind` and serde of an object with spec and status.
fn traits(input: &DeriveInput, resource: &ResourceAttribute) -> TokenStream {
    let (spec, root) = (&input.ident, &resource.root);
    let name = &resource.type_name;
    let (status_type, status_ref, status_move) = match &resource.status {
        Some(status) => (quote! { #status }, quote! { self.status.as_ref() }, quote! { status: parts.status, }),
        None => (quote! { #root::custom::NoStatus }, quote! { ::std::option::Option::None }, quote! {}),
    };
    let has_status = resource.status.as_ref().map(|_| quote! { impl #root::custom::HasStatus for #name {} });
    let has_scale = resource.scale.as_ref().map(|_| quote! { impl #root::custom::HasScale for #name {} });
    let (api_version, kind) = (resource.api_version(), &resource.kind);
    let traits = object_traits(
        resource,
        &quote! { #root::custom::Parts::<#spec, #status_type> },
        &quote! { #name { metadata: parts.metadata, spec: parts.spec, #status_move } },
        &quote! {
            let status: ::std::option::Option<&#status_type> = #status_ref;
            #root::custom::serialize(#api_version, #kind, &self.metadata, &self.spec, status, serializer)
        },
    );
    quote! { #traits #has_status #has_scale }
}

/// `Object`, `Kind` and serde of an object whose fields are in one struct.
fn flat_traits(input: &DeriveInput, resource: &ResourceAttribute) -> TokenStream {
    let (fields, root, name) = (&input.ident, &resource.root, &resource.type_name);
    let (api_version, kind) = (resource.api_version(), &resource.kind);
    object_traits(
        resource,
        &quote! { #root::custom::FlatParts::<#fields> },
        &quote! { #name { metadata: parts.metadata, fields: parts.fields } },
        &quote! { #root::custom::serialize_flat(#api_version, #kind, &self.metadata, &self.fields, serializer) },
    )
}

/// `Object`, `Kind` and serde: `parts` is what is decoded, `object` is built from it.
fn object_traits(
    resource: &ResourceAttribute,
    parts: &TokenStream,
    object: &TokenStream,
    serialize: &TokenStream,
) -> TokenStream {
    let root = &resource.root;
    let name = &resource.type_name;
    let ResourceAttribute { group, version, kind, plural, singular, namespaced, .. } = resource;
    let api_version = resource.api_version();
    let (short_names, categories) = (&resource.short_names, &resource.categories);
    let scope = if *namespaced {
        quote! { Namespaced }
    } else {
        quote! { ClusterScoped }
    };
    quote! {
        impl #root::custom::Object for #name {
            type Scope = #root::custom::#scope;

            fn group_version_kind(&self) -> #root::custom::GroupVersionKind {
                #root::custom::GroupVersionKind::from_static(#group, #version, #kind)
            }
            fn static_kind() -> ::std::option::Option<#root::custom::GroupVersionKind> {
                ::std::option::Option::Some(#root::custom::GroupVersionKind::from_static(#group, #version, #kind))
            }
            #root::custom::object_metadata!();
            fn from_json(
                reader: &mut #root::custom::Reader<'_, '_>,
            ) -> ::std::result::Result<Self, #root::custom::DecodeError> {
                let parts = #parts::from_json(reader)?;
                ::std::result::Result::Ok(#object)
            }
            fn from_protobuf(
                _: &[u8],
                _: &mut #root::custom::Decoder,
            ) -> ::std::option::Option<::std::result::Result<Self, #root::custom::DecodeError>> {
                ::std::option::Option::None
            }
            fn write_json(&self, writer: &mut #root::custom::Writer<'_>) {
                #root::custom::write_json(self, writer);
            }
        }

        impl #root::custom::Kind for #name {
            const RESOURCE: &'static #root::custom::ResourceInfo = &#root::custom::ResourceInfo {
                kind: #root::custom::KindInfo { group: #group, version: #version, kind: #kind, api_version: #api_version },
                plural: #plural,
                singular: #singular,
                short_names: &[#(#short_names),*],
                categories: &[#(#categories),*],
                namespaced: #namespaced,
                verbs: #root::custom::VERBS,
                subresources: &[],
                columns: &[],
            };
        }

        impl #root::custom::serde::Serialize for #name {
            fn serialize<S: #root::custom::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                #serialize
            }
        }

        impl<'de> #root::custom::serde::Deserialize<'de> for #name {
            fn deserialize<D: #root::custom::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let parts = <#parts as #root::custom::serde::Deserialize>::deserialize(deserializer)?;
                ::std::result::Result::Ok(#object)
            }
        }
    }
}

/// The CustomResourceDefinition parts of the attribute.
fn definition(input: &DeriveInput, resource: &ResourceAttribute) -> TokenStream {
    let (spec, root) = (&input.ident, &resource.root);
    let name = &resource.type_name;
    let ResourceAttribute { list_kind, is_stored, is_served, selectable, is_flat, .. } = resource;
    let status = match &resource.status {
        Some(status) => quote! { ::std::option::Option::Some(#root::custom::schema_of::<#status>) },
        None => quote! { ::std::option::Option::None },
    };
    let option = |text: &Option<String>| match text {
        Some(text) => quote! { ::std::option::Option::Some(#text) },
        None => quote! { ::std::option::Option::None },
    };
    let scale = match &resource.scale {
        Some(Scale { spec, status, selector }) => {
            let selector = option(selector);
            quote! { ::std::option::Option::Some(#root::custom::ScalePaths { spec: #spec, status: #status, selector: #selector }) }
        }
        None => quote! { ::std::option::Option::None },
    };
    let columns = resource.columns.iter().map(|column| {
        let ColumnAttribute { name, ty, path, format, description, priority } = column;
        let (format, description, priority) = (option(format), option(description), priority.unwrap_or(0));
        quote! {
            #root::custom::Column {
                name: #name, ty: #ty, path: #path, format: #format, description: #description, priority: #priority,
            }
        }
    });
    let rules = resource.rules.iter().map(|RuleAttribute { rule, message, message_expression, reason, field_path }| {
        let (message, expression) = (option(message), option(message_expression));
        let (reason, field_path) = (option(reason), option(field_path));
        quote! {
            #root::custom::Rule {
                rule: #rule, message: #message, message_expression: #expression, reason: #reason, field_path: #field_path,
            }
        }
    });
    let deprecated = option(&resource.deprecated);
    quote! {
        impl #root::custom::CustomResource for #name {
            const DETAILS: #root::custom::Details = #root::custom::Details {
                list_kind: #list_kind,
                is_stored: #is_stored,
                is_served: #is_served,
                deprecated: #deprecated,
                scale: #scale,
                columns: &[#(#columns),*],
                rules: &[#(#rules),*],
                is_flat: #is_flat,
                selectable: &[#(#selectable),*],
                spec: #root::custom::schema_of::<#spec>,
                status: #status,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(attribute: TokenStream) -> String {
        let input: DeriveInput = syn::parse2(quote! { #attribute struct FooSpec { size: i32 } }).unwrap();
        expand(&input).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (attribute, wanted) in [
            (quote! {}, "needs #[resource("),
            (quote! { #[resource(version = "v1", kind = "Foo")] }, "`group = \"…\"` is missing"),
            (quote! { #[resource(group = "example", version = "v1", kind = "Foo")] }, "DNS name with a dot"),
            (quote! { #[resource(group = "a.b", version = "1", kind = "Foo")] }, "a version is"),
            (quote! { #[resource(group = "a.b", version = "v1", kind = "foo")] }, "CamelCase"),
            (quote! { #[resource(group = "a.b", version = "v1", kind = "FooSpec")] }, "another name"),
            (
                quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", flat, apply)] },
                "a flat resource has no",
            ),
            (quote! { #[resource(group = "a.b", version = "v1", kind = "Self")] }, "name it with `struct"),
            (quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", struct = "FooSpec")] }, "another name"),
            (quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", colour = "red")] }, "no `colour`"),
            (quote! { #[resource(group = "a.b", group = "a.b")] }, "said twice"),
            (
                quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", selectable("spec"))] },
                "begins with a dot",
            ),
            (
                quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", scale(spec = ".a"))] },
                "needs the paths",
            ),
            (
                quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", column(name = "A", type = "int", path = ".a"))] },
                "one of the types",
            ),
        ] {
            let error = error(attribute.clone());
            assert!(error.contains(wanted), "{attribute}: {error}");
        }
        assert_eq!(
            error(quote! { #[resource(group = "a.b", version = "v1", kind = "Foo", short_names("f", "fo"))] }),
            ""
        );
    }

    #[test]
    fn a_kind_that_is_no_rust_name_has_a_struct_of_another_name() {
        let input: DeriveInput = syn::parse2(quote! {
            #[resource(group = "a.b", version = "v1", kind = "Self", struct = "SelfResource")]
            struct SelfSpec { size: i32 }
        })
        .unwrap();
        let code = expand(&input).unwrap().to_string();
        assert!(code.contains("struct SelfResource") && code.contains("kind : \"Self\""), "{code}");
        syn::parse_str::<syn::File>(&code).expect("it is Rust");
    }

    #[test]
    fn errors_point_at_the_part_that_is_wrong() {
        const GOOD: &str = r#"group = "a.b", version = "v1", kind = "Foo""#;
        let with = |more: &str| format!("#[resource({GOOD}, {more})] struct FooSpec {{ size: i32 }}");
        for (code, pointed_at) in [
            (with("colour = 1"), "colour"),
            (with(r#"plural = "Foos""#), r#""Foos""#),
            (with(r#"short_names("fo", "f_o")"#), r#""f_o""#),
            (with(r#"selectable("spec.a")"#), r#""spec.a""#),
            (with(r#"column(name = "A", type = "int", path = ".a")"#), r#""int""#),
            (with(r#"column(name = "A", width = 3)"#), "width"),
            (with(r#"column(name = "A", type = "date")"#), "column"),
            (with(r#"column(name = "A", type = "date", path = ".a", priority = "x")"#), r#""x""#),
            (with(r#"scale(spec = "a")"#), r#""a""#),
            (with(r#"scale(spec = ".a")"#), "scale"),
            (with(r#"rule(message = "m")"#), "rule"),
            (with(r#"rule(rule = "true", reason = "Bad")"#), r#""Bad""#),
            (with("namespaced, namespaced"), "namespaced"),
            (with(r#"status = "FooStatus""#), r#""FooStatus""#),
            (r#"#[resource(group = "a", version = "v1", kind = "Foo")] struct FooSpec {}"#.to_owned(), r#""a""#),
            (
                r#"#[resource(group = "a.b", version = "v1", kind = "FooSpec")] struct FooSpec {}"#.to_owned(),
                r#""FooSpec""#,
            ),
            (r#"#[resource(group = "a.b", kind = "Foo")] struct FooSpec {}"#.to_owned(), "#"),
            ("struct FooSpec {}".to_owned(), "FooSpec"),
            (format!("#[resource({GOOD})] enum FooSpec {{}}"), "FooSpec"),
            (format!("#[resource({GOOD})] struct FooSpec<T>(T);"), "<"),
        ] {
            let input: DeriveInput = syn::parse_str(&code).unwrap();
            let error = expand(&input).expect_err(&code);
            // An error in several tokens may point at the first one.
            let text = error.span().source_text().unwrap_or_default();
            assert!(text.starts_with(pointed_at), "{code}: {error} points at {text:?}");
        }
    }

    #[test]
    fn only_a_plain_struct_is_a_specification() {
        let input: DeriveInput = syn::parse2(quote! { enum Foo { A } }).unwrap();
        assert!(expand(&input).unwrap_err().to_string().contains("from the struct"));
        let input: DeriveInput = syn::parse2(quote! { struct Foo<T> { a: T } }).unwrap();
        assert!(expand(&input).unwrap_err().to_string().contains("type parameters"));
    }
}
