//! What is wrong with the rules of a schema.

use kubewright_core::Value as Tree;
use kubewright_core::meta::v1::StatusCause;

use super::extent::Measured;
use super::rule_costs::{Costs, Count};
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
        let mut checks = Checks { costs: Costs::default(), causes };
        checks.check(path, schema, &read, true, Place { uncorrelatable: None, count: Count::ONE });
        checks.costs.finish(path, causes);
    }
}

/// A walk through a schema, and what was found on it.
struct Checks<'a> {
    costs: Costs,
    causes: &'a mut Vec<StatusCause>,
}

/// What is known of a place by those above it.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The part of the schema from which on nothing can be recognized in an older object.
    uncorrelatable: Option<&'a str>,
    /// How many values there may be.
    count: Count,
}

/// What a rule is about.
struct Subject<'a> {
    schema: &'a Schema,
    ty: Option<Type>,
    measured: Option<Measured>,
    place: Place<'a>,
}

impl Checks<'_> {
    fn check(&mut self, path: &str, tree: &Tree, schema: &Schema, is_root: bool, place: Place<'_>) {
        let rules = tree::items(tree, &[FIELD]);
        if !rules.is_empty() {
            let (ty, measured) = (schema.cel_type(is_root), schema.measure(is_root));
            let subject = Subject { schema, ty, measured, place };
            for (index, rule) in rules.iter().enumerate() {
                self.check_rule(&format!("{path}.{FIELD}[{index}]"), rule, &subject);
            }
        }
        let count = place.count.of_parts(schema);
        let is_recognized = schema.list_type == ListType::Map;
        let of_items = Place { uncorrelatable: place.uncorrelatable.or((!is_recognized).then_some(path)), count };
        let of_fields = Place { uncorrelatable: place.uncorrelatable.or(schema.is_atomic.then_some(path)), count };
        for (name, part) in schema.properties.iter().filter(|(_, part)| part.has_rules) {
            if let Some(tree) = tree::get(tree, &["properties", name]) {
                self.check(&format!("{path}.properties[{name}]"), tree, part, false, of_fields);
            }
        }
        if let (Some(Additional::Schema(part)), Some(tree)) = (&schema.additional, tree.get("additionalProperties")) {
            self.check(&format!("{path}.additionalProperties"), tree, part, false, of_fields);
        }
        if let (Some(part), Some(tree)) = (&schema.items, tree.get("items")) {
            self.check(&format!("{path}.items"), tree, part, false, of_items);
        }
    }

    fn check_rule(&mut self, path: &str, rule: &Tree, subject: &Subject<'_>) {
        let before = self.causes.len();
        let text = |field: &str| tree::text(rule, &[field]);
        if text("rule").trim().is_empty() {
            return self.causes.push(StatusCause::required(format!("{path}.rule"), "rule is not specified"));
        }
        let is_blank = |field: &str| !text(field).is_empty() && text(field).trim().is_empty();
        if is_blank("message") {
            let shown = format!("{:?}", text("message"));
            self.causes.push(StatusCause::invalid(format!("{path}.message"), shown, "must be non-empty if specified"));
        }
        if is_blank("messageExpression") {
            let why = "messageExpression must be non-empty if specified";
            self.causes.push(StatusCause::required(format!("{path}.messageExpression"), why));
        }
        if text("message").contains('\n') {
            let shown = format!("{:?}", text("message"));
            self.causes.push(StatusCause::invalid(format!("{path}.message"), shown, "must not contain line breaks"));
        }
        if text("rule").contains('\n') && text("message").trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            self.causes.push(StatusCause::required(format!("{path}.message"), why));
        }
        let reason = text("reason");
        if !reason.is_empty() && !REASONS.contains(&reason) {
            let shown = format!("{reason:?}");
            self.causes.push(StatusCause::not_supported(format!("{path}.reason"), shown, &REASONS));
        }
        let place = text("fieldPath");
        if !place.is_empty() && !leads_somewhere(subject.schema, place) {
            let why = "must be a valid path";
            self.causes.push(StatusCause::invalid(format!("{path}.fieldPath"), format!("{place:?}"), why));
        }
        if self.causes.len() == before {
            self.check_programs(path, rule, subject);
        }
    }

    fn check_programs(&mut self, path: &str, rule: &Tree, subject: &Subject<'_>) {
        let Some(ty) = &subject.ty else {
            let why = "cel compile error: type of the schema has no place for rules";
            return self.causes.push(StatusCause::forbidden(path, why));
        };
        let has_optional_old = tree::is_true(rule, &["optionalOldSelf"]);
        let environment = environment(ty, has_optional_old);
        let field = format!("{path}.rule");
        match Program::compile(tree::text(rule, &["rule"]), &environment) {
            Err(error) => {
                let why = format!("compilation failed: {error}");
                self.causes.push(StatusCause::invalid(field, shown(rule), &why));
            }
            Ok(program) if !matches!(program.result, Type::Bool | Type::Dyn) => {
                let why = "cel expression must evaluate to a bool";
                self.causes.push(StatusCause::invalid(field, shown(rule), why));
            }
            Ok(program) => {
                if let Some(measured) = &subject.measured {
                    let cost = program.max_cost(&environment, &measured.extent);
                    let cost = subject.place.count.times(cost, measured);
                    self.costs.add(field.clone(), "estimated rule cost", cost, self.causes);
                }
                let is_transition = program.mentions("oldSelf");
                if let Some(place) = subject.place.uncorrelatable.filter(|_| is_transition) {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
                    let text = format!("{:?}", tree::text(rule, &["rule"]));
                    self.causes.push(StatusCause::invalid(field, text, &why));
                }
                if let Some(set) = rule.get("optionalOldSelf").filter(|_| !is_transition) {
                    let why = "may not be set if oldSelf is not used in rule";
                    self.causes.push(StatusCause::invalid(format!("{path}.optionalOldSelf"), set, why));
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
                self.causes.push(StatusCause::invalid(field, shown(rule), &why));
            }
            Ok(program) if !matches!(program.result, Type::String | Type::Dyn) => {
                let why = "messageExpression must evaluate to a string";
                self.causes.push(StatusCause::invalid(field, shown(rule), why));
            }
            Ok(program) => {
                let extent = subject.measured.as_ref().map(|measured| &measured.extent);
                let cost = extent.map_or(0, |extent| program.max_cost(&environment, extent));
                self.costs.add(field, "estimated messageExpression cost", cost, self.causes);
            }
        }
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
