//! Checks the goals. A goal without figures is reported as not measured.

/// The goals of a row.
#[derive(Debug, Default)]
pub struct Goals {
    all: Vec<Goal>,
}

#[derive(Debug)]
pub struct Goal {
    pub text: String,
    /// The measured value, if there is one.
    pub value: Option<f64>,
    pub bound: f64,
    pub met: bool,
}

impl Goals {
    /// `value` may not be above `bound`.
    pub fn at_most(&mut self, text: &str, value: Option<f64>, bound: f64) {
        self.all.push(Goal { text: text.to_owned(), value, bound, met: value.is_some_and(|value| value <= bound) });
    }

    /// `value` may not be below `bound`.
    pub fn at_least(&mut self, text: &str, value: Option<f64>, bound: f64) {
        self.all.push(Goal { text: text.to_owned(), value, bound, met: value.is_some_and(|value| value >= bound) });
    }

    pub fn iter(&self) -> impl Iterator<Item = &Goal> {
        self.all.iter()
    }

    /// Goals that were measured and missed.
    pub fn missed(&self) -> impl Iterator<Item = &Goal> {
        self.all.iter().filter(|goal| goal.value.is_some() && !goal.met)
    }
}

/// The ratio of the value to `of`.
pub fn ratio(value: Option<f64>, of: Option<f64>) -> Option<f64> {
    Some(value? / of?).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmeasured_goal_is_not_missed() {
        let mut goals = Goals::default();
        goals.at_most("memory", ratio(Some(3.0), None), 0.5);
        goals.at_most("time", ratio(Some(3.0), Some(4.0)), 0.5);
        goals.at_least("rate", ratio(Some(4.0), Some(1.0)), 3.0);
        assert_eq!(goals.missed().map(|goal| goal.text.as_str()).collect::<Vec<_>>(), ["time"]);
    }
}
