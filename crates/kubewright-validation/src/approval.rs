//! Requires an approval annotation for CustomResourceDefinitions in groups of Kubernetes.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};

/// The annotation with the URL of the API review.
const ANNOTATION: &str = "api-approved.kubernetes.io";
/// The document that explains the rule.
const EXPLANATION: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The approval state of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalState {
    /// Neither a URL nor `unapproved`.
    Invalid,
    /// The URL of a review.
    Approved,
    /// `unapproved`, with a reason.
    Bypassed,
    /// No annotation.
    Missing,
}

/// Validates the approval annotation, unless its state is the same as in `old`.
pub(crate) fn complaint(definition: &Value, old: Option<&Value>) -> Option<StatusCause> {
    if !is_protected(definition) {
        return None;
    }
    let annotation = annotation(definition);
    let state = state(&annotation);
    // An update of something else does not need an approval.
    if old.is_some_and(|old| self::state(&self::annotation(old)) == state) {
        return None;
    }
    let (field, reason) = (format!("metadata.annotations[{ANNOTATION}]"), reason(state, &annotation));
    match state {
        ApprovalState::Invalid => Some(StatusCause::invalid(field, format!("{annotation:?}"), &reason)),
        ApprovalState::Missing => Some(StatusCause::required(field, &reason)),
        ApprovalState::Approved | ApprovalState::Bypassed => None,
    }
}

/// The condition `KubernetesAPIApprovalPolicyConformant` of a definition in a protected group:
/// status, reason and message.
pub fn condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    if !is_protected(definition) {
        return None;
    }
    let annotation = annotation(definition);
    let state = state(&annotation);
    let (status, name) = match state {
        ApprovalState::Invalid => ("False", "InvalidAnnotation"),
        ApprovalState::Approved => ("True", "ApprovedAnnotation"),
        ApprovalState::Bypassed => ("False", "UnapprovedAnnotation"),
        ApprovalState::Missing => ("False", "MissingAnnotation"),
    };
    Some((status, name, reason(state, &annotation)))
}

fn is_protected(definition: &Value) -> bool {
    let group = tree::text(definition, &["spec", "group"]);
    ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn annotation(definition: &Value) -> String {
    let annotations = text_map(definition.meta("annotations"));
    annotations.get(ANNOTATION).map(|text| text.to_string()).unwrap_or_default()
}

fn state(annotation: &str) -> ApprovalState {
    match annotation {
        "" => ApprovalState::Missing,
        text if text.starts_with("unapproved") => ApprovalState::Bypassed,
        text if is_address(text) => ApprovalState::Approved,
        _ => ApprovalState::Invalid,
    }
}

fn reason(state: ApprovalState, annotation: &str) -> String {
    match state {
        ApprovalState::Missing => {
            format!("protected groups must have approval annotation {ANNOTATION:?}, {EXPLANATION}")
        }
        ApprovalState::Bypassed => format!("not approved: {annotation:?}"),
        ApprovalState::Approved => format!("approved in {annotation}"),
        ApprovalState::Invalid => format!(
            "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \
             \"unapproved\", {EXPLANATION}"
        ),
    }
}

/// Whether a text is a URL with a scheme and a host, as Go's `url.ParseRequestURI` reads it.
fn is_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_user = user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte));
    is_scheme && is_user && is_host(host) && are_escapes(path) && !text.chars().any(|char| char.is_ascii_control())
}

fn is_host(host: &str) -> bool {
    let port = match (host.starts_with('['), host.rfind(']')) {
        (true, None) => return false,
        (true, Some(end)) => &host[end + 1..],
        (false, _) => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit()));
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte);
    !host.is_empty() && is_port && host.bytes().all(is_plain) && are_escapes(host)
}

/// Whether each percent sign begins an escape.
fn are_escapes(text: &str) -> bool {
    let mut parts = text.split('%').skip(1).map(str::as_bytes);
    parts.all(|part| part.len() >= 2 && part[..2].iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::{ApprovalState, state};

    #[test]
    fn a_protected_definition_needs_an_approval_or_a_reason() {
        for text in ["https://github.com/kubernetes/kubernetes/pull/78458", "a://x", "https://:80", "https://x/a b"] {
            assert_eq!(state(text), ApprovalState::Approved, "{text}");
        }
        for text in ["https://u:p@x", "https://ü", "https://x?%zz", "https://x<y", "https://[::1]:8/"] {
            assert_eq!(state(text), ApprovalState::Approved, "{text}");
        }
        for text in ["nonsense", "/path", "http:///path", "https://ex ample", "https://x:port", "mailto:me", "://x"] {
            assert_eq!(state(text), ApprovalState::Invalid, "{text}");
        }
        for text in ["https://x/%zz", "https://x#y", "1a://x", "https://[::1", "https://x\u{1}", "approved"] {
            assert_eq!(state(text), ApprovalState::Invalid, "{text}");
        }
        assert_eq!((state(""), state("unapproved, for tests")), (ApprovalState::Missing, ApprovalState::Bypassed));
    }
}
