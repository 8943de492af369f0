//! The client against the embedded server, and against scripts of faults. Contracts are cited by
//! their ids.

mod agreement;
mod applying;
mod clientset;
mod discovery;
mod discovery_memory;
mod dynamic;
mod faults;
mod memory;
mod objects;
mod paging;
mod remote;
mod rest;
mod script;
mod spdy;
mod support;
mod watching;
