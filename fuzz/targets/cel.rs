//! Any expression is rejected, or evaluates within its budget over any object.
//!
//! The input is the expression, a zero byte, and the object as JSON.
#![no_main]

mod parts;

use kubewright_cel::{Activation, Budget, Environment, SizeLimits, Type, Value};
use kubewright_core::Value as Json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [expression, object] = parts::parts(input);
    let object: Json = object.parse().unwrap_or_default();
    let environment = Environment::new().variable("self", Type::Dyn).with_bindings();
    let Ok(program) = environment.compile(expression) else { return };
    environment.max_cost(&program, &SizeLimits::scalar(1000));
    let activation = Activation::new().with("self", Value::from_json(&object));
    let _ = program.evaluate(&activation, &mut Budget::for_object());
});
