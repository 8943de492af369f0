//! Informers: caches that deliver events to handlers.

mod controller;
mod event;
mod handler;
mod process;
mod shared;

pub use controller::{Config, Controller, Informer, TryProcess, UnsupportedOption};
pub use event::Event;
pub use handler::{EventHandler, FilteringHandler, HandlerFuncs};
pub use process::Recreated;
pub use shared::{
    AddIndexersError, HandlerOptions, HandlerRegistration, InformerOptions, InformerStopped, OnPanic, Overflow,
    QueueKind, SharedIndexInformer,
};
