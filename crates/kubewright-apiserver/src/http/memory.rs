//! A limit on the bytes that many buffers hold together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of request bodies in memory, unless the owner of the server says otherwise.
pub(crate) const REQUEST_BYTES: usize = 128 << 20;
/// Bytes of lists in memory that cannot be encoded while they are sent.
pub(crate) const LIST_BYTES: usize = 256 << 20;

/// A number of bytes from which buffers reserve their part. Clones are the same budget.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    free: Arc<Semaphore>,
    total: usize,
}

/// Bytes of a budget, free again when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Option<OwnedSemaphorePermit>);

impl MemoryBudget {
    pub(crate) fn new(total: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        MemoryBudget { free: Arc::new(Semaphore::new(total)), total }
    }

    /// Adds bytes to a reservation. False if not so many are free.
    pub(crate) fn extend(&self, reservation: &mut Reservation, bytes: usize) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else { return false };
        let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(bytes) else { return false };
        match &mut reservation.0 {
            Some(have) => have.merge(permit),
            none => *none = Some(permit),
        }
        true
    }

    /// Reserves bytes for a buffer that exists already. One that is larger than the whole budget
    /// needs all of it. `None` if too few are free.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = Reservation::default();
        (bytes == 0 || self.extend(&mut reservation, bytes.min(self.total))).then_some(reservation)
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
        assert!(budget.reserve(0).is_some() && budget.reserve(100).is_none());
        drop(first);
        assert!(budget.reserve(100).is_some(), "a large buffer takes the whole budget");
    }
}
