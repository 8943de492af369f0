//! Scalars, selectors and names are rejected, or their printed form parses to the same value.
#![no_main]

use std::fmt::Display;
use std::str::FromStr;

use kubewright_core::selector::{FieldSelector, Selector};
use kubewright_core::{
    ByteString, Duration, GroupVersion, GroupVersionKind, GroupVersionResource, IntOrString, MicroTime, ObjectKey,
    Quantity, RawJson, Time,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [which, rest @ ..] = input else { return };
    if let Ok(bytes) = ByteString::from_base64(rest) {
        assert_eq!(ByteString::from_base64(bytes.to_base64().as_bytes()), Ok(bytes));
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match which % 11 {
        0 => quantity(text),
        1 => same::<Time>(text),
        2 => same::<MicroTime>(text),
        3 => same::<Duration>(text),
        4 => same::<IntOrString>(text),
        5 => same::<Selector>(text),
        6 => same::<FieldSelector>(text),
        7 => same::<GroupVersion>(text),
        8 => same::<GroupVersionKind>(text),
        9 => same::<GroupVersionResource>(text),
        _ => {
            same::<ObjectKey>(text);
            same::<RawJson>(text);
        }
    }
});

fn same<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let printed = value.to_string();
    let again = printed.parse::<T>().unwrap_or_else(|_| panic!("{text:?} printed {printed:?}, which is refused"));
    assert_eq!(again, value, "{text:?} printed {printed:?}");
}

/// Keeps its value, and in canonical form its text.
fn quantity(text: &str) {
    let Ok(quantity) = text.parse::<Quantity>() else { return };
    let canonical = quantity.to_canonical();
    assert_eq!(canonical, quantity, "{text:?}");
    let printed = canonical.to_string();
    let again: Quantity = printed.parse().unwrap_or_else(|_| panic!("{text:?} printed {printed:?}, which is refused"));
    assert_eq!(again, quantity, "{text:?} printed {printed:?}");
    assert_eq!(again.to_string(), printed);
    let _ = (quantity.value(), quantity.milli_value(), quantity.to_f64(), quantity.as_i64(), quantity.signum());
}
