//! Sets of fields of an object, in the form that `metadata.managedFields` has.

use std::collections::BTreeMap;
use std::fmt;

use crate::json::Writer;
use crate::quote::Quoted;
use crate::{Map, MapBuilder, Str, Value};

/// One step of the way to a field: `f:NAME`, `k:{KEYS}`, `v:VALUE` or `i:INDEX`.
///
/// Held as the text that it has in `fieldsV1`, with the keys sorted, so that equal steps have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element(Str);

impl Element {
    /// The field of an object or the key of a map.
    pub fn field(name: &str) -> Self {
        Element(["f:", name].concat().into())
    }

    /// The item of a list whose keys have these values.
    pub fn key(keys: Map<Value>) -> Self {
        Element(format!("k:{}", Value::Object(keys)).into())
    }

    /// The item of a list that is this value.
    pub fn value(value: &Value) -> Self {
        Element(format!("v:{value}").into())
    }

    /// The text in `fieldsV1`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, if the step is a field.
    pub fn field_name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
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

/// As messages write it: `.name`, `[key="value"]`, `[=value]` or `[index]`.
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

/// A set of fields, each named by the way to it.
///
/// A field can be in the set without the fields in it, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Invariant: a node that is no member has something below it.
    nodes: Map<Node>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    is_member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        FieldSet::default()
    }

    /// The set of these fields of objects, each a way of names.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts the field at `path` into the set; the empty path is the object itself, which is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.node(&last.0).is_member = true,
            [first, rest @ ..] => self.node(&first.0).below.insert(rest),
        }
    }

    fn node(&mut self, step: &Str) -> &mut Node {
        self.nodes.get_or_insert_with(step, Node::default)
    }

    /// Whether the step itself is in the set.
    pub fn has(&self, element: &Element) -> bool {
        self.nodes.get(&element.0).is_some_and(|node| node.is_member)
    }

    /// The fields below a step, if there are any.
    pub fn below(&self, element: &Element) -> Option<&FieldSet> {
        self.nodes.get(&element.0).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The fields of both sets.
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
            let node = nodes.get_or_insert_with(step, Node::default);
            node.is_member |= theirs.is_member;
            node.below = std::mem::take(&mut node.below).union(&theirs.below);
        }
        FieldSet { nodes: nodes.finish() }
    }

    /// The fields of all sets.
    ///
    /// Sets are united in pairs, so that no large set is walked once for each small one.
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

    /// The fields that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let nodes = self.nodes.iter().filter_map(|(step, mine)| {
            let theirs = other.nodes.get(step)?;
            let is_member = mine.is_member && theirs.is_member;
            let node = Node { is_member, below: mine.below.intersection(&theirs.below) };
            (!node.is_empty()).then(|| (step.clone(), node))
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// The fields that are not in `other`; those below a field of `other` stay.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.clone().minus(other)
    }

    /// [`difference`](Self::difference) of a set that is not needed any more.
    pub(super) fn minus(self, other: &FieldSet) -> FieldSet {
        self.change(other, |mine, theirs| {
            mine.is_member &= !theirs.is_member;
            mine.below = std::mem::take(&mut mine.below).minus(&theirs.below);
        })
    }

    /// The fields that are neither in `other` nor below a field of it.
    #[must_use]
    pub fn without_trees(&self, other: &FieldSet) -> FieldSet {
        self.clone().minus_trees(other)
    }

    /// [`without_trees`](Self::without_trees) of a set that is not needed any more.
    pub(super) fn minus_trees(self, other: &FieldSet) -> FieldSet {
        self.change(other, |mine, theirs| {
            if theirs.is_member {
                *mine = Node::default();
            } else {
                mine.below = std::mem::take(&mut mine.below).minus_trees(&theirs.below);
            }
        })
    }

    /// Changes the nodes that `other` has as well, and drops those that become empty.
    ///
    /// Walks this set and not `other`: an update takes one large set from the sets of all managers.
    fn change(mut self, other: &FieldSet, mut change: impl FnMut(&mut Node, &Node)) -> FieldSet {
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

    /// The same set with more members: of the steps that only lead to others, those that `is_named` says yes to.
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

    /// The paths of all fields in the set, as messages write them: at each level members first.
    pub fn paths(&self) -> Vec<String> {
        self.paths_within(usize::MAX)
    }

    /// The first paths, as many as fit into about `bytes` bytes.
    ///
    /// Each path repeats the steps above it, so that all of them may take far more than the set.
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

    /// The set as `fieldsV1` has it.
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

    /// Reads `fieldsV1`; `None` if this is no such set.
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
    nodes: MapBuilder<Node>,
    /// Further fields below steps that the set has already.
    repeated: BTreeMap<Str, Vec<FieldSet>>,
}

impl FieldSetBuilder {
    /// Puts a step into the set, if it is a member, and the fields below it.
    pub(super) fn put(&mut self, element: &Element, is_member: bool, below: FieldSet) {
        if !is_member && below.is_empty() {
            return;
        }
        let node = self.nodes.get_or_insert_with(&element.0, Node::default);
        node.is_member |= is_member;
        if node.below.is_empty() {
            node.below = below;
        } else if !below.is_empty() {
            self.repeated.entry(element.0.clone()).or_default().push(below);
        }
    }

    /// The set of all fields.
    pub(super) fn finish(mut self) -> FieldSet {
        for (step, mut sets) in self.repeated {
            let node = self.nodes.get_or_insert_with(step, Node::default);
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
