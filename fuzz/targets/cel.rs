//! Any expression is refused, or evaluates within its budget over any object.
//!
//! The input is the expression, a zero byte, and the object as JSON.
#![no_main]

mod parts;

use kubewright_core::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [expression, object] = parts::parts(input);
    let object: Value = object.parse().unwrap_or_default();
    kubewright_apiserver::fuzzing::evaluate(expression, &object);
});
