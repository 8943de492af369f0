//! Tests the command as a process.

mod access;
mod backup_and_export;
mod crash_recovery;
mod crd_diff;
mod envtest;
mod get_and_proxy;
mod get_as_kubectl;
mod kubectl;
mod open_file_limit;
mod pods;
mod process;
mod replay;
mod run_controllers;
mod scaffold;
mod up_crash_recovery;
mod up_output;
