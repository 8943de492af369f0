//! The files of the templates, and the names that are put into them.

use super::names::struct_of;
use super::record::KindRecord;

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("../../templates/", $file))
    };
}

/// The files of a project, besides those of its kinds.
pub const PROJECT: [(&str, &str); 25] = [
    ("Cargo.toml", template!("new/Cargo.toml.in")),
    (".gitignore", template!("new/gitignore")),
    (".dockerignore", template!("new/dockerignore")),
    ("README.md", template!("new/README.md")),
    ("Dockerfile", template!("new/Dockerfile")),
    (".github/workflows/ci.yaml", template!("new/ci/github.yaml")),
    (".gitlab-ci.yml", template!("new/ci/gitlab.yaml")),
    ("kubewright.yaml", template!("new/kubewright.yaml")),
    ("kustomization.yaml", template!("new/kustomization.yaml")),
    ("src/main.rs", template!("new/src/main.rs")),
    ("src/manifests.rs", template!("new/src/manifests.rs")),
    ("src/tests.rs", template!("new/src/tests.rs")),
    ("manifests/00-namespace.yaml", template!("new/manifests/00-namespace.yaml")),
    ("manifests/10-crds.yaml", template!("new/manifests/10-crds.yaml")),
    ("manifests/20-role.yaml", template!("new/manifests/20-role.yaml")),
    ("manifests/21-access.yaml", template!("new/manifests/21-access.yaml")),
    ("manifests/30-deployment.yaml", template!("new/manifests/30-deployment.yaml")),
    ("chart/Chart.yaml", template!("new/chart/Chart.yaml")),
    ("chart/values.yaml", template!("new/chart/values.yaml")),
    ("chart/files/crds.yaml", template!("new/manifests/10-crds.yaml")),
    ("chart/files/role.yaml", template!("new/manifests/20-role.yaml")),
    ("chart/templates/crds.yaml", template!("new/chart/templates/crds.yaml")),
    ("chart/templates/access.yaml", template!("new/chart/templates/access.yaml")),
    ("chart/templates/deployment.yaml", template!("new/chart/templates/deployment.yaml")),
    ("chart/templates/webhooks.yaml", template!("new/chart/templates/webhooks.yaml")),
];

/// The files of a kind with a controller, in its first version.
pub const KIND: [(&str, &str); 4] = [
    ("src/kinds/widget/v1alpha1.rs", template!("new/src/kinds/widget/v1alpha1.rs")),
    ("src/kinds/widget/controller.rs", template!("new/src/kinds/widget/controller.rs")),
    ("src/kinds/widget/tests.rs", template!("new/src/kinds/widget/tests.rs")),
    ("samples/widget.yaml", template!("new/samples/widget.yaml")),
];

/// The files of webhooks.
pub const DEFAULTING: (&str, &str) = ("src/kinds/widget/defaulting.rs", template!("webhooks/defaulting.rs"));
pub const VALIDATING: (&str, &str) = ("src/kinds/widget/validating.rs", template!("webhooks/validating.rs"));
pub const CONVERSION: (&str, &str) =
    ("src/kinds/widget/conversion/v1beta1.rs", template!("webhooks/conversion/v1beta1.rs"));

/// The names that are put into a template.
#[derive(Debug)]
pub struct Names<'a> {
    pub project: &'a str,
    pub kind: &'a KindRecord,
    /// The version of the template `v1alpha1`.
    pub version: &'a str,
    /// The version of the template `v1beta1`.
    pub other_version: &'a str,
}

impl<'a> Names<'a> {
    /// The names of a kind in one of its versions.
    pub fn new(project: &'a str, kind: &'a KindRecord, version: &'a str) -> Self {
        Names { project, kind, version, other_version: "v1beta1" }
    }

    /// The path and the content of a file.
    pub fn fill(&self, (path, text): (&str, &str)) -> (String, String) {
        // Paths name the module, which may differ from the name of the kind.
        let path = path.replace("widget", &self.kind.module);
        let path = path.replace("v1alpha1", self.version).replace("v1beta1", self.other_version);
        let text = self.exchange(text, path.ends_with(".rs"));
        (path, text)
    }

    /// The text with these names, exchanged in one pass: a name may contain another.
    fn exchange(&self, template: &str, is_rust: bool) -> String {
        let kind = self.kind;
        let type_name = struct_of(&kind.kind);
        let singular = kind.kind.to_ascii_lowercase();
        let attribute = if type_name == kind.kind {
            format!("kind = \"{}\",", kind.kind)
        } else {
            format!("kind = \"{}\",\n    struct = \"{type_name}\",", kind.kind)
        };
        let (quoted_kind, quoted_module) = (format!("\"{}\"", kind.kind), format!("\"{}\"", kind.module));
        let exchanged = [
            ("widget-operator", self.project),
            ("example.com", kind.group.as_str()),
            ("kind = \"Widget\",", attribute.as_str()),
            ("\"Widget\"", quoted_kind.as_str()),
            ("\"widget\"", quoted_module.as_str()),
            ("v1alpha1", self.version),
            ("v1beta1", self.other_version),
            ("samples/widget.yaml", &format!("samples/{}.yaml", kind.module)),
            ("kinds/widget", &format!("kinds/{}", kind.module)),
            ("widgets", kind.plural.as_str()),
            ("Widget", if is_rust { &type_name } else { &kind.kind }),
            ("widget", singular.as_str()),
        ];
        let (mut out, mut rest) = (String::with_capacity(template.len()), template);
        while let Some(first) = rest.chars().next() {
            match exchanged.iter().find(|(from, _)| rest.starts_with(from)) {
                Some((from, to)) => {
                    out += to;
                    rest = &rest[from.len()..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::ProjectRecord;
    use super::*;

    fn kind(line: &str) -> KindRecord {
        ProjectRecord::read(&format!("project: a\ncreated:\n- api: {{{line}}}\n")).expect("it is valid").kinds.remove(0)
    }

    #[test]
    fn names_that_contain_each_other_are_exchanged_once() {
        let kind = kind("group: widget.example.com, version: v1, kind: MyWidget, plural: mywidgets");
        let names = Names::new("widget-operator-widgets", &kind, "v1");
        let (path, text) =
            names.fill(("src/kinds/widget/v1alpha1.rs", "widget-operator Widget widgets.example.com widget"));
        assert_eq!(path, "src/kinds/my_widget/v1.rs");
        assert_eq!(text, "widget-operator-widgets MyWidget mywidgets.widget.example.com mywidget");
    }

    #[test]
    fn a_word_of_rust_is_the_kind_and_not_the_struct() {
        let kind = kind("group: a.com, version: v1, kind: Self, plural: selves");
        let names = Names::new("a", &kind, "v1");
        let (path, text) =
            names.fill(("src/kinds/widget/v1alpha1.rs", "kind = \"Widget\", struct WidgetSpec; \"widget\""));
        assert_eq!(path, "src/kinds/self_/v1.rs");
        assert_eq!(text, "kind = \"Self\",\n    struct = \"SelfResource\", struct SelfResourceSpec; \"self_\"");
        assert_eq!(
            names.fill(("samples/widget.yaml", "kind: Widget")),
            ("samples/self_.yaml".into(), "kind: Self".into())
        );
    }
}
