//! What is wrong with the rules of a schema.

use kubewright_core::Value as Tree;
use kubewright_core::meta::v1::StatusCause;

use super::rules::{environment, field_path, leads_somewhere};
use super::{Additional, ListType, Schema};
use crate::cel::{Program, Type};
use crate::object::tree;

const FIELD: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate"];
const MAX_MESSAGE: usize = 2048;

/// Complains about rules that cannot be read, or have no place where they are.
pub(super) fn complaints(path: &str, schema: &Tree, causes: &mut Vec<StatusCause>) {
    let read = Schema::read(schema);
    if read.has_rules {
        check(path, schema, &read, true, true, causes);
    }
}

fn check(
    path: &str,
    tree: &Tree,
    schema: &Schema,
    is_root: bool,
    is_correlatable: bool,
    causes: &mut Vec<StatusCause>,
) {
    let ty = schema.cel_type(is_root);
    for (index, rule) in tree::items(tree, &[FIELD]).iter().enumerate() {
        let path = format!("{path}.{FIELD}[{index}]");
        check_rule(&path, rule, schema, ty.as_ref(), is_correlatable, causes);
    }
    for (name, part) in schema.properties.iter().filter(|(_, part)| part.has_rules) {
        if let Some(tree) = tree::get(tree, &["properties", name]) {
            check(&format!("{path}.properties[{name}]"), tree, part, false, is_correlatable, causes);
        }
    }
    if let (Some(Additional::Schema(part)), Some(tree)) = (&schema.additional, tree.get("additionalProperties")) {
        check(&format!("{path}.additionalProperties"), tree, part, false, is_correlatable, causes);
    }
    if let (Some(part), Some(tree)) = (&schema.items, tree.get("items")) {
        let is_correlatable = is_correlatable && schema.list_type == ListType::Map;
        check(&format!("{path}.items"), tree, part, false, is_correlatable, causes);
    }
}

fn check_rule(
    path: &str,
    rule: &Tree,
    schema: &Schema,
    ty: Option<&Type>,
    is_correlatable: bool,
    causes: &mut Vec<StatusCause>,
) {
    let text = |field: &str| tree::text(rule, &[field]);
    if text("rule").trim().is_empty() {
        return causes.push(StatusCause::required(format!("{path}.rule"), "rule is not specified"));
    }
    for field in ["message", "messageExpression"] {
        let is_there = rule.get(field).is_some();
        if is_there && !text(field).is_empty() && text(field).trim().is_empty() {
            causes.push(StatusCause::invalid(
                format!("{path}.{field}"),
                format!("{:?}", text(field)),
                "must be non-empty if specified",
            ));
        }
    }
    if text("message").contains('\n') {
        let shown = format!("{:?}", text("message"));
        causes.push(StatusCause::invalid(format!("{path}.message"), shown, "message must not contain line breaks"));
    }
    if text("message").len() > MAX_MESSAGE {
        causes.push(StatusCause::too_long(format!("{path}.message"), MAX_MESSAGE));
    }
    if text("rule").contains('\n') && text("message").is_empty() && text("messageExpression").is_empty() {
        let why = "message must be specified if rule contains line breaks";
        causes.push(StatusCause::required(format!("{path}.message"), why));
    }
    let reason = text("reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        causes.push(StatusCause::not_supported(format!("{path}.reason"), format!("{reason:?}"), &REASONS));
    }
    let place = text("fieldPath");
    if !place.is_empty() && !leads_somewhere(schema, place) {
        let why = match field_path(place) {
            None => "invalid fieldPath: expected [ or . but got something else",
            Some(_) => "fieldPath must be a valid path: does not refer to a valid field",
        };
        causes.push(StatusCause::invalid(format!("{path}.fieldPath"), format!("{place:?}"), why));
    }
    check_programs(path, rule, ty, is_correlatable, causes);
}

fn check_programs(path: &str, rule: &Tree, ty: Option<&Type>, is_correlatable: bool, causes: &mut Vec<StatusCause>) {
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
            if is_transition && !is_correlatable {
                let why = "oldSelf cannot be used on the uncorrelatable portion of the schema";
                causes.push(StatusCause::invalid(format!("{path}.rule"), shown(rule), why));
            }
            if has_optional_old && !is_transition {
                let why = "may not be set if oldSelf is not used in rule";
                causes.push(StatusCause::invalid(format!("{path}.optionalOldSelf"), "true", why));
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
    format!("{{{}}}", fields.join(","))
}
