//! Evaluation of CEL rules over an object.
//!
//! The object is converted to CEL values once. Each rule sees the value of its schema as `self`. A
//! transition rule, which refers to `oldSelf`, is evaluated only where the value can be correlated
//! with one of the old object.

use kubewright_cel::{Activation, Budget, EvaluationError, Value, escape_field_name};
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Str, Value as Json};

use crate::field_path::FieldPath;
use crate::list_type::KeyedItems;
use crate::rule::ValidationRule;
use crate::schema::Schema;

impl Schema {
    /// The violations of rules by an object. Those by unchanged values become `warnings`.
    pub(crate) fn rule_violations(
        &self,
        object: &Json,
        old: Option<&Json>,
        warnings: &mut Vec<String>,
    ) -> Vec<StatusCause> {
        let mut walk = RuleEvaluation::new("", true);
        walk.object(self, true, object, old);
        warnings.append(&mut walk.warnings);
        walk.causes
    }

    /// The violations of rules by a default at `path`, both as an unchanged and as a new value.
    pub(crate) fn rule_violations_of_default(&self, path: &str, default: &Json) -> Vec<StatusCause> {
        let mut walk = RuleEvaluation::new(path, false);
        walk.object(self, self.embedded_resource, default, Some(default));
        if walk.causes.is_empty() {
            walk.object(self, self.embedded_resource, default, None);
        }
        walk.causes
    }
}

/// One walk through an object, as JSON and as CEL values in parallel.
struct RuleEvaluation<'a> {
    /// The path of the root.
    prefix: &'a str,
    /// Whether violations by unchanged values are only warnings.
    is_ratcheting: bool,
    budget: Budget,
    causes: Vec<StatusCause>,
    warnings: Vec<String>,
}

impl<'a> RuleEvaluation<'a> {
    fn new(prefix: &'a str, is_ratcheting: bool) -> Self {
        RuleEvaluation { prefix, is_ratcheting, budget: Budget::for_object(), causes: Vec::new(), warnings: Vec::new() }
    }

    fn object(&mut self, schema: &Schema, is_object: bool, object: &Json, old: Option<&Json>) {
        let Some(ty) = schema.cel_type(is_object).filter(|_| schema.has_rules) else { return };
        let value = Value::from_json_as(object, &ty);
        let before = old.map(|old| Value::from_json_as(old, &ty));
        self.value(schema, &FieldPath::Root, (object, &value), old.zip(before.as_ref()), false);
    }

    /// Evaluates the rules of a value and of its parts.
    ///
    /// `is_unchanged` is inherited: items of a list without keys cannot be correlated themselves.
    fn value(
        &mut self,
        schema: &Schema,
        path: &FieldPath<'_>,
        now: (&Json, &Value),
        old: Option<(&Json, &Value)>,
        is_unchanged: bool,
    ) {
        if !schema.has_rules || now.0.is_null() {
            return;
        }
        // The root always changes, because its metadata does.
        let may_ratchet = self.is_ratcheting && !matches!(path, FieldPath::Root);
        let is_unchanged = is_unchanged || (may_ratchet && old.is_some_and(|(before, _)| before == now.0));
        for rule in &schema.rules {
            if self.budget.is_exhausted() {
                return;
            }
            self.evaluate(schema, rule, path, now, old.map(|(_, value)| value), is_unchanged);
        }
        match now.0 {
            Json::Object(fields) => {
                let old = old.filter(|_| !schema.is_atomic);
                for (name, field) in fields.iter() {
                    let Some(part) = schema.field(name).filter(|part| part.has_rules) else { continue };
                    let before = old.and_then(|(before, value)| Some((before.get(name)?, child(schema, value, name)?)));
                    if let Some(value) = child(schema, now.1, name) {
                        self.value(part, &path.field(name), (field, value), before, is_unchanged);
                    }
                }
            }
            Json::Array(list) => self.list(schema, path, (list, now.1), old, is_unchanged),
            _ => {}
        }
    }

    fn list(
        &mut self,
        schema: &Schema,
        path: &FieldPath<'_>,
        (list, value): (&[Json], &Value),
        old: Option<(&Json, &Value)>,
        is_unchanged: bool,
    ) {
        let (Some(items), Value::List(values, _)) = (schema.items.as_deref(), value) else { return };
        if !items.has_rules {
            return;
        }
        let before = KeyedItems::new(schema, old.map(|(before, _)| before));
        for (index, (item, value)) in list.iter().zip(values.iter()).enumerate() {
            let before = before.get_indexed(schema, item).and_then(|(at, item)| match old {
                Some((_, Value::List(values, _))) => Some((item, values.get(at)?)),
                _ => None,
            });
            self.value(items, &path.item(index), (item, value), before, is_unchanged);
        }
    }

    fn evaluate(
        &mut self,
        schema: &Schema,
        rule: &ValidationRule,
        path: &FieldPath<'_>,
        (tree, value): (&Json, &Value),
        old: Option<&Value>,
        is_unchanged: bool,
    ) {
        let Some(program) = &rule.program else { return };
        let mut activation = Activation::new().with("self", value.clone());
        match old {
            _ if !rule.is_transition => {}
            old if rule.has_optional_old => activation.set("oldSelf", Value::optional(old.cloned())),
            Some(old) => activation.set("oldSelf", old.clone()),
            None => return,
        }
        match program.evaluate_bool(&activation, &mut self.budget) {
            Ok(true) => {}
            Ok(false) => {
                let detail = rule.violation_message(&activation, &mut self.budget);
                let cause = rule.cause(self.field(path), tree, &detail);
                // Ratcheting: an unchanged value may keep violating the rule.
                if is_unchanged && !rule.is_transition {
                    self.warnings.push(warning(&cause));
                } else {
                    self.causes.push(cause);
                }
            }
            Err(error) => self.report_error(schema, rule, path, &error),
        }
    }

    fn field(&self, path: &FieldPath<'_>) -> String {
        path.with_prefix(self.prefix)
    }

    /// Reports a rule that cannot be evaluated. Only the type of the value is shown.
    fn report_error(&mut self, schema: &Schema, rule: &ValidationRule, path: &FieldPath<'_>, error: &EvaluationError) {
        let what = rule.message_or_expression();
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

/// A field of a value. Keys of objects are escaped names, keys of maps are not.
fn child<'a>(schema: &Schema, value: &'a Value, name: &str) -> Option<&'a Value> {
    if schema.properties.contains_key(name) { value.field(&escape_field_name(name)?) } else { value.field(name) }
}

/// A cause as the text of a warning.
fn warning(cause: &StatusCause) -> String {
    let text = |part: &Option<Str>| part.clone().unwrap_or_default();
    format!("{}: {}", text(&cause.field), text(&cause.message))
}
