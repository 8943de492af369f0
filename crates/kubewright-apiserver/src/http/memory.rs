//! A limit on the bytes that many buffers hold together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of request bodies in memory, unless the owner of the server says otherwise.
pub(crate) const REQUEST_BYTES: usize = 128 << 20;

/// A number of bytes from which buffers reserve their part. Clones are the same budget.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget(Arc<Semaphore>);

/// Bytes of a budget, free again when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Option<OwnedSemaphorePermit>);

impl MemoryBudget {
    pub(crate) fn new(total: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        MemoryBudget(Arc::new(Semaphore::new(total)))
    }

    /// Adds bytes to a reservation. False if not so many are free.
    pub(crate) fn extend(&self, reservation: &mut Reservation, bytes: usize) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else { return false };
        let Ok(permit) = Arc::clone(&self.0).try_acquire_many_owned(bytes) else { return false };
        match &mut reservation.0 {
            Some(have) => have.merge(permit),
            none => *none = Some(permit),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_free_again_when_a_reservation_is_dropped() {
        let budget = MemoryBudget::new(10);
        let mut first = Reservation::default();
        assert!(budget.extend(&mut first, 4) && budget.extend(&mut first, 4) && !budget.extend(&mut first, 4));
        drop(first);
        assert!(budget.extend(&mut Reservation::default(), 10));
    }
}
