//! Scalar values of the API: durations, quantities, times, and numbers that may be texts.

mod duration;
mod int_or_string;
mod quantity;
mod text;
mod time;

pub use duration::{Duration, DurationRangeError, ParseDurationError};
pub use int_or_string::{IntOrString, PercentError};
pub use quantity::{ParseQuantityError, Quantity, QuantityFormat};
pub use time::{MicroTime, ParseTimeError, Time, TimeRangeError};
