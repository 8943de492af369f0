//! Validates the restart policy and the restart rules of containers.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::number;

const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;

/// Validates the restart policy and the restart rules of a container.
pub(super) fn policy(field: &str, container: &Value) -> Vec<StatusCause> {
    let (policy_field, rules_field) = (format!("{field}.restartPolicy"), format!("{field}.restartPolicyRules"));
    let rules = tree::items(container, &["restartPolicyRules"]);
    let mut causes = Vec::new();
    match container.get("restartPolicy").and_then(Value::as_str) {
        Some(policy) => causes.extend(number::one_of(policy_field, policy, &["Always", "Never", "OnFailure"])),
        None if rules.is_empty() => {}
        None => {
            let why = "must specify restartPolicy when restart rules are used";
            causes.push(StatusCause::required(policy_field, why));
        }
    }
    if rules.len() > RULES_MAX {
        causes.push(StatusCause::too_many(rules_field.as_str(), rules.len(), RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        causes.extend(self::rule(&format!("{rules_field}[{index}]"), rule));
    }
    causes
}

fn rule(field: &str, rule: &Value) -> Vec<StatusCause> {
    let actions = ["Restart", "RestartAllContainers"];
    let action = number::one_of(format!("{field}.action"), tree::text(rule, &["action"]), &actions);
    let mut causes: Vec<_> = action.into_iter().collect();
    let field = format!("{field}.exitCodes");
    let Some(codes) = rule.get("exitCodes") else {
        causes.push(StatusCause::required(field, "must be specified"));
        return causes;
    };
    let operator = tree::text(codes, &["operator"]);
    causes.extend(number::one_of(format!("{field}.operator"), operator, &["In", "NotIn"]));
    let values = tree::items(codes, &["values"]);
    if values.len() > CODES_MAX {
        causes.push(StatusCause::too_many(format!("{field}.values"), values.len(), CODES_MAX));
    }
    causes
}
