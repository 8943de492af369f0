//! The Pod Security Standards, and the namespace labels that choose one.

mod baseline;
mod pod;
mod restricted;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{Meta, text_map};

use pod::Pod;

const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
const MODES: [&str; 3] = ["enforce", "audit", "warn"];

/// One violation, with upstream's `ForbiddenReason` and `ForbiddenDetail`.
struct Violation {
    reason: String,
    detail: String,
}

impl Violation {
    fn new(reason: &str, detail: impl Into<String>) -> Self {
        Violation { reason: reason.to_owned(), detail: detail.into() }
    }
}

/// A standard as named by a label.
pub struct Standard {
    level: &'static str,
    version: String,
}

impl Standard {
    /// The standard that the labels of a namespace set for a mode: `enforce`, `warn` or `audit`.
    pub fn read(namespace: &Value, mode: &str) -> Standard {
        let labels = text_map(namespace.meta("labels"));
        let level = labels.get(&format!("pod-security.kubernetes.io/{mode}"));
        // An invalid level counts as the strictest one.
        let level = match level.map(|level| level.as_str()) {
            None | Some("") => "privileged",
            Some(level) => LEVELS.into_iter().find(|known| *known == level).unwrap_or("restricted"),
        };
        let version = labels.get(&format!("pod-security.kubernetes.io/{mode}-version"));
        Standard { level, version: version.map_or_else(|| "latest".to_owned(), |version| version.to_string()) }
    }

    /// The message about all violations of a pod.
    pub fn complaint(&self, pod: &Value) -> Option<String> {
        let pod = Pod::new(pod);
        let mut violations = Vec::new();
        if self.level != "privileged" {
            baseline::check(&pod, self.level == "restricted", &mut violations);
        }
        if self.level == "restricted" {
            restricted::check(&pod, &mut violations);
        }
        violations.sort_by_key(|(name, _)| *name);
        let texts: Vec<String> =
            violations.into_iter().map(|(_, Violation { reason, detail })| format!("{reason} ({detail})")).collect();
        (!texts.is_empty())
            .then(|| format!("violate PodSecurity \"{}:{}\": {}", self.level, self.version, texts.join(", ")))
    }
}

/// Whether containers or images of a pod changed. No other mutable field matters to the standards.
pub fn images_differ(old: &Value, new: &Value) -> bool {
    Pod::new(new).images_differ_from(&Pod::new(old))
}

/// Validates the pod security labels of a namespace.
pub(crate) fn label_complaints(namespace: &Value) -> Vec<StatusCause> {
    let labels = text_map(namespace.meta("labels"));
    let mut causes = Vec::new();
    for mode in MODES {
        let name = format!("pod-security.kubernetes.io/{mode}");
        if let Some(level) = labels.get(&name).filter(|level| !LEVELS.contains(&level.as_str())) {
            let why = format!("must be one of {}", LEVELS.join(", "));
            causes.push(StatusCause::invalid(
                format!("metadata.labels[{name}]"),
                format!("{:?}", level.as_str()),
                &why,
            ));
        }
        let name = format!("{name}-version");
        let is_version = |text: &str| {
            let minor = text.strip_prefix("v1.");
            text == "latest"
                || minor.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if let Some(version) = labels.get(&name).filter(|version| !is_version(version)) {
            let why = "must be \"latest\" or \"v1.x\"";
            causes.push(StatusCause::invalid(
                format!("metadata.labels[{name}]"),
                format!("{:?}", version.as_str()),
                why,
            ));
        }
    }
    causes
}
