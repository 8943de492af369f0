//! The Common Expression Language (CEL) in the dialect of Kubernetes.
//!
//! Kubernetes uses CEL for validation rules of custom resources, admission policies, match
//! conditions of webhooks and device selectors. This crate compiles and evaluates such expressions.
//! It needs no server: variables are plain values, and questions to an authorizer are a closure.
//!
//! - An [`Environment`] declares variables and their types. It compiles expressions.
//! - A [`Program`] is a compiled, type-checked expression. It is immutable and can be shared.
//! - An [`Activation`] holds the values of the variables for one evaluation.
//! - A [`Budget`] limits the cost of evaluation, in the cost units of Kubernetes.
//! - [`Environment::max_cost`] estimates the worst case ahead of time, from [`SizeLimits`].
//!
//! ```
//! use kubewright_cel::{Activation, Budget, Environment, Type, Value};
//! use kubewright_core::json;
//!
//! let environment = Environment::new().variable("self", Type::map(Type::Int));
//! let program = environment.compile("self.replicas <= self.maxReplicas")?;
//! assert_eq!(program.result_type(), &Type::Bool);
//!
//! let object = Value::from_json(&json!({"replicas": 3, "maxReplicas": 5}));
//! let activation = Activation::new().with("self", object);
//! assert!(program.evaluate_bool(&activation, &mut Budget::for_object())?);
//!
//! let error = environment.compile("self.replicas <= 'five'").unwrap_err();
//! assert!(error.to_string().contains("no matching overload for '_<=_'"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Dialect
//!
//! The language is that of [cel-spec], without protocol buffer messages. Field names that are no
//! identifiers are escaped as in CRD validation rules ([`escape_field_name`]). Numbers of different
//! types can be ordered, and compare equal in a `dyn` context. These libraries are available:
//!
//! | library | functions |
//! |---|---|
//! | standard | `size`, `type`, `dyn`, `matches`, `contains`, `startsWith`, conversions, dates |
//! | macros | `has`, `all`, `exists`, `exists_one`, `filter`, `map`, and their two-variable forms |
//! | optional types | `optional.of`, `.?field`, `[?key]`, `orValue`, `optMap`, `optFlatMap` |
//! | strings | `charAt`, `indexOf`, `replace`, `split`, `join`, `substring`, `format`, … |
//! | lists | `isSorted`, `sum`, `min`, `max`, `slice`, `flatten`, `distinct`, `sort`, `sortBy`, … |
//! | sets | `sets.contains`, `sets.equivalent`, `sets.intersects` |
//! | regex | `find`, `findAll` |
//! | quantity, semver, url, ip, cidr | parsing, accessors and comparison |
//! | format | `format.dns1123Label()` and the other named formats, `validate` |
//! | authorizer | `path`, `group`, `resource`, `check`, `allowed`, `reason` |
//! | bindings | `cel.bind`, if enabled with [`Environment::with_bindings`] |
//! | mutation | `Object{}`, `JSONPatch{}` and `jsonpatch.escapeKey`, if their types are declared |
//!
//! Time zones are `UTC` or offsets such as `+02:00`. Names such as `Europe/Berlin` are unknown.
//!
//! # Guarantees
//!
//! No expression and no value causes a panic or unbounded recursion. Error messages follow those of
//! kube-apiserver. Runtime costs are close to its numbers; estimated costs are equal to them.
//!
//! The interpreter is hand-written. The crate `cel` depends on a parser generator's runtime, and
//! lacks the Kubernetes libraries, cost limits and optional types.
//!
//! [cel-spec]: https://github.com/google/cel-spec

mod activation;
mod ast;
mod authorization;
mod budget;
mod checker;
mod cidr;
mod cost;
mod environment;
mod equality;
mod error;
mod evaluator;
mod functions;
pub mod go_regex;
mod identifiers;
mod lexer;
mod macros;
mod number_format;
mod operators;
mod overloads;
mod parser;
mod program;

pub mod string_format;
#[cfg(test)]
mod tests;
mod timestamp;
mod types;
mod url;
mod value;
mod version;

pub use activation::Activation;
pub use authorization::{AuthorizationCheck, AuthorizationDecision, CheckKind};
pub use budget::Budget;
pub use cidr::Cidr;
pub use cost::SizeLimits;
pub use environment::Environment;
pub use error::{CompileError, EvaluationError};
pub use identifiers::{escape_field_name, is_identifier};
pub use number_format::format_double;
pub use program::Program;
pub use types::{Field, ListKind, Type};
pub use url::Url;
pub use value::{MapKey, Value};
pub use version::Semver;
