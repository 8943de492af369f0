//! Validation of CEL rules in a schema: required fields, compilation and cost.

use kubewright_cel::Type;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use crate::rule::{environment, parse_field_path};
use crate::rule_cost::{Cardinality, RuleCosts};
use crate::schema::{AdditionalProperties, ListType, Schema};
use crate::size_limits::ValueSize;

const FIELD: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Validates all rules of a schema.
pub(crate) fn check(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    let parsed = Schema::parse(schema);
    if parsed.has_rules {
        let mut checker = RuleChecker { costs: RuleCosts::default(), causes };
        checker.check(
            path,
            schema,
            &parsed,
            true,
            InheritedContext { uncorrelatable: None, cardinality: Cardinality::ONE },
        );
        checker.costs.finish(path, causes);
    }
}

/// One walk through a schema.
struct RuleChecker<'a> {
    costs: RuleCosts,
    causes: &'a mut Vec<StatusCause>,
}

/// The context that a schema inherits from those above it.
#[derive(Clone, Copy)]
struct InheritedContext<'a> {
    /// The path of the innermost schema whose parts cannot be correlated with the old object.
    uncorrelatable: Option<&'a str>,
    cardinality: Cardinality,
}

/// The schema that a rule belongs to.
struct RuleSchema<'a> {
    schema: &'a Schema,
    ty: Option<Type>,
    size: Option<ValueSize>,
    context: InheritedContext<'a>,
}

impl RuleChecker<'_> {
    fn check(&mut self, path: &str, json: &Value, schema: &Schema, is_root: bool, context: InheritedContext<'_>) {
        let rules = tree::items(json, &[FIELD]);
        if !rules.is_empty() {
            let (ty, size) = (schema.cel_type(is_root), schema.value_size(is_root));
            let subject = RuleSchema { schema, ty, size, context };
            for (index, rule) in rules.iter().enumerate() {
                self.check_rule(&format!("{path}.{FIELD}[{index}]"), rule, &subject);
            }
        }
        let cardinality = context.cardinality.of_children(schema);
        let inner = |is_uncorrelatable: bool| {
            let uncorrelatable = context.uncorrelatable.or(is_uncorrelatable.then_some(path));
            InheritedContext { uncorrelatable, cardinality }
        };
        let of_items = inner(schema.list_type != ListType::Map);
        let of_fields = inner(schema.is_atomic);
        for (name, part) in schema.properties.iter().filter(|(_, part)| part.has_rules) {
            if let Some(json) = tree::get(json, &["properties", name]) {
                self.check(&format!("{path}.properties[{name}]"), json, part, false, of_fields);
            }
        }
        if let (Some(AdditionalProperties::Schema(part)), Some(json)) =
            (&schema.additional, json.get("additionalProperties"))
        {
            self.check(&format!("{path}.additionalProperties"), json, part, false, of_fields);
        }
        if let (Some(part), Some(json)) = (&schema.items, json.get("items")) {
            self.check(&format!("{path}.items"), json, part, false, of_items);
        }
    }

    fn check_rule(&mut self, path: &str, rule: &Value, subject: &RuleSchema<'_>) {
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
        let field_path = text("fieldPath");
        if !field_path.is_empty() && !is_path_of(subject.schema, field_path) {
            let why = "must be a valid path";
            self.causes.push(StatusCause::invalid(format!("{path}.fieldPath"), format!("{field_path:?}"), why));
        }
        if self.causes.len() == before {
            self.check_programs(path, rule, subject);
        }
    }

    fn check_programs(&mut self, path: &str, rule: &Value, subject: &RuleSchema<'_>) {
        let Some(ty) = &subject.ty else {
            let why = "cel compile error: type of the schema has no place for rules";
            return self.causes.push(StatusCause::forbidden(path, why));
        };
        let has_optional_old = tree::is_true(rule, &["optionalOldSelf"]);
        let environment = environment(ty, has_optional_old);
        let field = format!("{path}.rule");
        match environment.compile(tree::text(rule, &["rule"])) {
            Err(error) => {
                let why = format!("compilation failed: {error}");
                self.causes.push(StatusCause::invalid(field, display_rule(rule), &why));
            }
            Ok(program) if !matches!(program.result_type(), Type::Bool | Type::Dyn) => {
                let why = "cel expression must evaluate to a bool";
                self.causes.push(StatusCause::invalid(field, display_rule(rule), why));
            }
            Ok(program) => {
                if let Some(size) = &subject.size {
                    let cost = environment.max_cost(&program, &size.limits);
                    let cost = subject.context.cardinality.times(cost, size);
                    self.costs.add(field.clone(), "estimated rule cost", cost, self.causes);
                }
                let is_transition = program.references("oldSelf");
                if let Some(place) = subject.context.uncorrelatable.filter(|_| is_transition) {
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
        match environment.compile(message) {
            Err(error) => {
                let why = format!("messageExpression compilation failed: {error}");
                self.causes.push(StatusCause::invalid(field, display_rule(rule), &why));
            }
            Ok(program) if !matches!(program.result_type(), Type::String | Type::Dyn) => {
                let why = "messageExpression must evaluate to a string";
                self.causes.push(StatusCause::invalid(field, display_rule(rule), why));
            }
            Ok(program) => {
                let size = subject.size.as_ref();
                let cost = size.map_or(0, |size| environment.max_cost(&program, &size.limits));
                self.costs.add(field, "estimated messageExpression cost", cost, self.causes);
            }
        }
    }
}

/// Whether a path such as `.spec.replicas` names a field of the schema.
fn is_path_of(schema: &Schema, path: &str) -> bool {
    let Some(path) = parse_field_path(path) else { return false };
    let names = path.split(['.', '[', ']']).filter(|name| !name.is_empty());
    let found = names.into_iter().try_fold(schema, |schema, name| schema.field(name));
    !path.is_empty() && found.is_some()
}

/// A rule in messages, with Go's field names.
fn display_rule(rule: &Value) -> String {
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
    let fields = fields.map(|(name, value): (&str, Value)| format!("{name:?}:{value}"));
    // Go escapes these characters for HTML.
    let text = format!("{{{}}}", fields.join(","));
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
