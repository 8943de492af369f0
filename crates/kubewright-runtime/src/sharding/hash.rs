//! Maps keys to shards, and shards to replicas; stable across processes and versions of this crate.

use kubewright_core::ObjectKey;

/// The shard of a key.
#[inline]
pub(super) fn shard_of(key: &ObjectKey, shards: usize) -> usize {
    let bytes = key.namespace().bytes().chain([b'/']).chain(key.name().bytes());
    // The remainder is below the number of shards, so it fits.
    (mixed(fnv(bytes)) % shards.max(1) as u64) as usize
}

/// The shard of an object by its uid: each shard is a range of hashes, as servers support.
#[inline]
pub(super) fn shard_of_uid(uid: &str, shards: usize) -> usize {
    ((u128::from(fnv(uid.bytes())) * shards.max(1) as u128) >> 64) as usize
}

/// The selector for these shards, in the server's syntax. An empty set cannot be expressed; a
/// single hash is used instead.
pub(super) fn selector(is_wanted: impl ExactSizeIterator<Item = bool>) -> String {
    let count = is_wanted.len().max(1) as u128;
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for (shard, _) in is_wanted.enumerate().filter(|(_, is_wanted)| *is_wanted) {
        let bound = |shard: u128| (shard << 64).div_ceil(count);
        let (start, end) = (bound(shard as u128), bound(shard as u128 + 1));
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    if ranges.is_empty() {
        ranges.push((0, 1));
    }
    let range = |(start, end)| format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')");
    ranges.into_iter().map(range).collect::<Vec<_>>().join(" || ")
}

/// The owner of a shard by rendezvous hashing: the member with the highest score. When a member
/// joins or leaves, only its own shards move.
pub(super) fn owner_of<'a>(shard: usize, members: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |member: &str| mixed(fnv(member.bytes()) ^ mixed(shard as u64 + 1));
    members.into_iter().max_by_key(|member| (score(member), *member))
}

/// A 64-bit hash of a text.
#[inline]
pub(super) fn of_text(text: &str) -> u64 {
    mixed(fnv(text.bytes()))
}

/// 64-bit FNV-1a.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Mixes the bits, which FNV leaves in the low ones: the finalizer of SplitMix64.
#[inline]
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_evenly_and_always_in_the_same_way() {
        let mut sizes = [0usize; 16];
        for number in 0..16_000 {
            sizes[shard_of(&ObjectKey::namespaced("default", format!("object-{number}")), 16)] += 1;
        }
        assert!(sizes.iter().all(|size| (850..1150).contains(size)), "{sizes:?}");
        // Replicas of different versions must agree: otherwise two of them could work on one key.
        let known = [("default", "web"), ("kube-system", "dns"), ("", "node-1")];
        let shards: Vec<usize> =
            known.iter().map(|(namespace, name)| shard_of(&ObjectKey::namespaced(*namespace, *name), 64)).collect();
        assert_eq!(shards, [38, 2, 42]);
    }

    #[test]
    fn shards_by_uid_are_the_ranges_that_servers_cut() {
        // From Go's hash/fnv.
        assert_eq!(fnv("7b3a1d0c-5f0e-4a8e-9d57-2f9f3d6c1a11".bytes()), 0x1fb6_cb70_337f_9468);
        assert_eq!(
            selector([true, false].into_iter()),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
        );
        assert_eq!(
            selector([false, true, true].into_iter()),
            "shardRange(object.metadata.uid, '0x5555555555555556', '0x10000000000000000')"
        );
        assert_eq!(
            selector([true, false, true, false].into_iter()),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x4000000000000000') || \
             shardRange(object.metadata.uid, '0x8000000000000000', '0xc000000000000000')"
        );
        assert_eq!(
            selector([false; 3].into_iter()),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')"
        );
        // The bounds of three shards, from both sides.
        let shard_of_hash = |hash: u64| ((u128::from(hash) * 3) >> 64) as usize;
        let bounds = [0x5555_5555_5555_5555, 0x5555_5555_5555_5556, 0xaaaa_aaaa_aaaa_aaaa, 0xaaaa_aaaa_aaaa_aaab];
        assert_eq!(bounds.map(shard_of_hash), [0, 1, 1, 2]);
    }

    #[test]
    fn a_joining_member_takes_its_share_and_moves_no_other_key() {
        let three = ["a", "b", "c"];
        let four = ["a", "b", "c", "d"];
        let mut taken = 0;
        for shard in 0..1000 {
            let (before, after) = (owner_of(shard, three).unwrap(), owner_of(shard, four).unwrap());
            taken += usize::from(after == "d");
            assert!(after == before || after == "d");
        }
        assert!((180..320).contains(&taken), "{taken}");
        assert_eq!(owner_of(1, []), None);
    }
}
