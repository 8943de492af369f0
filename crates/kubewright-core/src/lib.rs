//! The Kubernetes object model without I/O: keys, kinds, objects, selectors, scalars and codecs.

mod bytes;
mod duration;
mod int_or_string;
mod list;
mod map;
mod quantity;
mod resource_version;
mod str;
mod text;
mod time;

pub use bytes::{Base64Error, ByteString};
pub use duration::{Duration, DurationRangeError, ParseDurationError};
pub use int_or_string::{IntOrString, PercentError};
pub use list::List;
pub use map::Map;
pub use quantity::{ParseQuantityError, Quantity, QuantityFormat};
pub use resource_version::{ResourceVersion, compare_resource_versions};
pub use str::Str;
pub use time::{MicroTime, ParseTimeError, Time, TimeRangeError};
