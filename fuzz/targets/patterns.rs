//! Any schema defaults and validates any object, whatever its patterns, formats and defaults are.
//!
//! The input is a pattern, the schema as JSON, and the object as JSON, with zero bytes between
//! them.
#![no_main]

mod parts;

use kubewright_core::{Value, json};
use kubewright_schema::{Schema, validate_schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [pattern, schema, object] = parts::parts(input);
    let texts = json!({"type": "object", "additionalProperties": {"type": "string", "pattern": pattern}});
    validate(&texts, json!({"text": object}));
    if let (Ok(schema), Ok(object)) = (schema.parse::<Value>(), object.parse::<Value>()) {
        validate(&schema, object);
    }
});

fn validate(schema: &Value, mut object: Value) {
    let _ = validate_schema("schema", schema);
    let schema = Schema::parse(schema);
    schema.prune_and_default(&mut object);
    schema.validate(&object, None);
}
