//! The Kubernetes object model without I/O: keys, kinds, objects, selectors, scalars and codecs.

mod list;
mod map;
mod str;

pub use list::List;
pub use map::Map;
pub use str::Str;
