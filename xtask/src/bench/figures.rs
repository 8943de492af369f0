//! Measurements by case, contestant and metric, with medians and spreads.

use std::collections::HashMap;

/// Values, in the order in which cases, contestants and metrics were first added.
#[derive(Debug, Default)]
pub struct Figures {
    /// Cases and contestants. Each pair is a line of the table; lines of a case are adjacent.
    pub lines: Vec<(String, String)>,
    /// Metrics, whose names carry their units; each is a column.
    pub metrics: Vec<String>,
    values: HashMap<(String, String, String), Vec<f64>>,
}

impl Figures {
    /// Adds one measurement.
    pub fn add(&mut self, case: &str, contestant: &str, metric: &str, value: f64) {
        let line = (case.to_owned(), contestant.to_owned());
        if !self.lines.contains(&line) {
            let after_its_case = self.lines.iter().rposition(|known| known.0 == case).map(|last| last + 1);
            self.lines.insert(after_its_case.unwrap_or(self.lines.len()), line);
        }
        if !self.metrics.iter().any(|known| known == metric) {
            self.metrics.push(metric.to_owned());
        }
        self.values.entry((case.to_owned(), contestant.to_owned(), metric.to_owned())).or_default().push(value);
    }

    /// All measurements of one kind, smallest first; none if it was not measured.
    pub fn sorted(&self, case: &str, contestant: &str, metric: &str) -> Vec<f64> {
        let mut values =
            self.values.get(&(case.to_owned(), contestant.to_owned(), metric.to_owned())).cloned().unwrap_or_default();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The median, if it was measured.
    pub fn median(&self, case: &str, contestant: &str, metric: &str) -> Option<f64> {
        let values = self.sorted(case, contestant, metric);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            count if count % 2 == 1 => Some(values[middle]),
            _ => Some((values[middle - 1] + values[middle]) / 2.0),
        }
    }

    /// The smallest of several medians: the better of peers, or the best variant.
    pub fn least(&self, cases: &[&str], contestants: &[&str], metric: &str) -> Option<f64> {
        let medians = cases.iter().flat_map(|case| contestants.iter().map(|who| self.median(case, who, metric)));
        medians.flatten().min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let mut figures = Figures::default();
        for value in [3.0, 1.0, 10.0] {
            figures.add("sync", "ours", "CPU s", value);
        }
        assert_eq!(figures.median("sync", "ours", "CPU s"), Some(3.0));
        figures.add("sync", "ours", "CPU s", 5.0);
        assert_eq!(figures.median("sync", "ours", "CPU s"), Some(4.0));
        assert_eq!(figures.median("sync", "theirs", "CPU s"), None);
        assert_eq!(figures.lines.len(), 1);
    }

    #[test]
    fn rows_of_a_case_are_adjacent() {
        let mut figures = Figures::default();
        for (case, contestant) in [("get", "ours"), ("list", "ours"), ("get", "theirs")] {
            figures.add(case, contestant, "ns", 1.0);
        }
        let cases: Vec<&str> = figures.lines.iter().map(|line| line.0.as_str()).collect();
        assert_eq!(cases, ["get", "get", "list"]);
    }
}
