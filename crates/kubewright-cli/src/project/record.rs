//! `kubewright.yaml`: what was created in a project, in this order.

use std::collections::BTreeSet;
use std::path::Path;

use kubewright_core::Value;
use kubewright_yaml as yaml;

use super::names::{check_group, check_kind, check_plural, check_project, check_version, module_of};

/// The name of the file.
pub const FILE: &str = "kubewright.yaml";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRecord {
    /// The name of the program.
    pub project: String,
    /// The kinds, in the order of their creation.
    pub kinds: Vec<KindRecord>,
}

/// A kind with its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindRecord {
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub is_namespaced: bool,
    /// The first one is stored.
    pub versions: Vec<String>,
    pub has_controller: bool,
    /// The version that a webhook receives, if there is one.
    pub defaulting: Option<String>,
    pub validating: Option<String>,
    pub has_conversion: bool,
    /// The module below `kinds`, unique in the project.
    pub module: String,
}

/// An item of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    Api { group: String, version: String, kind: String, plural: String, is_namespaced: bool, has_controller: bool },
    Webhook { group: String, version: String, kind: String, defaulting: bool, validating: bool, conversion: bool },
}

impl Created {
    /// Its line.
    pub fn line(&self) -> String {
        match self {
            Created::Api { group, version, kind, plural, is_namespaced, has_controller } => {
                let controller = if *has_controller { "" } else { ", controller: false" };
                format!(
                    "- api: {{group: {group}, version: {version}, kind: {kind}, plural: {plural}, namespaced: \
                     {is_namespaced}{controller}}}\n"
                )
            }
            Created::Webhook { group, version, kind, defaulting, validating, conversion } => {
                let flags = [("defaulting", defaulting), ("validating", validating), ("conversion", conversion)];
                let flags: String =
                    flags.iter().filter(|(_, is_set)| **is_set).map(|(name, _)| format!(", {name}: true")).collect();
                format!("- webhook: {{group: {group}, version: {version}, kind: {kind}{flags}}}\n")
            }
        }
    }

    fn read(item: &Value) -> Result<Self, String> {
        let [(what, fields)] = item.as_object().map(|item| item.iter().collect::<Vec<_>>()).unwrap_or_default()[..]
        else {
            return Err(format!("{item} is neither `api: {{…}}` nor `webhook: {{…}}`"));
        };
        let text = |name: &str| {
            let text = fields.get(name).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| format!("{item} lacks `{name}`"))
        };
        let flag = |name: &str, default: bool| match fields.get(name) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| format!("{item}: `{name}` is true or false")),
        };
        let (group, version, kind) = (text("group")?, text("version")?, text("kind")?);
        check_group(&group)?;
        check_version(&version)?;
        check_kind(&kind)?;
        match what.as_str() {
            "api" => {
                let plural = text("plural")?;
                check_plural(&plural)?;
                let (is_namespaced, has_controller) = (flag("namespaced", true)?, flag("controller", true)?);
                Ok(Created::Api { group, version, kind, plural, is_namespaced, has_controller })
            }
            "webhook" => {
                let (defaulting, validating) = (flag("defaulting", false)?, flag("validating", false)?);
                Ok(Created::Webhook {
                    group,
                    version,
                    kind,
                    defaulting,
                    validating,
                    conversion: flag("conversion", false)?,
                })
            }
            other => Err(format!("{other:?} is neither `api` nor `webhook`")),
        }
    }
}

impl ProjectRecord {
    /// Reads the file of the project in this folder.
    pub fn of_folder(folder: &Path) -> Result<(Self, String), String> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "{} does not exist: go to the folder of a project, or create one with `kubewright new NAME`",
                path.display()
            ),
            _ => format!("{}: {error}", path.display()),
        })?;
        let record = Self::read(&text).map_err(|problem| format!("{}: {problem}", path.display()))?;
        Ok((record, text))
    }

    /// Reads the content of the file.
    pub fn read(text: &str) -> Result<Self, String> {
        let tree = yaml::parse(text).map_err(|error| error.to_string())?.value;
        let project = tree.get("project").and_then(Value::as_str).ok_or("it lacks `project: NAME`")?;
        check_project(project)?;
        let mut record = ProjectRecord { project: project.to_owned(), kinds: Vec::new() };
        for item in tree.get("created").and_then(Value::as_array).into_iter().flatten() {
            record.add(&Created::read(item)?)?;
        }
        Ok(record)
    }

    /// The kind of this group and name.
    pub fn kind(&self, group: &str, kind: &str) -> Option<&KindRecord> {
        self.kinds.iter().find(|record| record.group == group && record.kind == kind)
    }

    /// The only group, if there is one.
    pub fn only_group(&self) -> Option<&str> {
        let groups: BTreeSet<&str> = self.kinds.iter().map(|kind| kind.group.as_str()).collect();
        groups.first().copied().filter(|_| groups.len() == 1)
    }

    /// Adds an item, if it agrees with the others.
    pub fn add(&mut self, created: &Created) -> Result<(), String> {
        match created {
            Created::Api { group, version, kind, plural, is_namespaced, has_controller } => {
                let module = self.free_module(group, kind);
                let clash = |one: &&KindRecord| one.group == *group && one.plural == *plural && one.kind != *kind;
                if let Some(other) = self.kinds.iter().find(clash) {
                    return Err(format!(
                        "{plural}.{group} is the resource of {} already; choose another --plural",
                        other.kind
                    ));
                }
                let existing = self.kinds.iter_mut().find(|record| record.group == *group && record.kind == *kind);
                let Some(record) = existing else {
                    self.kinds.push(KindRecord {
                        group: group.clone(),
                        kind: kind.clone(),
                        plural: plural.clone(),
                        is_namespaced: *is_namespaced,
                        versions: vec![version.clone()],
                        has_controller: *has_controller,
                        defaulting: None,
                        validating: None,
                        has_conversion: false,
                        module,
                    });
                    return Ok(());
                };
                if record.versions.contains(version) {
                    return Err(format!("{kind} of {group} has the version {version} already"));
                }
                if (&record.plural, record.is_namespaced) != (plural, *is_namespaced) {
                    return Err(format!(
                        "all versions of {kind} have one plural ({}) and one scope ({})",
                        record.plural,
                        if record.is_namespaced { "namespaced" } else { "cluster" }
                    ));
                }
                record.versions.push(version.clone());
                Ok(())
            }
            Created::Webhook { group, version, kind, defaulting, validating, conversion } => {
                let unknown =
                    || format!("there is no {kind} of {group} in {version}: create it with `kubewright create api`");
                let record = self.kinds.iter_mut().find(|record| record.group == *group && record.kind == *kind);
                let record = record.filter(|record| record.versions.contains(version)).ok_or_else(unknown)?;
                for (wanted, place, name) in [
                    (defaulting, &mut record.defaulting, "defaulting"),
                    (validating, &mut record.validating, "validating"),
                ] {
                    if *wanted && place.replace(version.clone()).is_some() {
                        return Err(format!("{kind} of {group} has a {name} webhook already"));
                    }
                }
                if *conversion {
                    if record.versions.len() < 2 {
                        return Err(format!(
                            "{kind} of {group} has one version, so there is nothing to convert: create another one with \
                             `kubewright create api --version …`"
                        ));
                    }
                    if std::mem::replace(&mut record.has_conversion, true) {
                        return Err(format!("{kind} of {group} has a conversion webhook already"));
                    }
                }
                Ok(())
            }
        }
    }

    /// A module that no other kind has.
    fn free_module(&self, group: &str, kind: &str) -> String {
        let is_free = |name: &str| self.kinds.iter().all(|other| other.module != name);
        let (short, whole) = (group.split('.').next().unwrap_or_default(), group.replace(['.', '-'], "_"));
        let name = module_of(kind);
        let stem = name.trim_end_matches('_');
        [name.clone(), format!("{stem}_{}", short.replace('-', "_")), format!("{stem}_{whole}")]
            .into_iter()
            .find(|name| is_free(name))
            .unwrap_or_else(|| format!("{stem}_of_{whole}_{}", self.kinds.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str =
        "project: shop\ncreated:\n- api: {group: a.com, version: v1, kind: Order, plural: orders, namespaced: true}\n";

    fn problem(line: &str) -> String {
        ProjectRecord::read(&format!("{FIRST}{line}\n")).expect_err(line)
    }

    #[test]
    fn a_record_reads_the_lines_that_it_writes() {
        let (group, version, kind) = ("a.com".to_owned(), "v2".to_owned(), "Order".to_owned());
        let api = Created::Api {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: "orders".into(),
            is_namespaced: true,
            has_controller: true,
        };
        let webhook = Created::Webhook { group, version, kind, defaulting: true, validating: false, conversion: true };
        let record = ProjectRecord::read(&format!("{FIRST}{}{}", api.line(), webhook.line())).expect("it is valid");
        let order = &record.kinds[0];
        assert_eq!(order.versions, ["v1", "v2"]);
        assert_eq!((order.defaulting.as_deref(), order.has_conversion), (Some("v2"), true));
    }

    #[test]
    fn kinds_of_the_same_name_in_two_groups_have_modules_of_their_own() {
        let more = "- api: {group: b.com, version: v1, kind: Order, plural: orders, namespaced: true}\n";
        let record = ProjectRecord::read(&format!("{FIRST}{more}")).expect("it is valid");
        assert_eq!(record.kinds.iter().map(|kind| kind.module.as_str()).collect::<Vec<_>>(), ["order", "order_b"]);
        assert_eq!(record.only_group(), None);
    }

    #[test]
    fn contradictions_are_named() {
        for (line, told) in [
            ("- api: {group: a.com, version: v1, kind: Order, plural: orders}", "has the version v1 already"),
            ("- api: {group: a.com, version: v2, kind: Order, plural: orderz}", "have one plural (orders)"),
            ("- api: {group: a.com, version: v1, kind: Other, plural: orders}", "the resource of Order already"),
            (
                "- webhook: {group: a.com, version: v2, kind: Order, defaulting: true}",
                "there is no Order of a.com in v2",
            ),
            ("- webhook: {group: a.com, version: v1, kind: Order, conversion: true}", "nothing to convert"),
            ("- hook: {group: a.com, version: v1, kind: Order}", "neither `api` nor `webhook`"),
            ("- api: {group: a.com, version: v1, kind: order, plural: orders}", "is no kind"),
        ] {
            let problem = problem(line);
            assert!(problem.contains(told), "{problem}");
        }
    }
}
