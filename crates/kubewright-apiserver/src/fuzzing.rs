//! Entry points into private parts for the fuzz targets in `fuzz/`.

use kubewright_core::Value;

use crate::cel::{self, Budget, Program, Type, Variables};
use crate::schema::Schema;

/// Compiles an expression and evaluates it over an object.
pub fn evaluate(expression: &str, object: &Value) {
    let Ok(program) = Program::compile(expression, &[("self", Type::Dyn)]) else { return };
    let mut variables = Variables::default();
    variables.set("self", cel::Value::of_tree(object));
    let _ = program.evaluate(&variables, &mut Budget::for_object());
}

/// Reads a schema, and completes and validates an object by it.
pub fn validate(schema: &Value, mut object: Value) {
    let schema = Schema::read(schema);
    schema.complete(&mut object);
    let causes = schema.complaints(&object, None);
    let _ = schema.further_complaints(causes, &object, None, &mut Vec::new());
}
