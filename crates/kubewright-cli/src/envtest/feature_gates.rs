//! The flag `--feature-gates` of kube-apiserver.
//!
//! Gates of features that this server does not have are known, and without effect.

use std::collections::BTreeMap;

use kubewright_apiserver::{ApiServer, FeatureGate};

use super::known_feature_gates::KNOWN;

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maturity {
    Alpha,
    Beta,
    Stable,
    Deprecated,
}

/// Gates that stand for all gates of a maturity.
const CLASSES: [(&str, Maturity); 2] = [("AllAlpha", Maturity::Alpha), ("AllBeta", Maturity::Beta)];

/// The settings of the flag, by gate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FeatureGateSettings {
    of_gate: BTreeMap<String, bool>,
}

impl FeatureGateSettings {
    /// Parses settings such as `WatchList=false` or `kube:AllAlpha=true`.
    ///
    /// # Errors
    /// A gate is unknown or locked, or a value is missing or malformed. The messages are those of
    /// kube-apiserver.
    pub(super) fn parse(settings: &[String]) -> Result<Self, String> {
        let mut of_gate = BTreeMap::new();
        let is_qualified = |setting: &&String| setting.contains(':');
        let settings = || settings.iter().filter(|setting| !setting.trim().is_empty());
        if settings().any(|setting| is_qualified(&setting)) && !settings().all(|setting| is_qualified(&setting)) {
            let why = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
            return Err(why.to_owned());
        }
        for setting in settings() {
            let (component, setting) = setting.split_once(':').unwrap_or(("kube", setting));
            if component.trim() != "kube" {
                return Err(format!("component not registered: {}", component.trim()));
            }
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (name, value) = (name.trim(), value.trim());
            if !setting.contains('=') {
                return Err(format!("missing bool value for {name}"));
            }
            let is_on = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                other => {
                    let why = format!("strconv.ParseBool: parsing {other:?}: invalid syntax");
                    return Err(format!("invalid value of {name}={other}, err: {why}"));
                }
            };
            let Some((_, default, _, is_locked)) = known(name) else {
                return Err(format!("unrecognized feature gate: {name}"));
            };
            if is_locked && default != is_on {
                return Err(format!("cannot set feature gate {name} to {is_on}, feature is locked to {default}"));
            }
            of_gate.insert(name.to_owned(), is_on);
        }
        Ok(FeatureGateSettings { of_gate })
    }

    /// The setting of a gate, by its own name or that of its class.
    fn setting(&self, gate: &str) -> Option<bool> {
        let (_, _, maturity, is_locked) = known(gate)?;
        let class = CLASSES.iter().find(|(_, of_class)| *of_class == maturity && !is_locked).map(|(name, _)| *name);
        [Some(gate), class].into_iter().flatten().find_map(|name| self.of_gate.get(name).copied())
    }

    /// Sets the gates that this server has.
    pub(super) fn apply(&self, mut server: ApiServer) -> ApiServer {
        for gate in FeatureGate::ALL {
            if let Some(is_on) = self.setting(&gate.to_string()) {
                server = server.feature_gate(gate, is_on);
            }
        }
        server
    }

    /// The names of gates that were set to another value than their default, and have no effect.
    pub(super) fn without_effect(&self) -> impl Iterator<Item = &str> {
        let has_effect = |name: &str| {
            FeatureGate::ALL.iter().any(|gate| gate.to_string() == name)
                || CLASSES.iter().any(|(class, _)| *class == name)
        };
        let changed = self.of_gate.iter().filter(|(name, is_on)| known(name).is_some_and(|gate| gate.1 != **is_on));
        changed.map(|(name, _)| name.as_str()).filter(move |name| !has_effect(name))
    }
}

/// A gate of kube-apiserver.
fn known(name: &str) -> Option<(&'static str, bool, Maturity, bool)> {
    let index = KNOWN.binary_search_by_key(&name, |(name, ..)| name).ok()?;
    Some(KNOWN[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(settings: &[&str]) -> Result<FeatureGateSettings, String> {
        FeatureGateSettings::parse(&settings.iter().map(|&setting| setting.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn gates_of_the_server_are_gates_of_kube_apiserver_with_its_defaults() {
        assert!(KNOWN.is_sorted_by_key(|(name, ..)| *name));
        for gate in FeatureGate::ALL {
            let (_, default, _, is_locked) = known(&gate.to_string()).expect("it is known");
            assert_eq!((default, is_locked), (gate.is_on_by_default(), false), "{gate}");
        }
    }

    #[test]
    fn a_gate_overrides_its_class() {
        let settings = parse(&["AllAlpha=true", "AllBeta=false", "WatchList=true"]).expect("all are known");
        assert_eq!(settings.setting("HPAScaleToZero"), Some(true));
        assert_eq!(settings.setting("APIResponseCompression"), Some(false));
        assert_eq!(settings.setting("WatchList"), Some(true));
        assert_eq!(settings.setting("MutatingAdmissionPolicy"), None);
        let settings = parse(&["kube:GangScheduling=true", "kube:WatchList=true", "kube:EnvFiles=true"]);
        assert_eq!(settings.expect("all are known").without_effect().collect::<Vec<_>>(), ["GangScheduling"]);
    }

    #[test]
    fn errors_have_the_words_of_kube_apiserver() {
        for (settings, why) in [
            (&["Nope=true"][..], "unrecognized feature gate: Nope"),
            (&["WatchList"], "missing bool value for WatchList"),
            (
                &["WatchList=maybe"],
                r#"invalid value of WatchList=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax"#,
            ),
            (
                &["DynamicResourceAllocation=false"],
                "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
            ),
            (&["wardle:A=true"], "component not registered: wardle"),
            (
                &["WatchList=true", "kube:AllAlpha=true"],
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
        ] {
            assert_eq!(parse(settings), Err(why.to_owned()));
        }
    }
}
