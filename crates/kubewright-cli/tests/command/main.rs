//! Tests the command as a process.

mod access;
mod backup_and_export;
mod bundle;
mod crash_recovery;
mod crd_diff;
mod envtest;
mod first_minute;
mod get_and_proxy;
mod get_as_kubectl;
mod kubectl;
mod open_file_limit;
mod pods;
mod process;
mod project;
mod replay;
mod run_controllers;
mod scaffold;
mod types;
mod up_crash_recovery;
mod up_output;
