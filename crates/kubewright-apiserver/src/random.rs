//! Names and identities that nobody can guess.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The letters of generated names: no vowels, so that no words come out, and nothing that looks alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The next random number: a counter, hashed with keys that the system chose at random.
pub(crate) fn number() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// A random UUID of version 4.
pub(crate) fn uid() -> String {
    let random = u128::from(number()) << 64 | u128::from(number());
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut text = String::with_capacity(36);
    for digit in (0..32).rev() {
        text.push(char::from(DIGITS[(bits >> (4 * digit) & 0xf) as usize]));
        if matches!(digit, 24 | 20 | 16 | 12) {
            text.push('-');
        }
    }
    text
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
