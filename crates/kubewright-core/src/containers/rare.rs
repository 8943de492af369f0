//! Rarely set fields.

use std::ops::{Deref, DerefMut};

/// Rarely set fields in a separate allocation.
///
/// A type with such fields dereferences to them, so reads and writes look like those of other
/// fields; the first write allocates. Only struct literals mention it: `rare: Rare::from(…)`.
#[derive(Clone)]
pub struct Rare<T>(Option<Box<T>>);

/// The rare fields of a type; implemented by generated code.
pub trait RareFields: Default + 'static {
    /// All fields absent.
    fn unset() -> &'static Self;
}

impl<T> Rare<T> {
    /// The fields, if any is set.
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T: RareFields> Deref for Rare<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::unset())
    }
}

impl<T: RareFields> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(fields) => fields,
            none => none.insert(Box::default()),
        }
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T: RareFields> From<T> for Rare<T> {
    fn from(fields: T) -> Self {
        Rare(Some(Box::new(fields)))
    }
}
