//! Recordings of controllers, and their replays.

mod files;
mod inputs;
mod race;
mod real_server;
mod support;
