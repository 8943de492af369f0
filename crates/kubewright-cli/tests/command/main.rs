//! Tests the command as a process.

mod access;
mod asking;
mod copying;
mod crowded;
mod killed;
mod killed_up;
mod kubectl;
mod process;
mod running;
mod scaffold;
mod showing;
