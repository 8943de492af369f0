//! Strings that keep coming for as long as a program runs, which it keeps to its end.
//!
//! To hold a string with others is to count: an atomic operation where an object takes it out of a pool and one where the object is
//! dropped, which together take as long as decoding the field, and longer where two processors do so at once. Nobody counts
//! the holders of a string that stays. There are few of these, for all pools together.

use std::sync::{Mutex, PoisonError};

use crate::Str;

/// More than there are names of labels, paths and images in most objects of a cluster. Each has at most the 256 bytes that a pool takes.
const MOST: usize = 1 << 8;

/// Sorted.
static TEXTS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// `text` as one that stays, unless there are as many as there may be.
pub(super) fn lasting(text: &str) -> Option<Str> {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    match texts.binary_search(&text) {
        Ok(at) => Some(Str::from_static(texts[at])),
        Err(_) if texts.len() >= MOST => None,
        Err(at) => {
            let text = Box::leak(Box::from(text));
            texts.insert(at, text);
            Some(Str::from_static(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_stays_once_and_no_more_than_a_few_do() {
        let node = |number: usize| format!("ip-10-0-0-{number}.eu-west-1.compute.internal");
        let kept: Vec<Str> = (0..2 * MOST).filter_map(|number| lasting(&node(number))).collect();
        assert!(!kept.is_empty() && kept.len() <= MOST, "{} stay", kept.len());
        for text in kept {
            let again = lasting(&text).expect("it stays");
            assert!(!again.is_heap_allocated() && std::ptr::eq(again.as_str(), text.as_str()));
        }
    }
}
