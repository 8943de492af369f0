//! Rounds quantities up to thousandths.

use kubewright_core::{Quantity, Value, tree};

const MILLI: i32 = -3;

/// Rounds requests and limits up.
pub(super) fn requirements(resources: &mut Value) {
    round_up(resources, "limits");
    round_up(resources, "requests");
}

/// Rounds the quantities in a field up to thousandths.
pub(super) fn round_up(value: &mut Value, field: &str) {
    // Such quantities are rare. Check first, so that shared data is not copied.
    if !value.get(field).and_then(Value::as_object).is_some_and(|amounts| amounts.values().any(is_below_milli)) {
        return;
    }
    let Some(Value::Object(amounts)) = tree::field_mut(value, field) else { return };
    for (_, amount) in amounts.iter_mut().filter(|(_, amount)| is_below_milli(amount)) {
        if let Some(mut quantity) = amount.as_str().and_then(|text| text.parse::<Quantity>().ok()) {
            quantity.round_up(MILLI);
            *amount = quantity.to_string().into();
        }
    }
}

/// Whether a quantity may be finer than thousandths.
fn is_below_milli(amount: &Value) -> bool {
    amount.as_str().is_some_and(|text| text.ends_with(['n', 'u']) || text.contains(['.', 'e', 'E']))
}
