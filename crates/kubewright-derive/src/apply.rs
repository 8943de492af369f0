//! Generates builders for server-side apply: one setter for each field, under its name in JSON.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, Path, PathArguments, Result, Type};

use crate::serde_names::{Container, FieldNames};

/// The builder of a struct, for `#[derive(Apply)]` and `#[resource(apply)]`.
pub(crate) fn expand(input: &DeriveInput, root: &Path) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            _ => return Err(Error::new(input.ident.span(), "a builder needs a struct with named fields")),
        },
        _ => return Err(Error::new(input.ident.span(), "a builder is derived from a struct")),
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a type with a builder has no type parameters"));
    }
    let container = Container::of(input)?;
    let (name, visibility) = (&input.ident, &input.vis);
    let builder = builder_of(name);
    let setters = fields.iter().map(|field| setter(field, &container, root)).collect::<Result<Vec<_>>>()?;
    let doc = format!("Fields of [`{name}`] for server-side apply.");
    Ok(quote! {
        #root::custom::apply_part! {
            #[doc = #doc]
            #visibility #builder for #name {}
        }

        impl #builder {
            #(#setters)*
        }
    })
}

/// The name of the builder of a type.
pub(crate) fn builder_of(name: &Ident) -> Ident {
    format_ident!("{name}Apply")
}

fn setter(field: &Field, container: &Container, root: &Path) -> Result<TokenStream> {
    let (Some(ident), names) = (&field.ident, FieldNames::of(field)?) else { return Ok(TokenStream::new()) };
    if names.is_skipped {
        return Ok(TokenStream::new());
    }
    let ty = inside_option(&field.ty);
    let docs = field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let argument = if is_primitive(ty) {
        quote! { #ty }
    } else {
        quote! { impl ::std::convert::Into<#ty> }
    };
    let convert = if is_primitive(ty) {
        quote! {}
    } else {
        quote! { let value: #ty = value.into(); }
    };
    if names.is_flattened {
        return Ok(quote! {
            #(#docs)*
            pub fn #ident(self, value: #argument) -> Self {
                #convert
                #root::custom::set_flattened(self, &value)
            }
        });
    }
    let json = names.rename.unwrap_or_else(|| container.field(ident));
    if names.is_nested {
        return Ok(quote! {
            #(#docs)*
            ///
            /// The closure receives the fields that are already set.
            pub fn #ident(
                self,
                change: impl ::std::ops::FnOnce(<#ty as #root::custom::HasApply>::Apply)
                    -> <#ty as #root::custom::HasApply>::Apply,
            ) -> Self {
                #root::custom::setters::object(self, #json, change)
            }
        });
    }
    Ok(quote! {
        #(#docs)*
        pub fn #ident(self, value: #argument) -> Self {
            #convert
            #root::custom::set_field(self, #json, &value)
        }
    })
}

/// `T` of `Option<T>`: a field that is set is not absent.
fn inside_option(ty: &Type) -> &Type {
    let Type::Path(path) = ty else { return ty };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Option") else { return ty };
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(inner)) => inner,
            _ => ty,
        },
        _ => ty,
    }
}

/// Whether literals have to be inferred as this type, which `impl Into` prevents.
fn is_primitive(ty: &Type) -> bool {
    const PRIMITIVES: [&str; 13] =
        ["bool", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64"];
    let Type::Path(path) = ty else { return false };
    path.path.get_ident().is_some_and(|ident| PRIMITIVES.contains(&ident.to_string().as_str()))
}
