//! Amounts of resources, none of them finer than thousandths.

use kubewright_core::{Quantity, Value};

use crate::object::tree;

const MILLI: i32 = -3;

/// Rounds up what somebody asks for, and may have at the most.
pub(super) fn requirements(resources: &mut Value) {
    round_up(resources, "limits");
    round_up(resources, "requests");
}

/// Rounds up the amounts in a field that are finer than thousandths.
pub(super) fn round_up(value: &mut Value, field: &str) {
    // Hardly ever anything is, and who only looks copies nothing.
    if !value.get(field).and_then(Value::as_object).is_some_and(|amounts| amounts.values().any(is_fine)) {
        return;
    }
    let Some(Value::Object(amounts)) = tree::field_mut(value, field) else { return };
    for (_, amount) in amounts.iter_mut().filter(|(_, amount)| is_fine(amount)) {
        if let Some(mut quantity) = amount.as_str().and_then(|text| text.parse::<Quantity>().ok()) {
            quantity.round_up(MILLI);
            *amount = quantity.to_string().into();
        }
    }
}

/// Whether a text may be finer than thousandths: millionths, billionths, a negative exponent or many decimals.
fn is_fine(amount: &Value) -> bool {
    amount.as_str().is_some_and(|text| text.ends_with(['n', 'u']) || text.contains(['.', 'e', 'E']))
}
