//! Which shard a key is in, and who should own a shard: the same in all processes and in all versions of this crate.

use kubewright_core::ObjectKey;

/// The shard of a key, of so many.
pub(super) fn shard_of(key: &ObjectKey, shards: usize) -> usize {
    let bytes = key.namespace.bytes().chain([b'/']).chain(key.name.bytes());
    // Fewer shards than an u64 can count, so the rest fits.
    (mixed(fnv(bytes)) % shards.max(1) as u64) as usize
}

/// Who should own a shard, by rendezvous: the member with the highest score. When a member comes or goes, only the shards
/// move that it gets or had.
pub(super) fn owner_of<'a>(shard: usize, members: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |member: &str| mixed(fnv(member.bytes()) ^ mixed(shard as u64 + 1));
    members.into_iter().max_by_key(|member| (score(member), *member))
}

/// A text in 64 bits.
pub(super) fn of_text(text: &str) -> u64 {
    mixed(fnv(text.bytes()))
}

/// FNV-1a of 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Spreads differences over all bits, which FNV leaves in the lower ones: the end of SplitMix64.
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
        // Replicas of different versions have to agree: a change here lets two of them work on one key.
        let known = [("default", "web"), ("kube-system", "dns"), ("", "node-1")];
        let shards: Vec<usize> =
            known.iter().map(|(namespace, name)| shard_of(&ObjectKey::namespaced(*namespace, *name), 64)).collect();
        assert_eq!(shards, [38, 2, 42]);
    }

    #[test]
    fn a_member_that_comes_takes_its_share_and_moves_nothing_else() {
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
