//! Delta encoding of objects against a reference object, the draft.
//!
//! Objects of one owner follow each other in a list and differ in a few places; even unrelated
//! objects of one kind share most of their bytes. From time to time an object becomes the draft of
//! the objects that follow. Those store literal bytes plus copy instructions (position and length
//! in the draft). Decoding needs only the object and its draft, which lives as long as any object
//! refers to it.

use std::sync::Arc;

use kubewright_core::DecodeError;

/// Minimum length of a copy: shorter ones cost as much as they save.
const SHORTEST: usize = 8;
/// Number of entries in the hash table of draft positions, two bytes each.
const TABLE: usize = 1 << 12;
/// Maximum length of a draft: positions are two bytes, and zero means none.
const LONGEST: usize = u16::MAX as usize;

/// The draft that the next objects are encoded against.
#[derive(Default)]
pub(super) struct Drafts {
    current: Option<CompactDraft>,
    /// Buffer for the encoding of one object, reused between objects.
    differences: Vec<u8>,
}

struct CompactDraft {
    bytes: Arc<[u8]>,
    /// For each hash of [`SHORTEST`] bytes one position where they occur, plus one.
    places: Box<[u16]>,
}

impl Drafts {
    /// Encodes `bytes` against the current draft. If they have too little in common with it, they
    /// become the draft themselves.
    pub(super) fn differences(&mut self, bytes: &[u8]) -> (&[u8], Arc<[u8]>) {
        self.differences.clear();
        if let Some(draft) = &self.current {
            draft.write_differences(bytes, &mut self.differences);
        }
        let draft = match &self.current {
            Some(draft) if self.differences.len() <= bytes.len() / 2 => draft,
            _ => {
                self.differences.clear();
                write_step(&mut self.differences, &[], bytes.len(), 0);
                self.current.insert(CompactDraft::new(bytes))
            }
        };
        (&self.differences, Arc::clone(&draft.bytes))
    }
}

impl CompactDraft {
    fn new(bytes: &[u8]) -> Self {
        let mut places = vec![0; TABLE].into_boxed_slice();
        for (at, word) in bytes.windows(SHORTEST).take(LONGEST).enumerate() {
            places[hash(word)] = at as u16 + 1;
        }
        CompactDraft { bytes: bytes.into(), places }
    }

    fn write_differences(&self, bytes: &[u8], out: &mut Vec<u8>) {
        // `written`: end of the encoded input. `expected`: where the next copy starts without a
        // jump. `at`: search position.
        let (mut written, mut expected, mut at) = (0, 0, 0);
        while let Some(word) = bytes.get(at..at + SHORTEST) {
            let Some(mut place) = self.find(word) else {
                at += 1;
                continue;
            };
            while at > written && place > 0 && bytes[at - 1] == self.bytes[place - 1] {
                (at, place) = (at - 1, place - 1);
            }
            let same = bytes[at..].iter().zip(&self.bytes[place..]).take_while(|(a, b)| a == b).count();
            let new = &bytes[written..at];
            write_step(out, new, same, place as i64 - (expected + new.len()) as i64);
            (at, expected) = (at + same, place + same);
            written = at;
        }
        if written < bytes.len() {
            write_step(out, &bytes[written..], 0, 0);
        }
    }

    /// The position of `word` in the draft.
    fn find(&self, word: &[u8]) -> Option<usize> {
        let place = usize::from(self.places[hash(word)]).checked_sub(1)?;
        (&self.bytes[place..place + SHORTEST] == word).then_some(place)
    }
}

fn hash(word: &[u8]) -> usize {
    let word: [u8; SHORTEST] = word.try_into().unwrap_or_default();
    (u64::from_le_bytes(word).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// Writes literal bytes, followed by a copy of `same` bytes at `jump` from the expected position.
fn write_step(out: &mut Vec<u8>, new: &[u8], same: usize, jump: i64) {
    write_number(out, new.len() as u64);
    out.extend_from_slice(new);
    write_number(out, same as u64);
    if same > 0 {
        write_number(out, (jump << 1 ^ jump >> 63) as u64);
    }
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes `differences` against `draft` and appends the result to `out`.
pub(super) fn restore(mut differences: &[u8], draft: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut expected = 0;
    while !differences.is_empty() {
        let length = read_number(&mut differences)? as usize;
        let (new, rest) = differences.split_at_checked(length).ok_or_else(damaged)?;
        out.extend_from_slice(new);
        differences = rest;
        let same = read_number(&mut differences)? as usize;
        if same > 0 {
            let jump = read_number(&mut differences)?;
            let jump = (jump >> 1) as i64 ^ -((jump & 1) as i64);
            let place = (expected + new.len()).checked_add_signed(jump as isize).ok_or_else(damaged)?;
            let piece = draft.get(place..).and_then(|piece| piece.get(..same)).ok_or_else(damaged)?;
            out.extend_from_slice(piece);
            expected = place + same;
        }
    }
    Ok(())
}

fn read_number(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(damaged)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err(damaged())
}

/// The error for an inconsistent encoding, which only a bug in this file can cause.
fn damaged() -> DecodeError {
    DecodeError::new("inconsistent delta encoding of a compact object")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(drafts: &mut Drafts, bytes: &[u8]) -> usize {
        let (differences, draft) = drafts.differences(bytes);
        let mut again = b"before".to_vec();
        restore(differences, &draft, &mut again).unwrap();
        assert_eq!(&again[6..], bytes);
        differences.len()
    }

    #[test]
    fn values_of_the_draft_are_not_stored_again() {
        let mut drafts = Drafts::default();
        let text = |name: &str| format!("kind: Pod, name: {name}, image: registry.example.com/shop/web:1.0, node: a");
        assert!(round_trip(&mut drafts, text("web-1").as_bytes()) < 5, "the draft itself");
        assert!(round_trip(&mut drafts, text("web-2").as_bytes()) < 10);
        assert!(round_trip(&mut drafts, text("another-name").as_bytes()) < 22);
        let stranger: Vec<u8> = (0..200).collect();
        assert!(round_trip(&mut drafts, &stranger) < 5, "becomes the next draft");
        assert_eq!(round_trip(&mut drafts, b""), 0);
    }

    proptest! {
        #[test]
        fn all_bytes_round_trip(
            pieces in proptest::collection::vec(proptest::collection::vec(0..4u8, 0..40), 1..6),
            order in proptest::collection::vec(proptest::collection::vec(0..6usize, 0..30), 1..8),
        ) {
            let mut drafts = Drafts::default();
            for object in order {
                let bytes: Vec<u8> = object.iter().flat_map(|at| pieces[at % pieces.len()].iter().copied()).collect();
                round_trip(&mut drafts, &bytes);
            }
        }

        #[test]
        fn nothing_panics(differences in proptest::collection::vec(any::<u8>(), 0..40), draft in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = restore(&differences, &draft, &mut Vec::new());
        }
    }
}
