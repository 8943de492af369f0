//! Sets of fields of an object, in the format of `metadata.managedFields`.

use std::collections::BTreeMap;
use std::fmt;

use kubewright_core::json::Writer;
use kubewright_core::quote::Quoted;
use kubewright_core::{Map, MapBuilder, Str, Value};

/// One path element of a field: `f:NAME`, `k:{KEYS}`, `v:VALUE` or `i:INDEX`.
///
/// Stored as its text in `fieldsV1`, with sorted keys, so that equal elements have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element(Str);

impl Element {
    /// The field of an object or the key of a map.
    pub fn field(name: &str) -> Self {
        Element(["f:", name].concat().into())
    }

    /// The list item with these key values.
    pub fn key(keys: Map<Value>) -> Self {
        Element(format!("k:{}", Value::Object(keys)).into())
    }

    /// The list item with this value.
    pub fn value(value: &Value) -> Self {
        Element(format!("v:{value}").into())
    }

    /// The text in `fieldsV1`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, if the element is a field.
    pub fn field_name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }

    /// The names of the key fields, if the element is a list item with keys.
    pub(super) fn keys(&self) -> Vec<Str> {
        match self.0.strip_prefix("k:").map(str::parse) {
            Some(Ok(Value::Object(keys))) => keys.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_at_checked(2)? {
            ("f:" | "i:", _) => Some(Element(text.into())),
            ("v:", value) => Some(Element::value(&value.parse().ok()?)),
            ("k:", keys) => match keys.parse().ok()? {
                Value::Object(keys) => Some(Element::key(keys)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The notation of messages: `.name`, `[key="value"]`, `[=value]` or `[index]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, rest) = self.0.split_at(2);
        match kind {
            "f:" => write!(f, ".{rest}"),
            "i:" => write!(f, "[{rest}]"),
            "v:" => write!(f, "[={}]", in_words(&rest.parse().unwrap_or_default())),
            _ => {
                let keys: Value = rest.parse().unwrap_or_default();
                let keys = keys.as_object().cloned().unwrap_or_default();
                let words: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={}", in_words(value))).collect();
                write!(f, "[{}]", words.join(","))
            }
        }
    }
}

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => Quoted(text).to_string(),
        other => other.to_string(),
    }
}

/// A set of fields, each identified by its path.
///
/// A field can be a member without the fields below it, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Invariant: a node that is not a member has members below it.
    nodes: Map<FieldNode>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FieldNode {
    is_member: bool,
    below: FieldSet,
}

impl FieldNode {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        FieldSet::default()
    }

    /// The set of these fields, each given as a path of names.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the field at `path`. The empty path is the object itself, which is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.node(&last.0).is_member = true,
            [first, rest @ ..] => self.node(&first.0).below.insert(rest),
        }
    }

    fn node(&mut self, step: &Str) -> &mut FieldNode {
        self.nodes.get_or_insert_with(step, FieldNode::default)
    }

    /// Whether the element itself is a member.
    pub fn has(&self, element: &Element) -> bool {
        self.nodes.get(&element.0).is_some_and(|node| node.is_member)
    }

    /// The fields below an element, if there are any.
    pub fn below(&self, element: &Element) -> Option<&FieldSet> {
        self.nodes.get(&element.0).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(self, other: &FieldSet) -> FieldSet {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = MapBuilder::from(self.nodes);
        for (step, theirs) in other.nodes.iter() {
            let node = nodes.get_or_insert_with(step, FieldNode::default);
            node.is_member |= theirs.is_member;
            node.below = std::mem::take(&mut node.below).union(&theirs.below);
        }
        FieldSet { nodes: nodes.finish() }
    }

    /// The union of all sets.
    ///
    /// Sets are merged in pairs, so that a large set is not traversed once for each small one.
    pub(super) fn union_all(mut sets: Vec<FieldSet>) -> FieldSet {
        while sets.len() > 1 {
            let mut pairs = sets.into_iter();
            let mut united = Vec::with_capacity(pairs.len().div_ceil(2));
            while let Some(first) = pairs.next() {
                united.push(match pairs.next() {
                    Some(second) => first.union(&second),
                    None => first,
                });
            }
            sets = united;
        }
        sets.pop().unwrap_or_default()
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let nodes = self.nodes.iter().filter_map(|(step, mine)| {
            let theirs = other.nodes.get(step)?;
            let is_member = mine.is_member && theirs.is_member;
            let node = FieldNode { is_member, below: mine.below.intersection(&theirs.below) };
            (!node.is_empty()).then(|| (step.clone(), node))
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// The fields that are not in `other`; fields below a member of `other` stay.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.clone().minus(other)
    }

    /// [`difference`](Self::difference) by value.
    pub(super) fn minus(self, other: &FieldSet) -> FieldSet {
        self.change(other, |mine, theirs| {
            mine.is_member &= !theirs.is_member;
            mine.below = std::mem::take(&mut mine.below).minus(&theirs.below);
        })
    }

    /// The fields that are neither in `other` nor below a member of it.
    #[must_use]
    pub fn without_trees(&self, other: &FieldSet) -> FieldSet {
        self.clone().minus_trees(other)
    }

    /// [`without_trees`](Self::without_trees) by value.
    pub(super) fn minus_trees(self, other: &FieldSet) -> FieldSet {
        self.change(other, |mine, theirs| {
            if theirs.is_member {
                *mine = FieldNode::default();
            } else {
                mine.below = std::mem::take(&mut mine.below).minus_trees(&theirs.below);
            }
        })
    }

    /// Changes the nodes that `other` contains too, and removes those that become empty.
    ///
    /// Traverses this set and not `other`: an update subtracts one large set from the sets of all
    /// managers.
    fn change(mut self, other: &FieldSet, mut change: impl FnMut(&mut FieldNode, &FieldNode)) -> FieldSet {
        if self.is_empty() || other.is_empty() {
            return self;
        }
        let mut has_empty = false;
        for (step, mine) in self.nodes.iter_mut() {
            if let Some(theirs) = other.nodes.get(step) {
                change(mine, theirs);
                has_empty |= mine.is_empty();
            }
        }
        if has_empty {
            self.nodes.retain(|_, node| !node.is_empty());
        }
        self
    }

    /// Adds members: those inner elements for which `is_named` returns true.
    pub(super) fn with_members<S: Copy>(
        mut self,
        state: S,
        step: &impl Fn(S, &Element) -> S,
        is_named: &impl Fn(S, &Element) -> bool,
    ) -> FieldSet {
        for (text, node) in self.nodes.iter_mut() {
            let element = Element(text.clone());
            node.below = std::mem::take(&mut node.below).with_members(step(state, &element), step, is_named);
            node.is_member |= is_named(state, &element);
        }
        self
    }

    /// The paths of all members in the notation of messages; at each level members first.
    pub fn paths(&self) -> Vec<String> {
        self.paths_within(usize::MAX)
    }

    /// The first paths, up to about `bytes` bytes in total.
    ///
    /// Each path repeats its parents, so all paths together may be far larger than the set.
    pub(super) fn paths_within(&self, mut bytes: usize) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths, &mut bytes);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>, bytes_left: &mut usize) {
        let path = |step: &Str| format!("{prefix}{}", Element(step.clone()));
        for (step, _) in self.nodes.iter().filter(|(_, node)| node.is_member) {
            if *bytes_left == 0 {
                return;
            }
            let path = path(step);
            *bytes_left = bytes_left.saturating_sub(path.len());
            paths.push(path);
        }
        for (step, node) in self.nodes.iter().filter(|(_, node)| !node.below.is_empty()) {
            if *bytes_left == 0 {
                return;
            }
            node.below.collect_paths(&path(step), paths, bytes_left);
        }
    }

    /// The set in the format of `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let mut entries = Map::new();
        entries.reserve_exact(self.nodes.len() + 1);
        for (step, node) in self.nodes.iter() {
            let mut below = node.below.to_value();
            if let (true, false, Some(entries)) = (node.is_member, node.below.is_empty(), below.as_object_mut()) {
                entries.insert(".", Value::Object(Map::new()));
            }
            entries.insert(step, below);
        }
        Value::Object(entries)
    }

    /// Parses `fieldsV1`; `None` if it is malformed.
    pub fn from_value(value: &Value) -> Option<FieldSet> {
        let mut set = FieldSetBuilder::default();
        for (key, value) in value.as_object()?.iter().filter(|(key, _)| *key != ".") {
            let entries = value.as_object()?;
            let is_member = entries.is_empty() || entries.contains_key(".");
            set.put(&Element::parse(key)?, is_member, FieldSet::from_value(value)?);
        }
        Some(set.finish())
    }
}

/// Collects fields in any order.
#[derive(Debug, Default)]
pub(super) struct FieldSetBuilder {
    nodes: MapBuilder<FieldNode>,
    /// More fields below elements that the set already contains.
    repeated: BTreeMap<Str, Vec<FieldSet>>,
}

impl FieldSetBuilder {
    /// Adds the fields below an element, and the element itself if it is a member.
    pub(super) fn put(&mut self, element: &Element, is_member: bool, below: FieldSet) {
        if !is_member && below.is_empty() {
            return;
        }
        let node = self.nodes.get_or_insert_with(&element.0, FieldNode::default);
        node.is_member |= is_member;
        if node.below.is_empty() {
            node.below = below;
        } else if !below.is_empty() {
            self.repeated.entry(element.0.clone()).or_default().push(below);
        }
    }

    /// The resulting set.
    pub(super) fn finish(mut self) -> FieldSet {
        for (step, mut sets) in self.repeated {
            let node = self.nodes.get_or_insert_with(step, FieldNode::default);
            sets.push(std::mem::take(&mut node.below));
            node.below = FieldSet::union_all(sets);
        }
        FieldSet { nodes: self.nodes.finish() }
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.to_value().encode_json(&mut Writer::new(&mut out));
        f.write_str(&String::from_utf8_lossy(&out))
    }
}
