//! Rules in CEL: what they are about, and which of them an object breaks.
//!
//! Rules are compiled with the schema they belong to. An object is turned once into values of CEL, and each rule sees the
//! part of it that it is written at. A rule that mentions `oldSelf` is about a change and is only asked where the part
//! can be recognized in the object that was there before.

use std::sync::Arc;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{CauseType, Map, Str, Value as Tree};

use super::path::Path;
use super::validation::{NO_FIELD, shown};
use super::{Additional, ListType, Schema, lists};
use crate::cel::{Budget, EvaluationError, Field, ListKind, Program, Type, Value, Variables, escape};
use crate::object::tree;

/// How long a message may be that a rule makes.
const MAX_MESSAGE: usize = 5 << 10;

/// A rule that is ready to be asked.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    text: Str,
    message: Str,
    message_expression: Option<Program>,
    reason: Option<CauseType>,
    /// Where a breach is shown, behind the path of the part.
    field_path: String,
    /// None if it cannot be read, which only rules can be that were accepted before.
    program: Option<Program>,
    is_transition: bool,
    has_optional_old: bool,
}

impl Rule {
    /// Reads a rule about values of a type.
    pub(super) fn read(rule: &Tree, ty: &Type) -> Rule {
        let text = |field: &str| Str::from(tree::text(rule, &[field]));
        let has_optional_old = tree::is_true(rule, &["optionalOldSelf"]);
        let environment = environment(ty, has_optional_old);
        let compile = |text: &str| Program::compile(text, &environment).ok();
        let program = compile(&text("rule"));
        Rule {
            message: text("message"),
            message_expression: Some(text("messageExpression"))
                .filter(|text| !text.is_empty())
                .and_then(|text| compile(&text)),
            reason: CauseType::from_name(&text("reason")),
            field_path: field_path(&text("fieldPath")).unwrap_or_default(),
            is_transition: program.as_ref().is_some_and(|program| program.mentions("oldSelf")),
            text: text("rule"),
            program,
            has_optional_old,
        }
    }

    /// What the rule says to whom breaks it.
    fn detail(&self, variables: &Variables<'_>, budget: &mut Budget) -> String {
        let made = self.message_expression.as_ref().and_then(|program| program.text(variables, budget).ok());
        let made = made.map(|text| text.trim().to_owned());
        match made.filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE) {
            Some(text) => text,
            None => self.message_or_rule(),
        }
    }

    fn message_or_rule(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.text.trim()),
            false => self.message.trim().to_owned(),
        }
    }

    fn message_or_text(&self) -> &str {
        if self.message.is_empty() { self.text.trim() } else { self.message.trim() }
    }

    fn cause(&self, path: String, value: &Tree, detail: &str) -> StatusCause {
        let path = match format!("{path}{}", self.field_path).trim_start_matches('.') {
            "" => NO_FIELD.to_owned(),
            path => path.to_owned(),
        };
        match self.reason {
            Some(CauseType::FieldValueForbidden) => StatusCause::forbidden(path, detail),
            Some(CauseType::FieldValueRequired) => StatusCause::required(path, detail),
            Some(CauseType::FieldValueDuplicate) => duplicate(path, value),
            _ => invalid(path, value, detail),
        }
    }
}

/// The variables of a rule about values of a type.
pub(super) fn environment(ty: &Type, has_optional_old: bool) -> [(&'static str, Type); 2] {
    let old = if has_optional_old { Type::optional(ty.clone()) } else { ty.clone() };
    [("self", ty.clone()), ("oldSelf", old)]
}

/// A path such as `.spec['a.b']` as messages write it, `None` if it is not one.
pub(super) fn field_path(path: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), path);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            out += &format!("[{name}]");
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            out += &rest[..=end];
            rest = &after[end..];
        }
    }
    Some(out)
}

/// Whether a path leads to a field of the schema.
pub(super) fn leads_somewhere(schema: &Schema, path: &str) -> bool {
    let Some(path) = field_path(path) else { return false };
    let names = path.split(['.', '[', ']']).filter(|name| !name.is_empty());
    let found = names.into_iter().try_fold(schema, |schema, name| schema.of_field(name));
    !path.is_empty() && found.is_some()
}

impl Schema {
    /// The type that rules see values of this schema as.
    pub(super) fn cel_type(&self, is_object: bool) -> Option<Type> {
        if self.int_or_string {
            return Some(Type::Dyn);
        }
        Some(match (&*self.ty, &*self.format) {
            ("boolean", _) => Type::Bool,
            ("integer", _) => Type::Int,
            ("number", _) => Type::Double,
            ("string", "byte") => Type::Bytes,
            ("string", "duration") => Type::Duration,
            ("string", "date" | "date-time") => Type::Timestamp,
            ("string", _) => Type::String,
            ("array", _) => {
                let kind = match self.list_type {
                    ListType::Atomic => ListKind::Plain,
                    ListType::Set => ListKind::Set,
                    ListType::Map => ListKind::Keyed(self.list_map_keys.iter().filter_map(|key| escape(key)).collect()),
                };
                Type::List(Arc::new(self.items.as_deref()?.cel_type(false)?), kind)
            }
            ("object", _) => match &self.additional {
                Some(Additional::Schema(values)) => Type::map(values.cel_type(false)?),
                Some(Additional::Any(true)) => Type::map(Type::Dyn),
                _ => Type::Object(Arc::new(self.fields(is_object || self.embedded_resource))),
            },
            _ => return None,
        })
    }

    fn fields(&self, is_object: bool) -> Map<Field> {
        let known = self.properties.iter().filter_map(|(name, schema)| {
            let field = Field { name: name.clone(), ty: schema.cel_type(false)? };
            Some((escape(name)?, field))
        });
        let mut fields: Map<Field> = known.collect();
        if is_object {
            let text = |name: &str| Field { name: name.into(), ty: Type::String };
            let metadata = ["name", "generateName"].map(|name| (name, text(name)));
            let metadata = Type::Object(Arc::new(metadata.into_iter().collect()));
            fields.insert("apiVersion", text("apiVersion"));
            fields.insert("kind", text("kind"));
            fields.insert("metadata", Field { name: "metadata".into(), ty: metadata });
        }
        fields
    }

    /// The rules that an object breaks. Those that parts break which are as they were before are `warnings`.
    pub(super) fn breaches(&self, object: &Tree, old: Option<&Tree>, warnings: &mut Vec<String>) -> Vec<StatusCause> {
        let mut walk = Walk::new("", true);
        walk.object(self, true, object, old);
        warnings.append(&mut walk.warnings);
        walk.causes
    }

    /// The rules that a default breaks, whose own path is `path`: as a value that stays, and as one that is new.
    pub(super) fn breaches_of_default(&self, path: &str, default: &Tree) -> Vec<StatusCause> {
        let mut walk = Walk::new(path, false);
        walk.object(self, self.embedded_resource, default, Some(default));
        if walk.causes.is_empty() {
            walk.object(self, self.embedded_resource, default, None);
        }
        walk.causes
    }
}

/// One walk through an object. Trees and values are two views of the same.
struct Walk<'a> {
    /// Where the walk begins.
    prefix: &'a str,
    /// Whether parts that are as they were before are only warned about.
    is_lenient: bool,
    budget: Budget,
    causes: Vec<StatusCause>,
    warnings: Vec<String>,
}

impl<'a> Walk<'a> {
    fn new(prefix: &'a str, is_lenient: bool) -> Self {
        Walk { prefix, is_lenient, budget: Budget::for_object(), causes: Vec::new(), warnings: Vec::new() }
    }

    fn object(&mut self, schema: &Schema, is_object: bool, object: &Tree, old: Option<&Tree>) {
        let Some(ty) = schema.cel_type(is_object).filter(|_| schema.has_rules) else { return };
        let value = Value::from_tree(object, &ty);
        let before = old.map(|old| Value::from_tree(old, &ty));
        self.value(schema, &Path::Root, (object, &value), old.zip(before.as_ref()), false);
    }

    /// Asks the rules about a part, and those about its parts. `is_kept` says that what it is in is as it was before: in
    /// a list without keys nothing else is known of an item.
    fn value(
        &mut self,
        schema: &Schema,
        path: &Path<'_>,
        now: (&Tree, &Value),
        old: Option<(&Tree, &Value)>,
        is_kept: bool,
    ) {
        if !schema.has_rules || now.0.is_null() {
            return;
        }
        // The object itself always changes: who wrote it, and when, is in its metadata.
        let may_be_kept = self.is_lenient && !matches!(path, Path::Root);
        let is_kept = is_kept || (may_be_kept && old.is_some_and(|(before, _)| before == now.0));
        for rule in &schema.rules {
            if self.budget.is_exhausted() {
                return;
            }
            self.ask(schema, rule, path, now, old.map(|(_, value)| value), is_kept);
        }
        match now.0 {
            Tree::Object(fields) => {
                let old = old.filter(|_| !schema.is_atomic);
                for (name, field) in fields.iter() {
                    let Some(part) = schema.of_field(name).filter(|part| part.has_rules) else { continue };
                    let before = old.and_then(|(before, value)| Some((before.get(name)?, child(schema, value, name)?)));
                    if let Some(value) = child(schema, now.1, name) {
                        self.value(part, &path.field(name), (field, value), before, is_kept);
                    }
                }
            }
            Tree::Array(list) => self.list(schema, path, (list, now.1), old, is_kept),
            _ => {}
        }
    }

    fn list(
        &mut self,
        schema: &Schema,
        path: &Path<'_>,
        (list, value): (&[Tree], &Value),
        old: Option<(&Tree, &Value)>,
        is_kept: bool,
    ) {
        let (Some(items), Value::List(values, _)) = (schema.items.as_deref(), value) else { return };
        if !items.has_rules {
            return;
        }
        let before = lists::Index::new(schema, old.map(|(before, _)| before));
        for (index, (item, value)) in list.iter().zip(values.iter()).enumerate() {
            let before = before.find(schema, item).and_then(|(at, item)| match old {
                Some((_, Value::List(values, _))) => Some((item, values.get(at)?)),
                _ => None,
            });
            self.value(items, &path.item(index), (item, value), before, is_kept);
        }
    }

    fn ask(
        &mut self,
        schema: &Schema,
        rule: &Rule,
        path: &Path<'_>,
        (tree, value): (&Tree, &Value),
        old: Option<&Value>,
        is_kept: bool,
    ) {
        let Some(program) = &rule.program else { return };
        let mut variables = Variables::default();
        variables.set("self", value.clone());
        match old {
            _ if !rule.is_transition => {}
            old if rule.has_optional_old => variables.set("oldSelf", Value::optional(old.cloned())),
            Some(old) => variables.set("oldSelf", old.clone()),
            None => return,
        }
        match program.is_true(&variables, &mut self.budget) {
            Ok(true) => {}
            Ok(false) => {
                let detail = rule.detail(&variables, &mut self.budget);
                let cause = rule.cause(self.field(path), tree, &detail);
                // What was there already may stay; only a change of it would be refused.
                match is_kept && !rule.is_transition {
                    true => self.warnings.push(in_words(&cause)),
                    false => self.causes.push(cause),
                }
            }
            Err(error) => self.complain(schema, rule, path, &error),
        }
    }

    fn field(&self, path: &Path<'_>) -> String {
        path.below(self.prefix)
    }

    /// Says why a rule has no answer. The value is not shown, only its type.
    fn complain(&mut self, schema: &Schema, rule: &Rule, path: &Path<'_>, error: &EvaluationError) {
        let what = rule.message_or_text();
        let detail = match error {
            EvaluationError::OutOfBudget if self.budget.is_exhausted() => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
            EvaluationError::OutOfBudget => {
                self.budget.exhaust();
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {what}"
                )
            }
            EvaluationError::Failed(message) if message.starts_with("no such overload") => {
                let why = "call arguments did not match a supported operator, function or macro signature";
                format!("'{error}': {why} for rule: {what}")
            }
            EvaluationError::Failed(_) => format!("{error} evaluating rule: {what}"),
        };
        self.causes.push(StatusCause::invalid(self.field(path), format!("{:?}", &*schema.ty), &detail));
    }
}

/// A field of a value: objects know their fields by escaped names, maps by plain ones.
fn child<'a>(schema: &Schema, value: &'a Value, name: &str) -> Option<&'a Value> {
    match schema.properties.contains_key(name) {
        true => value.field(&escape(name)?),
        false => value.field(name),
    }
}

/// A value that is not as it should be; what has parts is not shown.
fn invalid(path: String, value: &Tree, detail: &str) -> StatusCause {
    match value {
        Tree::Object(_) | Tree::Array(_) => {
            unshown(CauseType::FieldValueInvalid, path, format!("Invalid value: {detail}"))
        }
        value => StatusCause::invalid(path, shown(value), detail),
    }
}

/// A value that is there already; what has parts is not shown.
fn duplicate(path: String, value: &Tree) -> StatusCause {
    match value {
        Tree::Object(_) | Tree::Array(_) => unshown(CauseType::FieldValueDuplicate, path, "Duplicate value".to_owned()),
        value => StatusCause::duplicate(path, shown(value)),
    }
}

/// A cause as a warning tells it.
fn in_words(cause: &StatusCause) -> String {
    let text = |part: &Option<Str>| part.clone().unwrap_or_default();
    format!("{}: {}", text(&cause.field), text(&cause.message))
}

fn unshown(cause: CauseType, path: String, message: String) -> StatusCause {
    let mut cause = StatusCause::of(cause, message);
    cause.field = Some(path.into());
    cause
}
