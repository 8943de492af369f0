//! Runs every program as a process against the embedded server, over TLS, and looks at what it did.
//!
//! `SIDE_BY_SIDE_BINARY` names another binary with the same programs, such as that of
//! `tests/side-by-side-kube`.

mod caches;
mod clients;
mod controllers;
mod processes;
mod webhooks;
mod world;
