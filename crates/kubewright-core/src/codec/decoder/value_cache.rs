//! Caches sub-objects and lists that repeat between objects, so that they are decoded and stored
//! once.
//!
//! Pods of one template differ in their names and status; their probes, resources, tolerations and
//! most of their containers are byte-identical. Each field caches its last few values with their
//! encoded bytes; on a hit the value is shared instead of decoded. No hash is needed: in protobuf
//! the length of a value is known, and in JSON the text of an object or array delimits itself, so a
//! comparison with the upcoming text suffices. Fields whose values never repeat, such as those of a
//! status, soon stop being cached.

use std::fmt;

use crate::codec::sharing::{CachedValue, Sharing};

/// Number of cached values per field. A list of containers has a few kinds of them.
const WAYS: usize = 4;
/// Longer values are rarely equal and slow to copy.
const LONGEST: usize = 2048;
/// Shorter values are as fast to decode.
const SHORTEST: usize = 8;
/// Values nested deeper are not shared; bounds how deep shared values can nest.
const DEEPEST: u32 = 16;
/// Initial and maximum credit: how many misses a field tolerates before it counts as cold.
const CREDIT: i8 = 8;
/// How many misses a cold field tolerates before we stop comparing.
const COLD_CREDIT: i8 = 16;
/// A cold field caches one value in this many, in case its values start to repeat. Prime, so that
/// it does not always pick the last one of a group.
const SAMPLE: i8 = 61;

/// The last values of each field.
#[derive(Default)]
pub(crate) struct ValueCache {
    fields: Vec<FieldCache>,
    /// Hash index: position in `fields` plus one, with linear probing. Invariant: the length is
    /// zero or a power of two, and at least half of it is free.
    places: Vec<u32>,
}

impl fmt::Debug for ValueCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueCache").field("fields", &self.fields.len()).finish_non_exhaustive()
    }
}

struct FieldCache {
    id: usize,
    /// Increases with each hit; decides whether to look up the next value.
    credit: i8,
    /// Increases with the first hit of each value; decides whether to cache the next new value. One
    /// value that repeats often does not compensate for others that never repeat.
    worth: i8,
    /// The last length of a list, at most 255.
    length: u8,
    /// The [`key`] of each value, so that the bytes of only one are compared.
    keys: [u64; WAYS],
    /// Most recently used first.
    values: Vec<RememberedValue>,
}

struct RememberedValue {
    bytes: Vec<u8>,
    kept: CachedValue,
    /// Whether it was hit.
    met: bool,
}

impl FieldCache {
    /// Sets `place` to the value at `at`, and returns the length of its bytes.
    #[inline]
    fn take(&mut self, at: usize, place: &mut dyn Sharing) -> Result<u32, CacheMiss> {
        if at == 1 {
            self.keys.swap(0, 1);
            self.values.swap(0, 1);
        } else if at > 1 {
            self.keys[..=at].rotate_right(1);
            self.values[..=at].rotate_right(1);
        }
        self.credit = (self.credit + 2).clamp(2, CREDIT);
        let value = &mut self.values[0];
        if !value.met {
            value.met = true;
            self.worth = (self.worth + 2).clamp(2, CREDIT);
        }
        if place.adopt(&value.kept) { Ok(value.bytes.len() as u32) } else { Err(CacheMiss::IGNORED) }
    }

    /// Records a miss of the field at `index`.
    #[inline]
    fn miss(&mut self, index: usize) -> CacheMiss {
        let remembers = if self.credit > 0 {
            self.credit -= 1;
            spend(&mut self.worth)
        } else {
            spend(&mut self.credit)
        };
        if remembers { CacheMiss(index as u32) } else { CacheMiss::IGNORED }
    }
}

/// Deducts a miss from an account and returns whether to cache the value: while the account is
/// positive, then once in [`SAMPLE`] misses.
#[inline]
fn spend(account: &mut i8) -> bool {
    *account -= 1;
    if *account <= -SAMPLE {
        *account = 0;
    }
    *account >= 0
}

/// A miss, with the field if its value should be cached. One word, like the length returned on a
/// hit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheMiss(u32);

impl CacheMiss {
    /// A value that is not cached.
    pub(crate) const IGNORED: CacheMiss = CacheMiss(u32::MAX);
}

impl ValueCache {
    /// Whether values of this length and depth are cached.
    #[inline]
    pub(crate) fn takes(length: usize, depth: u32) -> bool {
        (SHORTEST..=LONGEST).contains(&length) && depth <= DEEPEST
    }

    /// Whether to skip the lookup of the next value of the field at `index`. Returns the expected
    /// length of its list.
    #[inline]
    pub(crate) fn passes(&mut self, index: usize) -> Option<u8> {
        let field = &mut self.fields[index];
        if field.credit >= -COLD_CREDIT || field.credit <= 1 - SAMPLE {
            return None;
        }
        field.credit -= 1;
        Some(field.length)
    }

    /// Records the length of a list of the field at `index`.
    #[inline]
    pub(crate) fn note_length(&mut self, index: usize, length: usize) {
        self.fields[index].length = length.min(255) as u8;
    }

    /// Sets `place` to the cached value of the field at `index` for `bytes`, and returns their
    /// length.
    #[inline]
    pub(crate) fn recall(&mut self, index: usize, place: &mut dyn Sharing, bytes: &[u8]) -> Result<u32, CacheMiss> {
        let field = &mut self.fields[index];
        if field.credit < -COLD_CREDIT {
            return Err(field.miss(index));
        }
        // All ways are compared without branches, because the outcome is unpredictable.
        let key = key(bytes);
        let mut found =
            field.keys.iter().enumerate().fold(0, |found, (at, have)| found | u32::from(*have == key) << at);
        while found != 0 {
            let at = found.trailing_zeros() as usize;
            if field.values.get(at).is_some_and(|value| value.bytes == bytes) {
                return field.take(at, place);
            }
            found &= found - 1;
        }
        Err(field.miss(index))
    }

    /// Like [`recall`](Self::recall), where `text` continues after the value.
    #[inline]
    pub(crate) fn recall_start(&mut self, id: usize, place: &mut dyn Sharing, text: &[u8]) -> Result<u32, CacheMiss> {
        let index = self.find(id);
        let field = &mut self.fields[index];
        match field.values.iter().position(|value| text.starts_with(&value.bytes)) {
            Some(at) => field.take(at, place),
            None => Err(field.miss(index)),
        }
    }

    /// Caches the value in `place` with the bytes it was decoded from.
    pub(crate) fn remember(&mut self, missed: CacheMiss, bytes: &[u8], place: &mut dyn Sharing) {
        let Some(field) = self.fields.get_mut(missed.0 as usize) else { return };
        let mut room = match field.values.len() {
            WAYS => field.values.pop().map(|value| value.bytes).unwrap_or_default(),
            _ => Vec::new(),
        };
        room.clear();
        room.extend_from_slice(bytes);
        field.values.insert(0, RememberedValue { bytes: room, kept: place.share(), met: false });
        field.keys.rotate_right(1);
        field.keys[0] = key(bytes);
    }

    /// The index of the field, added on demand.
    #[inline]
    pub(crate) fn find(&mut self, id: usize) -> usize {
        let mut at = hash(id);
        while let Some(place) = self.places.get(at & self.places.len().wrapping_sub(1)) {
            match self.fields.get((*place as usize).wrapping_sub(1)) {
                Some(field) if field.id == id => return *place as usize - 1,
                Some(_) => at += 1,
                None => break,
            }
        }
        self.add(id)
    }

    #[cold]
    fn add(&mut self, id: usize) -> usize {
        self.fields.push(FieldCache {
            id,
            credit: CREDIT,
            worth: CREDIT,
            length: 0,
            keys: [0; WAYS],
            values: Vec::new(),
        });
        if self.fields.len() * 2 > self.places.len() {
            self.places = vec![0; (self.places.len() * 2).max(256)];
            (1..self.fields.len()).for_each(|count| self.index(count));
        }
        self.index(self.fields.len());
        self.fields.len() - 1
    }

    /// Adds the last of the first `count` fields to the hash index.
    fn index(&mut self, count: usize) {
        let mask = self.places.len() - 1;
        let mut at = hash(self.fields[count - 1].id) & mask;
        while self.places[at] != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = u32::try_from(count).expect("there are fewer fields in all tables");
    }
}

/// A key from the length and the bytes that differ most often; values of one field usually start
/// alike. Needs at least [`SHORTEST`] bytes. Never zero, which means no value.
#[inline(always)]
fn key(bytes: &[u8]) -> u64 {
    let word = |word: Option<&[u8; 8]>| word.map_or(0, |word| u64::from_le_bytes(*word));
    let words = bytes.as_chunks().0;
    let [quarter, middle] = [words.len() / 4, words.len() / 2].map(|at| word(words.get(at)));
    let all = quarter.rotate_left(43) ^ middle.rotate_left(21) ^ word(bytes.last_chunk()) ^ bytes.len() as u64;
    all.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Hashes the address of a type table.
fn hash(id: usize) -> usize {
    ((id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::ValueCache;
    use crate::codec::messages::encode_message;
    use crate::meta::v1::PartialObjectMetadata;
    use crate::{Decoder, Map, Str, StringPool};

    const LABELS: &str = r#"{"app.kubernetes.io/name": "shop", "tier": "web"}"#;

    fn json(name: &str, labels: &str) -> String {
        format!(r#"{{"metadata": {{"name": "{name}", "labels": {labels}, "finalizers": ["example.com/keep"]}}}}"#)
    }

    #[test]
    fn repeated_values_are_shared_until_one_is_changed() {
        let mut decoder = Decoder::new().pool(StringPool::default());
        let texts = ["a", "b"].map(|name| json(name, LABELS));
        let from_json = texts.each_ref().map(|text| decoder.json::<PartialObjectMetadata>(text.as_bytes()).unwrap());
        let from_protobuf = from_json.each_ref().map(|object| {
            let (mut bytes, mut again) = (Vec::new(), PartialObjectMetadata::default());
            encode_message(object, &mut bytes);
            decoder.protobuf_message_into(&mut again, &bytes).unwrap();
            again
        });
        for [first, mut second] in [from_json, from_protobuf] {
            assert_eq!(second.metadata.name.as_deref(), Some("b"));
            assert!(std::ptr::eq(&*first.metadata.finalizers, &*second.metadata.finalizers));
            assert!(std::ptr::eq(first.metadata.labels.at(0).0, second.metadata.labels.at(0).0));
            second.metadata.labels.insert("tier", "cache".into());
            assert_eq!(first.metadata.labels.get("tier").map(|tier| tier.as_str()), Some("web"));
            assert_eq!(second.metadata.labels.get("tier").map(|tier| tier.as_str()), Some("cache"));
        }
    }

    #[test]
    fn a_value_that_only_begins_alike_is_decoded() {
        let mut decoder = Decoder::new().pool(StringPool::default());
        let texts = [LABELS, r#"{"app.kubernetes.io/name": "shop", "tier": "web", "zone": "a"}"#, r#"{}"#, LABELS];
        let lengths = texts.map(|labels| {
            let object: PartialObjectMetadata = decoder.json(json("x", labels).as_bytes()).unwrap();
            object.metadata.labels.len()
        });
        assert_eq!(lengths, [2, 3, 0, 2]);
    }

    #[test]
    fn decoding_into_an_object_with_values_merges_despite_the_cache() {
        let mut decoder = Decoder::new().pool(StringPool::default());
        let [text, zone] =
            [LABELS, r#"{"zone": "a"}"#].map(|labels| json("x", labels).replace("finalizers", "unknown"));
        let _: PartialObjectMetadata = decoder.json(text.as_bytes()).unwrap();
        let mut object: PartialObjectMetadata = decoder.json(zone.as_bytes()).unwrap();
        decoder.json_into(&mut object, text.as_bytes()).unwrap();
        assert_eq!(object.metadata.labels.len(), 3);
    }

    #[test]
    fn cold_lists_are_decoded_and_shared_again_when_they_repeat() {
        let owners = |number: usize, count: usize| {
            let owner =
                |index| format!(r#"{{"apiVersion": "v1", "kind": "Node", "name": "n{index}", "uid": "{number:036}"}}"#);
            let owners: Vec<String> = (0..count).map(owner).collect();
            json("x", LABELS)
                .replace("\"finalizers\"", &format!("\"ownerReferences\": [{}], \"finalizers\"", owners.join(",")))
        };
        let mut decoder = Decoder::new().pool(StringPool::default());
        let mut decode = |text: &str| {
            let plain: PartialObjectMetadata = Decoder::new().json(text.as_bytes()).unwrap();
            let (mut bytes, mut object) = (Vec::new(), PartialObjectMetadata::default());
            encode_message(&plain, &mut bytes);
            decoder.protobuf_message_into(&mut object, &bytes).unwrap();
            assert_eq!(object, plain);
            object
        };
        (0..300).for_each(|number| drop(decode(&owners(number, 1 + number / 7 % 5))));
        let same: Vec<_> = (0..100).map(|_| decode(&owners(0, 2))).collect();
        let [.., a, b] = &same[..] else { unreachable!("there are a hundred") };
        assert!(std::ptr::eq(&*a.metadata.owner_references, &*b.metadata.owner_references));
    }

    #[test]
    fn a_frequent_value_does_not_evict_other_repeated_values() {
        let mut decoder = Decoder::new().pool(StringPool::default());
        let mut labels = |app: &str| {
            let text = json("x", &format!(r#"{{"app.kubernetes.io/name": "{app}", "tier": "web"}}"#));
            decoder.json::<PartialObjectMetadata>(text.as_bytes()).unwrap().metadata.labels
        };
        // As with the containers of a pod: some differ, and one in between is always the same.
        let is_shared = |labels: &mut dyn FnMut(&str) -> Map<Str>, app: &str| {
            let [first, _, second] = [app, "sidecar", app].map(labels);
            assert_eq!(first, second);
            std::ptr::eq(first.at(0).0, second.at(0).0)
        };
        assert!((0..50).all(|number| is_shared(&mut labels, &format!("web of shop {number}"))));
        for number in 0..50 {
            labels(&format!("job {number}"));
            labels("sidecar");
        }
        assert!(!is_shared(&mut labels, "web of a shop after jobs"));
        let shared = (0..200).filter(|number| is_shared(&mut labels, &format!("api of shop {number}"))).count();
        assert!(shared > 100, "{shared} of 200");
    }

    #[test]
    fn fields_are_found_in_large_messages() {
        let mut value_cache = ValueCache::default();
        for _ in 0..2 {
            let found = (0..1000).map(|index| value_cache.find(0x5555_0000 + 4 * index));
            assert!(found.eq(0..1000));
        }
    }
}
