//! Fields that few objects set.

use std::ops::{Deref, DerefMut};

/// Fields that few objects set, kept in an allocation of their own.
///
/// A type with such fields dereferences to them, so that reading and writing look the same for all;
/// the allocation is made by the first write. Only struct literals name it: `rare: Rare::from(…)`.
#[derive(Clone)]
pub struct Rare<T>(Option<Box<T>>);

/// The rare fields of a type; written by the generator.
pub trait RareFields: Default + 'static {
    /// All fields absent.
    fn unset() -> &'static Self;
}

impl<T> Rare<T> {
    /// The fields, where any has been set.
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
