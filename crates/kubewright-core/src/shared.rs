//! Sub-objects that objects hold in common until one of them is changed.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};

use triomphe::Arc;

use crate::message::{Message, SharedMessage};
use crate::{List, Map};

/// A sub-object that clones share.
///
/// Reading looks as if it were the object itself; the first write to a clone gives it a copy of its own. So a clone of a
/// cached object, made to be changed in one field, copies little more than that field.
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

    /// The value itself, copied where others hold it as well.
    pub fn into_inner(self) -> T
    where
        T: Clone,
    {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    #[inline]
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

/// What a decoder keeps of a value that may come again; its type is known to the field alone.
pub type Kept = Box<dyn Any + Send + Sync>;

/// The place of a value that objects can hold in common.
pub trait Sharing {
    /// Whether there is no value.
    fn vacant(&self) -> bool;
    /// The value, to be held elsewhere as well.
    fn share(&mut self) -> Kept;
    /// Takes a value that was shared; tells whether it was of the right type.
    fn adopt(&mut self, kept: &Kept) -> bool;
}

fn adopt<T: Clone + 'static>(place: &mut T, kept: &Kept) -> bool {
    match kept.downcast_ref::<T>() {
        Some(value) => {
            *place = value.clone();
            true
        }
        None => false,
    }
}

impl<T: Clone + Send + Sync + 'static> Sharing for List<T> {
    fn vacant(&self) -> bool {
        self.is_empty()
    }
    fn share(&mut self) -> Kept {
        List::share(self);
        Box::new(self.clone())
    }
    fn adopt(&mut self, kept: &Kept) -> bool {
        adopt(self, kept)
    }
}

impl<T: Clone + Send + Sync + 'static> Sharing for Map<T> {
    fn vacant(&self) -> bool {
        self.is_empty()
    }
    fn share(&mut self) -> Kept {
        Map::share(self);
        Box::new(self.clone())
    }
    fn adopt(&mut self, kept: &Kept) -> bool {
        adopt(self, kept)
    }
}

impl<T: Clone + Send + Sync + 'static> Sharing for Option<Shared<T>> {
    fn vacant(&self) -> bool {
        self.is_none()
    }
    fn share(&mut self) -> Kept {
        Box::new(self.clone())
    }
    fn adopt(&mut self, kept: &Kept) -> bool {
        adopt(self, kept)
    }
}

impl<T: Message + Clone + Default> SharedMessage for Option<Shared<T>> {
    fn message(&mut self) -> &mut dyn Message {
        // Spelt out, because the combinator would be compiled again for each type of objects.
        if self.is_none() {
            *self = Some(Shared::default());
        }
        match self {
            Some(message) => &mut **message,
            None => unreachable!("made above"),
        }
    }
}
