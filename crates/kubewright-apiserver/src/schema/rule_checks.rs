//! What is wrong with the rules of a schema.

use kubewright_core::Value as Tree;
use kubewright_core::meta::v1::StatusCause;

use super::rules::{environment, leads_somewhere};
use super::{Additional, ListType, Schema};
use crate::cel::{Program, Type};
use crate::object::tree;

const FIELD: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Complains about rules that cannot be read, or have no place where they are.
pub(super) fn complaints(path: &str, schema: &Tree, causes: &mut Vec<StatusCause>) {
    let read = Schema::read(schema);
    if read.has_rules {
        check(path, schema, &read, true, None, causes);
    }
}

fn check(
    path: &str,
    tree: &Tree,
    schema: &Schema,
    is_root: bool,
    uncorrelatable: Option<&str>,
    causes: &mut Vec<StatusCause>,
) {
    let ty = schema.cel_type(is_root);
    for (index, rule) in tree::items(tree, &[FIELD]).iter().enumerate() {
        let path = format!("{path}.{FIELD}[{index}]");
        check_rule(&path, rule, schema, ty.as_ref(), uncorrelatable, causes);
    }
    let of_items = uncorrelatable.or_else(|| (schema.list_type != ListType::Map).then_some(path));
    let uncorrelatable = uncorrelatable.or_else(|| schema.is_atomic.then_some(path));
    for (name, part) in schema.properties.iter().filter(|(_, part)| part.has_rules) {
        if let Some(tree) = tree::get(tree, &["properties", name]) {
            check(&format!("{path}.properties[{name}]"), tree, part, false, uncorrelatable, causes);
        }
    }
    if let (Some(Additional::Schema(part)), Some(tree)) = (&schema.additional, tree.get("additionalProperties")) {
        check(&format!("{path}.additionalProperties"), tree, part, false, uncorrelatable, causes);
    }
    if let (Some(part), Some(tree)) = (&schema.items, tree.get("items")) {
        check(&format!("{path}.items"), tree, part, false, of_items, causes);
    }
}

fn check_rule(
    path: &str,
    rule: &Tree,
    schema: &Schema,
    ty: Option<&Type>,
    uncorrelatable: Option<&str>,
    causes: &mut Vec<StatusCause>,
) {
    let before = causes.len();
    let text = |field: &str| tree::text(rule, &[field]);
    if text("rule").trim().is_empty() {
        return causes.push(StatusCause::required(format!("{path}.rule"), "rule is not specified"));
    }
    let is_blank = |field: &str| !text(field).is_empty() && text(field).trim().is_empty();
    if is_blank("message") {
        let shown = format!("{:?}", text("message"));
        causes.push(StatusCause::invalid(format!("{path}.message"), shown, "must be non-empty if specified"));
    }
    if is_blank("messageExpression") {
        let why = "messageExpression must be non-empty if specified";
        causes.push(StatusCause::required(format!("{path}.messageExpression"), why));
    }
    if text("message").contains('\n') {
        let shown = format!("{:?}", text("message"));
        causes.push(StatusCause::invalid(format!("{path}.message"), shown, "must not contain line breaks"));
    }
    if text("rule").contains('\n') && text("message").trim().is_empty() {
        let why = "message must be specified if rule contains line breaks";
        causes.push(StatusCause::required(format!("{path}.message"), why));
    }
    let reason = text("reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        causes.push(StatusCause::not_supported(format!("{path}.reason"), format!("{reason:?}"), &REASONS));
    }
    let place = text("fieldPath");
    if !place.is_empty() && !leads_somewhere(schema, place) {
        let why = "must be a valid path";
        causes.push(StatusCause::invalid(format!("{path}.fieldPath"), format!("{place:?}"), why));
    }
    if causes.len() == before {
        check_programs(path, rule, ty, uncorrelatable, causes);
    }
}

fn check_programs(
    path: &str,
    rule: &Tree,
    ty: Option<&Type>,
    uncorrelatable: Option<&str>,
    causes: &mut Vec<StatusCause>,
) {
    let Some(ty) = ty else {
        let why = "cel compile error: type of the schema has no place for rules";
        return causes.push(StatusCause::forbidden(path, why));
    };
    let has_optional_old = tree::is_true(rule, &["optionalOldSelf"]);
    let environment = environment(ty, has_optional_old);
    match Program::compile(tree::text(rule, &["rule"]), &environment) {
        Err(error) => {
            causes.push(StatusCause::invalid(
                format!("{path}.rule"),
                shown(rule),
                &format!("compilation failed: {error}"),
            ));
        }
        Ok(program) if !matches!(program.result, Type::Bool | Type::Dyn) => {
            let why = "cel expression must evaluate to a bool";
            causes.push(StatusCause::invalid(format!("{path}.rule"), shown(rule), why));
        }
        Ok(program) => {
            let is_transition = program.mentions("oldSelf");
            if let Some(place) = uncorrelatable.filter(|_| is_transition) {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
                let text = format!("{:?}", tree::text(rule, &["rule"]));
                causes.push(StatusCause::invalid(format!("{path}.rule"), text, &why));
            }
            if let Some(set) = rule.get("optionalOldSelf").filter(|_| !is_transition) {
                let why = "may not be set if oldSelf is not used in rule";
                causes.push(StatusCause::invalid(format!("{path}.optionalOldSelf"), set, why));
            }
        }
    }
    let message = tree::text(rule, &["messageExpression"]);
    if message.is_empty() {
        return;
    }
    let field = format!("{path}.messageExpression");
    match Program::compile(message, &environment) {
        Err(error) => {
            let why = format!("messageExpression compilation failed: {error}");
            causes.push(StatusCause::invalid(field, shown(rule), &why));
        }
        Ok(program) if !matches!(program.result, Type::String | Type::Dyn) => {
            causes.push(StatusCause::invalid(field, shown(rule), "messageExpression must evaluate to a string"));
        }
        Ok(_) => {}
    }
}

/// A rule as the real server shows it, with the names of its own fields.
fn shown(rule: &Tree) -> String {
    let text = |field: &str| tree::text(rule, &[field]).into();
    let or_null = |field: &str| rule.get(field).cloned().unwrap_or_default();
    let fields = [
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", or_null("reason")),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", or_null("optionalOldSelf")),
    ];
    let fields = fields.map(|(name, value): (&str, Tree)| format!("{name:?}:{value}"));
    // Go writes these letters so that they are safe in pages.
    let text = format!("{{{}}}", fields.join(","));
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
