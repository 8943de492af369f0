//! What the rules of a definition may cost at most, and the complaints where that is too much.

use kubewright_core::meta::v1::StatusCause;

use super::extent::Measured;
use super::{Additional, Schema};

/// What one expression may cost, for all values that it is asked about.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// What all expressions of a schema may cost together.
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are named.
const NAMED: usize = 4;

/// The costs of a schema so far.
#[derive(Default)]
pub(super) struct Costs {
    total: u64,
    /// Those that have a part in it worth mentioning, the most expensive first.
    most_expensive: Vec<(String, u64)>,
}

impl Costs {
    /// Adds the cost of an expression, and complains if it alone is too much.
    pub(super) fn add(&mut self, field: String, what: &str, cost: u64, causes: &mut Vec<StatusCause>) {
        if cost > EXPRESSION_LIMIT {
            causes.push(StatusCause::forbidden(field.as_str(), &message(what, cost, EXPRESSION_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.most_expensive.push((field, cost));
            self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(NAMED);
        }
    }

    /// Complains about the whole schema at `path`.
    pub(super) fn finish(self, path: &str, causes: &mut Vec<StatusCause>) {
        if self.total <= TOTAL_LIMIT {
            return;
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        causes.extend(self.most_expensive.into_iter().map(|(field, _)| StatusCause::forbidden(field, why)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.push(StatusCause::forbidden(path, &message(what, self.total, TOTAL_LIMIT)));
    }
}

fn message(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// How many values of a schema an object may hold; `None` where nothing but the size of a request limits them.
#[derive(Clone, Copy)]
pub(super) struct Count(pub(super) Option<u64>);

impl Count {
    /// The one object.
    pub(super) const ONE: Count = Count(Some(1));

    /// The count of the parts of such values.
    pub(super) fn of_parts(self, schema: &Schema) -> Count {
        let factor = match &*schema.ty {
            "object" => match &schema.additional {
                Some(Additional::Schema(_) | Additional::Any(_)) => schema.bounds.max_properties.map(|max| max as u64),
                None => Some(1),
            },
            "array" => schema.bounds.max_items.map(|max| max as u64),
            _ => Some(1),
        };
        Count(self.0.zip(factor).map(|(count, factor)| count.saturating_mul(factor)))
    }

    /// What an expression costs for all of them.
    pub(super) fn times(self, cost: u64, measured: &Measured) -> u64 {
        cost.saturating_mul(self.0.unwrap_or_else(|| measured.most()))
    }
}
