//! Shares repeated values with the decoder's cache.

use std::any::Any;

use crate::containers::{List, Map, Shared};

/// A type-erased shared value in the decoder's cache.
pub type CachedValue = Box<dyn Any + Send + Sync>;

/// The slot of a shareable value.
pub trait Sharing {
    /// Whether there is no value.
    fn vacant(&self) -> bool;
    /// Shares the value with the decoder's cache.
    fn share(&mut self) -> CachedValue;
    /// Adopts a shared value; returns whether the type matched.
    fn adopt(&mut self, kept: &CachedValue) -> bool;
}

fn adopt<T: Clone + 'static>(place: &mut T, kept: &CachedValue) -> bool {
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
    fn share(&mut self) -> CachedValue {
        List::share(self);
        Box::new(self.clone())
    }
    fn adopt(&mut self, kept: &CachedValue) -> bool {
        adopt(self, kept)
    }
}

impl<T: Clone + Send + Sync + 'static> Sharing for Map<T> {
    fn vacant(&self) -> bool {
        self.is_empty()
    }
    fn share(&mut self) -> CachedValue {
        Map::share(self);
        Box::new(self.clone())
    }
    fn adopt(&mut self, kept: &CachedValue) -> bool {
        adopt(self, kept)
    }
}

impl<T: Clone + Send + Sync + 'static> Sharing for Option<Shared<T>> {
    fn vacant(&self) -> bool {
        self.is_none()
    }
    fn share(&mut self) -> CachedValue {
        Box::new(self.clone())
    }
    fn adopt(&mut self, kept: &CachedValue) -> bool {
        adopt(self, kept)
    }
}
