//! The CEL environments of ValidatingAdmissionPolicies and MutatingAdmissionPolicies.

use kubewright_cel::{Environment, Type};

/// CEL variables without a static type. Expressions can also use `authorizer`.
const VARIABLES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];

/// The CEL environment of policy expressions.
pub fn policy_environment() -> Environment {
    let untyped = VARIABLES.into_iter().fold(Environment::new(), |all, name| all.variable(name, Type::Dyn));
    untyped.variable("authorizer", Type::Opaque("authorizer"))
}

/// The CEL environment of mutations: policy variables, and constructors of objects and patches.
pub fn mutation_environment() -> Environment {
    policy_environment().variable("Object", Type::Type).variable("JSONPatch", Type::Type)
}
