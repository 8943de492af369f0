//! Copy-on-write sub-objects.

use std::fmt;
use std::ops::{Deref, DerefMut};

use triomphe::Arc;

/// A sub-object that clones share, with copy-on-write.
///
/// It dereferences to the object; the first write to a clone copies it. Cloning a cached object and
/// changing one field copies little more than that field.
///
/// ```
/// use kubewright_core::Shared;
/// let first = Shared::new(vec![1, 2]);
/// let mut second = first.clone();
/// second.push(3);
/// assert_eq!((first.len(), second.len()), (2, 3));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Holds `value`.
    pub fn new(value: T) -> Self {
        Shared(Arc::new(value))
    }

    /// The value, copied if it is shared.
    pub fn into_inner(self) -> T
    where
        T: Clone,
    {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared::new(value)
    }
}

impl<T> AsRef<T> for Shared<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
