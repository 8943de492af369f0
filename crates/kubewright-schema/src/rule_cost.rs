//! Limits on the estimated costs of rules.

use kubewright_core::meta::v1::StatusCause;

use crate::schema::{AdditionalProperties, Schema};
use crate::size_limits::ValueSize;

/// The limit for one expression, summed over all values that it is evaluated for.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// The limit for all expressions of a schema.
const TOTAL_LIMIT: u64 = 100_000_000;
/// The number of rules that are reported as the most expensive ones.
const MAX_REPORTED: usize = 4;

/// The costs of the rules of a schema so far.
#[derive(Default)]
pub(crate) struct RuleCosts {
    total: u64,
    /// Fields of expressions with a relevant share of the total, the most expensive first.
    most_expensive: Vec<(String, u64)>,
}

impl RuleCosts {
    /// Adds the cost of an expression, and reports it if it exceeds the limit alone.
    pub(crate) fn add(&mut self, field: String, what: &str, cost: u64, causes: &mut Vec<StatusCause>) {
        if cost > EXPRESSION_LIMIT {
            causes.push(StatusCause::forbidden(field.as_str(), &message(what, cost, EXPRESSION_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.most_expensive.push((field, cost));
            self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(MAX_REPORTED);
        }
    }

    /// Reports the schema at `path` if the total exceeds the limit.
    pub(crate) fn finish(self, path: &str, causes: &mut Vec<StatusCause>) {
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

/// The highest number of values of a schema in one object. `None` if only the size limit of
/// requests applies.
#[derive(Clone, Copy)]
pub(crate) struct Cardinality(Option<u64>);

impl Cardinality {
    /// One value: the object itself.
    pub(crate) const ONE: Cardinality = Cardinality(Some(1));

    /// The cardinality of the fields or items of such values.
    pub(crate) fn of_children(self, schema: &Schema) -> Cardinality {
        let factor = match &*schema.ty {
            "object" => match &schema.additional {
                Some(AdditionalProperties::Schema(_) | AdditionalProperties::Allowed(_)) => {
                    schema.bounds.max_properties.map(|max| max as u64)
                }
                None => Some(1),
            },
            "array" => schema.bounds.max_items.map(|max| max as u64),
            _ => Some(1),
        };
        Cardinality(self.0.zip(factor).map(|(count, factor)| count.saturating_mul(factor)))
    }

    /// The cost of an expression for all values.
    pub(crate) fn times(self, cost: u64, size: &ValueSize) -> u64 {
        cost.saturating_mul(self.0.unwrap_or_else(|| size.max_count()))
    }
}
