//! Evaluates a CEL expression over a JSON object, which is the variable `self`.
//!
//! ```text
//! cargo run -p kubewright-cel --example evaluate -- 'self.replicas > 1' '{"replicas": 3}'
//! ```

use std::error::Error;
use std::process::ExitCode;

use kubewright_cel::{Activation, Budget, Environment, Type, Value};
use kubewright_core::Value as Json;

fn evaluate(expression: &str, object: &str) -> Result<String, Box<dyn Error>> {
    let object: Json = object.parse()?;
    let environment = Environment::new().variable("self", Type::Dyn).with_bindings();
    let program = environment.compile(expression)?;
    let activation = Activation::new().with("self", Value::from_json(&object));
    let result = program.evaluate(&activation, &mut Budget::for_object())?;
    Ok(result.to_json().map_or_else(|| format!("{result:?}"), |json| json.to_string()))
}

#[expect(clippy::print_stderr, reason = "a command-line program")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(expression) = arguments.next() else {
        eprintln!("usage: evaluate EXPRESSION [JSON]");
        return ExitCode::FAILURE;
    };
    match evaluate(&expression, arguments.next().as_deref().unwrap_or("{}")) {
        Ok(result) => println!("{result}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
