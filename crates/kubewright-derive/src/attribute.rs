//! Parses `#[resource(…)]`, with errors at the wrong part.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, DeriveInput, Error, Ident, LitInt, LitStr, Path, Result, Type};

use crate::{names, root};

/// The parsed attribute.
pub(crate) struct ResourceAttribute {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: LitStr,
    /// The generated struct: the kind, unless another name is given.
    pub(crate) type_name: Ident,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    /// Whether the struct has the fields beside the metadata, instead of those of the spec.
    pub(crate) is_flat: bool,
    pub(crate) status: Option<Type>,
    pub(crate) scale: Option<Scale>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) selectable: Vec<String>,
    pub(crate) columns: Vec<ColumnAttribute>,
    pub(crate) rules: Vec<RuleAttribute>,
    pub(crate) derives: Vec<Path>,
    pub(crate) has_builder: bool,
    pub(crate) is_stored: bool,
    pub(crate) is_served: bool,
    pub(crate) deprecated: Option<String>,
    pub(crate) root: Path,
}

pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

#[derive(Default)]
pub(crate) struct ColumnAttribute {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) path: String,
    pub(crate) format: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) priority: Option<i32>,
}

#[derive(Default)]
pub(crate) struct RuleAttribute {
    pub(crate) rule: String,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) field_path: Option<String>,
}

/// The parts parsed so far.
#[derive(Default)]
struct AttributeParts {
    group: Option<String>,
    version: Option<String>,
    kind: Option<LitStr>,
    type_name: Option<LitStr>,
    plural: Option<String>,
    singular: Option<String>,
    list_kind: Option<String>,
    namespaced: bool,
    flat: bool,
    status: Option<Type>,
    scale: Option<Scale>,
    short_names: Vec<String>,
    categories: Vec<String>,
    selectable: Vec<String>,
    columns: Vec<ColumnAttribute>,
    rules: Vec<RuleAttribute>,
    derives: Vec<Path>,
    apply: bool,
    not_stored: bool,
    not_served: bool,
    deprecated: Option<String>,
    root: Option<Path>,
}

impl ResourceAttribute {
    /// Group and version, as objects have them.
    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let mut parts = AttributeParts::default();
        let attributes: Vec<&Attribute> =
            input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource")).collect();
        let Some(first) = attributes.first() else {
            let help = "a custom resource needs #[resource(group = \"…\", version = \"…\", kind = \"…\")]";
            return Err(Error::new(input.ident.span(), help));
        };
        for attribute in &attributes {
            attribute.parse_nested_meta(|meta| parts.read(&meta))?;
        }
        let missing = |what: &str| Error::new_spanned(first, format!("`{what} = \"…\"` is missing"));
        let kind = parts.kind.ok_or_else(|| missing("kind"))?;
        let name = kind.value();
        let literal = parts.type_name.as_ref().unwrap_or(&kind);
        if input.ident == literal.value() {
            return Err(Error::new(
                literal.span(),
                "the kind has to have another name than the struct of its specification",
            ));
        }
        let type_name = type_name(literal)?;
        if parts.flat && (parts.status.is_some() || parts.scale.is_some() || parts.apply) {
            return Err(Error::new_spanned(first, "a flat resource has no `status`, `scale` and `apply`"));
        }
        Ok(ResourceAttribute {
            group: parts.group.ok_or_else(|| missing("group"))?,
            version: parts.version.ok_or_else(|| missing("version"))?,
            plural: parts.plural.unwrap_or_else(|| names::plural_of(&name)),
            singular: parts.singular.unwrap_or_else(|| name.to_ascii_lowercase()),
            list_kind: parts.list_kind.unwrap_or_else(|| format!("{name}List")),
            kind,
            type_name,
            namespaced: parts.namespaced,
            is_flat: parts.flat,
            status: parts.status,
            scale: parts.scale,
            short_names: parts.short_names,
            categories: parts.categories,
            selectable: parts.selectable,
            columns: parts.columns,
            rules: parts.rules,
            derives: parts.derives,
            has_builder: parts.apply,
            is_stored: !parts.not_stored,
            is_served: !parts.not_served,
            deprecated: parts.deprecated,
            root: parts.root.unwrap_or_else(root::of_this_crate),
        })
    }
}

impl AttributeParts {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(key) = meta.path.get_ident().map(Ident::to_string) else {
            return Err(meta.error("expected a name such as `group`"));
        };
        match key.as_str() {
            "group" => once(meta, &mut self.group, checked(meta, names::group_problem)?),
            "version" => once(meta, &mut self.version, checked(meta, names::version_problem)?),
            "kind" => {
                let kind: LitStr = meta.value()?.parse()?;
                check(&kind, names::kind_problem)?;
                once(meta, &mut self.kind, kind)
            }
            "struct" => {
                let name: LitStr = meta.value()?.parse()?;
                once(meta, &mut self.type_name, name)
            }
            "plural" => once(meta, &mut self.plural, checked(meta, names::label_problem)?),
            "singular" => once(meta, &mut self.singular, checked(meta, names::label_problem)?),
            "list_kind" => once(meta, &mut self.list_kind, checked(meta, names::kind_problem)?),
            "namespaced" => flag(meta, &mut self.namespaced),
            "flat" => flag(meta, &mut self.flat),
            "apply" => flag(meta, &mut self.apply),
            "not_stored" => flag(meta, &mut self.not_stored),
            "not_served" => flag(meta, &mut self.not_served),
            "deprecated" => once(meta, &mut self.deprecated, text(meta)?),
            "status" => once(meta, &mut self.status, meta.value()?.parse()?),
            "crate" => once(meta, &mut self.root, meta.value()?.call(Path::parse_mod_style)?),
            "scale" => {
                let scale = scale(meta)?;
                once(meta, &mut self.scale, scale)
            }
            "short_names" => texts(meta, &mut self.short_names, names::label_problem),
            "categories" => texts(meta, &mut self.categories, names::label_problem),
            "selectable" => texts(meta, &mut self.selectable, names::path_problem),
            "column" => {
                self.columns.push(column(meta)?);
                Ok(())
            }
            "rule" => {
                self.rules.push(rule(meta)?);
                Ok(())
            }
            "derive" => meta.parse_nested_meta(|inner| {
                self.derives.push(inner.path.clone());
                Ok(())
            }),
            other => Err(meta.error(format!("a resource has no `{other}`"))),
        }
    }
}

fn scale(meta: &ParseNestedMeta<'_>) -> Result<Scale> {
    let (mut spec, mut status, mut selector) = (None, None, None);
    meta.parse_nested_meta(|inner| match ident(&inner).as_str() {
        "spec" => once(&inner, &mut spec, checked(&inner, names::path_problem)?),
        "status" => once(&inner, &mut status, checked(&inner, names::path_problem)?),
        "selector" => once(&inner, &mut selector, checked(&inner, names::path_problem)?),
        other => Err(inner.error(format!("a scale has no `{other}`"))),
    })?;
    let (Some(spec), Some(status)) = (spec, status) else {
        return Err(meta.error("a scale needs the paths `spec` and `status`"));
    };
    Ok(Scale { spec, status, selector })
}

fn column(meta: &ParseNestedMeta<'_>) -> Result<ColumnAttribute> {
    const TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];
    let mut column = ColumnAttribute::default();
    meta.parse_nested_meta(|inner| {
        match ident(&inner).as_str() {
            "name" => column.name = text(&inner)?,
            "type" => {
                let ty: LitStr = inner.value()?.parse()?;
                if !TYPES.contains(&ty.value().as_str()) {
                    return Err(Error::new(ty.span(), format!("a column is of one of the types {}", TYPES.join(", "))));
                }
                column.ty = ty.value();
            }
            "path" => column.path = checked(&inner, names::path_problem)?,
            "format" => column.format = Some(text(&inner)?),
            "description" => column.description = Some(text(&inner)?),
            "priority" => column.priority = Some(inner.value()?.parse::<LitInt>()?.base10_parse()?),
            other => return Err(inner.error(format!("a column has no `{other}`"))),
        }
        Ok(())
    })?;
    if column.name.is_empty() || column.ty.is_empty() || column.path.is_empty() {
        Err(meta.error("a column needs `name`, `type` and `path`"))
    } else {
        Ok(column)
    }
}

fn rule(meta: &ParseNestedMeta<'_>) -> Result<RuleAttribute> {
    const REASONS: [&str; 4] =
        ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
    let (mut rule, mut rest) = (None, RuleAttribute::default());
    meta.parse_nested_meta(|inner| match ident(&inner).as_str() {
        "rule" => once(&inner, &mut rule, text(&inner)?),
        "message" => once(&inner, &mut rest.message, text(&inner)?),
        "message_expression" => once(&inner, &mut rest.message_expression, text(&inner)?),
        "reason" => {
            let reason: LitStr = inner.value()?.parse()?;
            if !REASONS.contains(&reason.value().as_str()) {
                return Err(Error::new(reason.span(), format!("a reason is one of {}", REASONS.join(", "))));
            }
            once(&inner, &mut rest.reason, reason.value())
        }
        "field_path" => once(&inner, &mut rest.field_path, checked(&inner, names::path_problem)?),
        other => Err(inner.error(format!("a rule has no `{other}`"))),
    })?;
    Ok(RuleAttribute { rule: rule.ok_or_else(|| meta.error("a rule needs `rule`"))?, ..rest })
}

fn ident(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(Ident::to_string).unwrap_or_default()
}

fn once<T>(meta: &ParseNestedMeta<'_>, place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        Some(_) => Err(meta.error("this is said twice")),
        None => Ok(()),
    }
}

fn flag(meta: &ParseNestedMeta<'_>, place: &mut bool) -> Result<()> {
    if std::mem::replace(place, true) { Err(meta.error("this is said twice")) } else { Ok(()) }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

fn checked(meta: &ParseNestedMeta<'_>, problem: fn(&str) -> Option<&'static str>) -> Result<String> {
    let literal: LitStr = meta.value()?.parse()?;
    check(&literal, problem)?;
    Ok(literal.value())
}

fn check(literal: &LitStr, problem: fn(&str) -> Option<&'static str>) -> Result<()> {
    problem(&literal.value()).map_or(Ok(()), |problem| Err(Error::new(literal.span(), problem)))
}

/// A list of strings in parentheses: `short_names("fo", "foo")`.
fn texts(meta: &ParseNestedMeta<'_>, place: &mut Vec<String>, problem: fn(&str) -> Option<&'static str>) -> Result<()> {
    let inner;
    syn::parenthesized!(inner in meta.input);
    for literal in inner.parse_terminated(|input| input.parse::<LitStr>(), syn::Token![,])? {
        check(&literal, problem)?;
        place.push(literal.value());
    }
    Ok(())
}

/// The name of the struct, with the span of the literal that names it.
fn type_name(literal: &LitStr) -> Result<Ident> {
    match syn::parse_str::<Ident>(&literal.value()) {
        Ok(name) => Ok(Ident::new(&name.to_string(), Span::call_site().located_at(literal.span()))),
        Err(_) => Err(Error::new(
            literal.span(),
            format!("Rust has no struct named {:?}; name it with `struct = \"…\"`", literal.value()),
        )),
    }
}
