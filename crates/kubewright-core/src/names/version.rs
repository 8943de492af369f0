//! Preference order of API versions.

use std::cmp::Ordering;

/// Compares two versions by preference: the greater one comes first in discovery.
///
/// Stable versions are above betas, betas above alphas, and within each the higher number wins.
/// Other forms than `v1`, `v1beta1` or `v1alpha1` rank below all of them, in reverse alphabetical
/// order.
///
/// ```
/// use kubewright_core::compare_kube_aware_versions as compare;
/// let mut versions = ["v1alpha1", "v2", "foo1", "v1", "v10", "v11beta2"];
/// versions.sort_by(|a, b| compare(b, a));
/// assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v1alpha1", "foo1"]);
/// ```
#[doc(alias = "CompareKubeAwareVersionStrings")]
#[inline]
pub fn compare_kube_aware_versions(a: &str, b: &str) -> Ordering {
    match (parse_kube_version(a), parse_kube_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability (alpha, beta, stable), major and minor number, in order of significance.
#[inline]
fn parse_kube_version(version: &str) -> Option<(u8, u64, u64)> {
    let numbers = version.strip_prefix('v')?;
    let end = numbers.find(|c: char| !c.is_ascii_digit()).unwrap_or(numbers.len());
    let (major, rest) = numbers.split_at(end);
    let (stability, minor) = match rest {
        "" => (2, "0"),
        rest => match rest.strip_prefix("beta") {
            Some(minor) => (1, minor),
            None => (0, rest.strip_prefix("alpha")?),
        },
    };
    if !minor.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((stability, major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_ordered_by_preference() {
        let sorted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v",
            "v1b",
            "v1beta",
            "v2-rc",
            "v99999999999999999999999",
        ];
        let mut versions = sorted;
        versions.reverse();
        versions.sort_by(|a, b| compare_kube_aware_versions(b, a));
        assert_eq!(versions, sorted);
    }

    proptest! {
        #[test]
        fn the_order_of_versions_is_total(a in "v?[0-3]{0,2}(alpha|beta)?[0-3]?", b in "v?[0-3]{0,2}(alpha|beta)?[0-3]?", c in "v?[0-3]{0,2}(alpha|beta)?[0-3]?") {
            use compare_kube_aware_versions as compare;
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
