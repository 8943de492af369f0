//! Writes protobuf fields to a buffer.

/// Appends fields to a buffer.
pub struct Encoder<'w> {
    /// The buffer.
    pub out: &'w mut Vec<u8>,
}

impl Encoder<'_> {
    /// Appends a varint field.
    pub fn varint(&mut self, number: u32, value: u64) {
        self.plain(u64::from(number) << 3);
        self.plain(value);
    }

    /// Appends a 64-bit field.
    pub fn fixed64(&mut self, number: u32, value: u64) {
        self.plain(u64::from(number) << 3 | 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a length-delimited field.
    pub fn bytes(&mut self, number: u32, value: &[u8]) {
        self.start(number, value.len());
        self.out.extend_from_slice(value);
    }

    /// Appends a length-delimited field whose bytes `write` appends; the length is inserted
    /// afterwards.
    pub fn delimited(&mut self, number: u32, write: impl FnOnce(&mut Encoder<'_>)) {
        self.plain(u64::from(number) << 3 | 2);
        // Reserves one byte for the length; a longer one moves the content.
        let start = self.out.len() + 1;
        self.out.push(0);
        write(self);
        let mut length = self.out.len() - start;
        let mut at = start - 1;
        while length >= 0x80 {
            self.out[at] = length as u8 | 0x80;
            length >>= 7;
            at += 1;
            self.out.insert(at, 0);
        }
        self.out[at] = length as u8;
    }

    /// Starts a length-delimited field. The caller appends its `length` bytes.
    pub fn start(&mut self, number: u32, length: usize) {
        self.plain(u64::from(number) << 3 | 2);
        self.plain(length as u64);
    }

    fn plain(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
