//! Panics of others' code as values.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work`, and gives the text of its panic if it panics. Whatever it has left in disorder must not be used again.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}
