//! The success policy of an indexed job.

use std::collections::BTreeSet;

use kubewright_api::batch::v1::{JobSpec, SuccessPolicyRule};

use super::indexed;
use super::outcome::JobOutcome;

/// Whether completed indexes satisfy a rule.
#[doc(alias = "matchSuccessPolicy")]
pub(super) fn met(spec: &JobSpec, completed: Option<&BTreeSet<i32>>) -> Option<JobOutcome> {
    let (policy, completions) = (spec.success_policy.as_ref()?, indexed::completions(spec)?);
    let completed = completed.filter(|completed| !completed.is_empty())?;
    let number = policy.rules.iter().position(|rule| is_met(rule, completions, completed))?;
    Some(JobOutcome::success("SuccessPolicy", &format!("Matched rules at index {number}")))
}

/// All named indexes, or `succeededCount` of them; of all indexes if none are named.
fn is_met(rule: &SuccessPolicyRule, completions: i32, completed: &BTreeSet<i32>) -> bool {
    let count = rule.succeeded_count.map(|count| usize::try_from(count).unwrap_or_default());
    let Some(text) = &rule.succeeded_indexes else { return count.is_some_and(|count| completed.len() >= count) };
    let wanted = indexed::parse(text, completions);
    let succeeded = wanted.intersection(completed).count();
    !wanted.is_empty() && succeeded >= count.map_or(wanted.len(), |count| count.min(wanted.len()))
}

#[cfg(test)]
mod tests {
    use kubewright_api::batch::v1::SuccessPolicy;

    use super::*;

    #[test]
    fn a_success_rule_names_indexes_or_a_count() {
        let rule = |indexes: Option<&str>, succeeded_count: Option<i32>| SuccessPolicyRule {
            succeeded_indexes: indexes.map(Into::into),
            succeeded_count,
        };
        let completed = BTreeSet::from([0, 2, 5]);
        for (rules, want) in [
            (vec![rule(Some("0,2"), None)], Some(0)),
            (vec![rule(Some("0-2"), None)], None),
            (vec![rule(Some("0-2"), Some(2))], Some(0)),
            (vec![rule(Some("0-2"), Some(3))], None),
            (vec![rule(None, Some(4)), rule(None, Some(3))], Some(1)),
            (vec![rule(Some("x"), None)], None),
            (vec![], None),
        ] {
            let mut spec =
                JobSpec { completions: Some(6), completion_mode: Some("Indexed".into()), ..Default::default() };
            spec.success_policy = Some(SuccessPolicy { rules: rules.iter().cloned().collect() }.into());
            let got = met(&spec, Some(&completed)).map(|outcome| outcome.message.to_string());
            assert_eq!(got, want.map(|number| format!("Matched rules at index {number}")), "{rules:?}");
            assert_eq!(met(&spec, Some(&BTreeSet::new())), None);
            spec.completion_mode = None;
            assert_eq!(met(&spec, Some(&completed)), None, "only jobs with numbers have such a policy");
        }
    }
}
