//! SHA-256 for the hashes that clients compare: storage versions, ETags, OpenAPI documents.

use ring::digest::{Digest, SHA256, digest};

/// The SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    digest(&SHA256, bytes)
}

/// The SHA-256 of `bytes` in upper-case hexadecimal digits, as kube-apiserver writes hashes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    sha256(bytes).as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_the_test_vectors_of_the_specification() {
        for (text, want) in [
            ("", "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"),
            ("abc", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248D6A61D20638B8E5C026930C3E6039A33CE45964FF2167F6ECEDD419DB06C1",
            ),
        ] {
            assert_eq!(hex(text.as_bytes()), want, "{text:?}");
        }
    }
}
