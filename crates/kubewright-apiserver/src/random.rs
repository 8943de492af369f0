//! Names and identities that nobody can guess.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The letters of generated names: no vowels, so that no words come out, and nothing that looks alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The next random number: a counter, hashed with keys that the system chose at random.
pub(crate) fn number() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// A random UUID of version 4.
pub(crate) fn uid() -> String {
    let (high, low) = (number(), number());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// `count` random letters.
pub(crate) fn letters(count: usize) -> String {
    (0..count).map(|_| char::from(LETTERS[(number() % LETTERS.len() as u64) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_uuid_of_version_4() {
        let uid = uid();
        let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(uid.as_bytes()[14] == b'4' && b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        assert_eq!(letters(5).len(), 5);
    }
}
