//! A directed graph of names, and its cycles.

use std::collections::{BTreeMap, BTreeSet};

/// The imports between the entries of one folder.
#[derive(Default)]
pub struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
    /// Entries that are folders.
    folders: BTreeSet<String>,
}

/// Entries that import each other.
pub struct Cycle {
    pub nodes: Vec<String>,
    /// One import of each pair, as text.
    pub edges: Vec<String>,
    pub has_folder: bool,
}

impl Graph {
    /// Adds an import from one entry to another, of the item `path`.
    pub fn add(&mut self, (from, from_is_folder): (&str, bool), (to, to_is_folder): (&str, bool), path: &str) {
        for (name, is_folder) in [(from, from_is_folder), (to, to_is_folder)] {
            if is_folder {
                self.folders.insert(name.to_owned());
            }
        }
        let targets = self.edges.entry(from.to_owned()).or_default();
        targets.entry(to.to_owned()).or_insert_with(|| path.to_owned());
    }

    /// The strongly connected components of more than one entry.
    pub fn cycles(&self) -> Vec<Cycle> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|from| (from.as_str(), self.reachable(from))).collect();
        let mut done = BTreeSet::new();
        let mut cycles = Vec::new();
        for (from, targets) in &reached {
            if !targets.contains(from) || !done.insert(*from) {
                continue;
            }
            let leads_back = |to: &&str| *to != *from && reached.get(to).is_some_and(|targets| targets.contains(from));
            let mut nodes = vec![*from];
            nodes.extend(targets.iter().copied().filter(leads_back));
            done.extend(nodes.iter().copied());
            cycles.push(self.cycle(&nodes));
        }
        cycles
    }

    fn cycle(&self, nodes: &[&str]) -> Cycle {
        let mut edges = Vec::new();
        for from in nodes {
            for (to, path) in self.edges.get(*from).into_iter().flatten() {
                if nodes.contains(&to.as_str()) {
                    edges.push(format!("  {from} -> {to}: {path}"));
                }
            }
        }
        let has_folder = nodes.iter().any(|node| self.folders.contains(*node));
        Cycle { nodes: nodes.iter().map(|node| (*node).to_owned()).collect(), edges, has_folder }
    }

    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(node) = waiting.pop() {
            for to in self.edges.get(node).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(to.as_str()) {
                    waiting.push(to);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_names_its_entries_and_imports() {
        let mut graph = Graph::default();
        graph.add(("store", false), ("disk", true), "crate::disk::Disk");
        graph.add(("disk", true), ("store", false), "crate::store::Store");
        graph.add(("store", false), ("key", false), "crate::key::Key");
        let cycles = graph.cycles();
        assert_eq!(cycles.len(), 1);
        assert_eq!(cycles[0].nodes, ["disk", "store"]);
        assert_eq!(cycles[0].edges, ["  disk -> store: crate::store::Store", "  store -> disk: crate::disk::Disk"]);
        assert!(cycles[0].has_folder);
    }
}
