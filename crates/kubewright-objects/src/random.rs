//! Random UIDs, name suffixes and numbers.

use ring::rand::{SecureRandom, SystemRandom};

/// The alphabet of generated names, without vowels (so without words) and without similar
/// characters.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A random number. Not for secrets.
pub fn number() -> u64 {
    fastrand::u64(..)
}

/// An unpredictable random UUID (version 4).
pub fn uid() -> String {
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).expect("the system has random numbers");
    let bits = u128::from_ne_bytes(random) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut text = String::with_capacity(36);
    for digit in (0..32).rev() {
        text.push(char::from(DIGITS[(bits >> (4 * digit) & 0xf) as usize]));
        if matches!(digit, 24 | 20 | 16 | 12) {
            text.push('-');
        }
    }
    text
}

/// `count` random characters.
pub fn letters(count: usize) -> String {
    (0..count).map(|_| char::from(LETTERS[fastrand::usize(..LETTERS.len())])).collect()
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
