//! Why a pod is unschedulable, in kube-scheduler's words.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Why a node was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodes) struct Rejection {
    pub(in crate::nodes) reasons: Vec<Cow<'static, str>>,
    /// Whether the removal of pods could help.
    #[doc(alias = "UnschedulableAndUnresolvable")]
    pub(in crate::nodes) is_resolvable: bool,
}

impl Rejection {
    pub(in crate::nodes) fn resolvable(reason: &'static str) -> Self {
        Rejection { reasons: vec![reason.into()], is_resolvable: true }
    }

    pub(in crate::nodes) fn unresolvable(reason: &'static str) -> Self {
        Rejection { reasons: vec![reason.into()], is_resolvable: false }
    }
}

/// The number of nodes by reason, as text.
#[doc(alias = "FitError")]
pub(in crate::nodes) fn unavailable<'a>(nodes: usize, rejections: impl IntoIterator<Item = &'a Rejection>) -> String {
    let mut count_of: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in rejections.into_iter().flat_map(|rejection| &rejection.reasons) {
        *count_of.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<String> = count_of.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort_unstable();
    match reasons.join(", ") {
        reasons if reasons.is_empty() => format!("0/{nodes} nodes are available:"),
        reasons => format!("0/{nodes} nodes are available: {reasons}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_by_reason() {
        let cpu =
            Rejection { reasons: vec!["Insufficient cpu".into(), "Insufficient memory".into()], is_resolvable: true };
        let taint = Rejection::unresolvable("node(s) had untolerated taint(s)");
        assert_eq!(
            unavailable(3, [&cpu, &taint, &taint]),
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 2 node(s) had untolerated taint(s)."
        );
        // Sorted as text, like kube-scheduler's.
        let many = vec![cpu; 10];
        assert!(
            unavailable(12, many.iter().chain([&taint, &taint])).starts_with("0/12 nodes are available: 10 Insuff")
        );
    }
}
