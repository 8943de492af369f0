//! Formats text into a caller's buffer, so that printing a scalar does not allocate.

/// Appends text to a borrowed byte slice.
pub(crate) struct TextWriter<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl<'a> TextWriter<'a> {
    /// Starts at the beginning of `bytes`, which must be large enough for everything that follows.
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        TextWriter { bytes, length: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &str) {
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text.as_bytes());
        self.length += text.len();
    }

    #[inline]
    pub(crate) fn push_number(&mut self, number: u128) {
        let mut digits = [0; 39];
        let mut start = digits.len();
        let mut rest = number;
        // 128-bit division is slow and rarely needed, so it stops as soon as 64 bits suffice.
        while rest > u128::from(u64::MAX) {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let mut rest = rest as u64;
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let digits = &digits[start..];
        self.bytes[self.length..self.length + digits.len()].copy_from_slice(digits);
        self.length += digits.len();
    }

    /// Writes the last `width` digits of `number`, with leading zeros.
    #[inline]
    pub(crate) fn push_padded(&mut self, number: u32, width: usize) {
        let mut rest = number;
        for place in self.bytes[self.length..self.length + width].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.length += width;
    }

    /// The text so far.
    #[inline]
    pub(crate) fn finish(self) -> &'a str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("only whole characters are pushed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, u128::from(u64::MAX), u128::from(u64::MAX) + 1, u128::MAX] {
            let mut bytes = [0; 39];
            let mut writer = TextWriter::new(&mut bytes);
            writer.push_number(number);
            assert_eq!(writer.finish(), number.to_string());
        }
    }
}
