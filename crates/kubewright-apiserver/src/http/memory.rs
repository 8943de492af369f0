//! Limits the total memory of buffers.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Default limit for request bodies, in bytes.
pub(crate) const REQUEST_BYTES: usize = 128 << 20;
/// Limit for the memory of responses that is not shared with stored objects, in bytes.
pub(crate) const RESPONSE_BYTES: usize = 256 << 20;

/// A memory budget in bytes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    free: Arc<Semaphore>,
    total: usize,
}

/// Reserved bytes, released on drop.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation(Option<OwnedSemaphorePermit>);

impl MemoryBudget {
    pub(crate) fn new(total: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        MemoryBudget { free: Arc::new(Semaphore::new(total)), total }
    }

    /// Extends a reservation. Returns false if the budget is exhausted.
    pub(crate) fn extend(&self, reservation: &mut MemoryReservation, bytes: usize) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else { return false };
        let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(bytes) else { return false };
        match &mut reservation.0 {
            Some(have) => have.merge(permit),
            none => *none = Some(permit),
        }
        true
    }

    /// Reserves memory for an existing buffer. One that exceeds the whole budget reserves all of
    /// it. `None` if the budget is exhausted.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<MemoryReservation> {
        let mut reservation = MemoryReservation::default();
        (bytes == 0 || self.extend(&mut reservation, bytes.min(self.total))).then_some(reservation)
    }

    /// Reserves memory for an existing buffer, or the rest of the budget.
    pub(crate) fn reserve_rest(&self, mut bytes: usize) -> MemoryReservation {
        let mut reservation = MemoryReservation::default();
        while bytes > 0 && !self.extend(&mut reservation, bytes) {
            bytes = bytes.min(self.free.available_permits());
        }
        reservation
    }

    /// Whether nothing is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.available_permits() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_reservation_releases_its_bytes() {
        let budget = MemoryBudget::new(10);
        let mut first = MemoryReservation::default();
        assert!(budget.extend(&mut first, 4) && budget.extend(&mut first, 4) && !budget.extend(&mut first, 4));
        assert!(budget.reserve(0).is_some() && budget.reserve(100).is_none());
        drop(first);
        assert!(budget.reserve(100).is_some(), "a large buffer takes the whole budget");
        let small = budget.reserve(4);
        let rest = budget.reserve_rest(100);
        assert!(small.is_some() && budget.is_exhausted() && budget.reserve(1).is_none());
        drop(rest);
        assert!(budget.reserve(6).is_some() && budget.reserve(7).is_none());
    }
}
