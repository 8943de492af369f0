//! The client with the embedded server and with scripted faults. Comments cite contracts by id.

mod agreement;
mod applying;
mod builders;
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
