//! The command as its users meet it: as a process.

mod asking;
mod killed;
