//! Splits an input into parts.

/// Splits an input at zero bytes into `N` parts; parts that are missing are empty.
pub fn parts<const N: usize>(input: &[u8]) -> [&str; N] {
    let mut parts = input.splitn(N, |byte| *byte == 0).map(|part| std::str::from_utf8(part).unwrap_or_default());
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
