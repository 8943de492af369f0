//! The names that serde gives to fields in JSON.

use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Expr, Field, Ident, LitStr, Result, Token};

/// serde's attributes of a struct that rename its fields.
#[derive(Default)]
pub(crate) struct Container {
    rename_all: Option<String>,
}

/// The attributes of a field, serde's and ours.
#[derive(Default)]
pub(crate) struct FieldNames {
    pub(crate) rename: Option<String>,
    pub(crate) is_flattened: bool,
    /// Not serialised, or in a form that only the whole struct knows.
    pub(crate) is_skipped: bool,
    /// `#[resource(nested)]`: the type of the field has a builder.
    pub(crate) is_nested: bool,
}

impl Container {
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let mut container = Container::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename_all") {
                    container.rename_all = serialized_name(&meta)?;
                    return Ok(());
                }
                skip_value(&meta)
            })?;
        }
        Ok(container)
    }

    /// The name of a field without a name of its own.
    pub(crate) fn field(&self, ident: &Ident) -> String {
        let name = ident.to_string();
        let name = name.trim_start_matches("r#");
        let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        match self.rename_all.as_deref() {
            Some("camelCase") => {
                let rest = words.iter().skip(1).map(|word| capital(word));
                words.first().map(|word| (*word).to_owned()).into_iter().chain(rest).collect()
            }
            Some("PascalCase") => words.iter().map(|word| capital(word)).collect(),
            Some("SCREAMING_SNAKE_CASE" | "UPPERCASE") => name.to_uppercase(),
            Some("kebab-case") => name.replace('_', "-"),
            Some("SCREAMING-KEBAB-CASE") => name.to_uppercase().replace('_', "-"),
            _ => name.to_owned(),
        }
    }
}

impl FieldNames {
    pub(crate) fn of(field: &Field) -> Result<Self> {
        let mut names = FieldNames::default();
        for attribute in &field.attrs {
            if attribute.path().is_ident("serde") {
                attribute.parse_nested_meta(|meta| {
                    let is = |name: &str| meta.path.is_ident(name);
                    if is("rename") {
                        names.rename = serialized_name(&meta)?;
                        return Ok(());
                    }
                    names.is_flattened |= is("flatten");
                    names.is_skipped |= is("skip") || is("skip_serializing") || is("with") || is("serialize_with");
                    skip_value(&meta)
                })?;
            }
            if attribute.path().is_ident("resource") {
                attribute.parse_nested_meta(|meta| {
                    if meta.path.is_ident("nested") {
                        names.is_nested = true;
                        return Ok(());
                    }
                    Err(meta.error("a field has no such attribute; the only one is `nested`"))
                })?;
            }
        }
        Ok(names)
    }
}

/// The name in `rename = "…"` or `rename(serialize = "…", …)`.
fn serialized_name(meta: &ParseNestedMeta<'_>) -> Result<Option<String>> {
    if meta.input.peek(Token![=]) {
        return Ok(Some(meta.value()?.parse::<LitStr>()?.value()));
    }
    let mut name = None;
    meta.parse_nested_meta(|inner| {
        let value = inner.value()?.parse::<LitStr>()?.value();
        if inner.path.is_ident("serialize") {
            name = Some(value);
        }
        Ok(())
    })?;
    Ok(name)
}

/// Skips the value of an attribute that does not concern names.
fn skip_value(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let inner;
        syn::parenthesized!(inner in meta.input);
        inner.parse::<proc_macro2::TokenStream>()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn fields_have_the_names_that_serde_gives_them() {
        for (case, name) in [
            ("camelCase", "maxReplicaCount"),
            ("PascalCase", "MaxReplicaCount"),
            ("SCREAMING_SNAKE_CASE", "MAX_REPLICA_COUNT"),
            ("kebab-case", "max-replica-count"),
            ("snake_case", "max_replica_count"),
        ] {
            let input = syn::parse2(quote! {
                #[serde(default, rename_all = #case, bound(serialize = "T: Copy"))]
                struct A { max_replica_count: i32 }
            });
            let container = Container::of(&input.unwrap()).unwrap();
            assert_eq!(container.field(&quote::format_ident!("max_replica_count")), name);
        }
        let input: DeriveInput = syn::parse2(quote! {
            struct A {
                #[serde(default = "one", rename(serialize = "b", deserialize = "c"), skip_serializing_if = "Option::is_none")]
                a: Option<i32>,
            }
        })
        .unwrap();
        let syn::Data::Struct(data) = input.data else { panic!("it is a struct") };
        let names = FieldNames::of(data.fields.iter().next().unwrap()).unwrap();
        assert_eq!((names.rename.as_deref(), names.is_skipped), (Some("b"), false));
    }
}
