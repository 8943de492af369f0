//! Splits bytes into chunks of fuzzed sizes.

/// Chunks of `bytes`: first of the given sizes, then of one byte each.
pub fn pieces<'a>(sizes: &[u8], mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut sizes = sizes.iter().map(|size| usize::from(*size));
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(sizes.next().unwrap_or(1).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Takes a choice, a number of sizes and the sizes off the front.
pub fn split(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [which, count, rest @ ..] = input else { return None };
    let (sizes, bytes) = rest.split_at_checked(usize::from(*count))?;
    Some((*which, sizes, bytes))
}
