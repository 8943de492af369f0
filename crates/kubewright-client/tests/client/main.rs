//! The client against the embedded server, and against scripts of faults. Contracts are cited by their ids.

mod objects;
mod support;
