//! Exec plugins: programs that print credentials.

mod credential;
mod error;
mod exchange;
mod plugin;
mod run;

pub use error::ExecError;
pub(crate) use plugin::ExecPlugin;
