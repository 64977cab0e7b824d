//! Bytes on their way to the disk or from there, in whole pages.

/// Places, their lengths, and the buffers that are written there are multiples of it: what goes past the system's cache has to be.
pub(super) const PAGE: usize = 4096;

/// Bytes that begin at a page.
#[derive(Debug)]
pub(in crate::fl) struct Sheet {
    /// Some before the first page, the content, and what fills the last page up.
    bytes: Vec<u8>,
    /// Where the first page begins.
    skip: usize,
    /// The content's length.
    len: usize,
}

impl Sheet {
    /// An empty one with room for so many bytes.
    pub(in crate::fl) fn with_room(len: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(len.next_multiple_of(PAGE) + PAGE);
        let skip = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        bytes.resize(skip, 0);
        Self { bytes, skip, len: 0 }
    }
    /// Whether so many bytes fit without another allocation.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.bytes.capacity() >= self.skip + len.next_multiple_of(PAGE)
    }
    /// Its content is what `write` appends to the bytes it is given.
    pub(in crate::fl) fn written(mut self, write: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        self.bytes.truncate(self.skip);
        self.bytes = write(self.bytes);
        self.len = self.bytes.len() - self.skip;
        self.bytes.resize(self.skip + self.len.next_multiple_of(PAGE), 0);
        if self.pages().as_ptr().align_offset(PAGE) != 0 {
            let mut fresh = Self::with_room(self.len);
            fresh.bytes.extend_from_slice(self.pages());
            return Self { len: self.len, ..fresh };
        }
        self
    }
    /// The pages of a content of this length, with whatever they held before. What is overwritten anyhow is not cleared.
    pub(super) fn blank(&mut self, len: usize) -> &mut [u8] {
        self.len = len;
        self.bytes.resize(self.skip + len.next_multiple_of(PAGE), 0);
        &mut self.bytes[self.skip..]
    }
    /// Its content.
    pub(in crate::fl) fn content(&self) -> &[u8] {
        &self.bytes[self.skip..self.skip + self.len]
    }
    /// Its content, and what fills the last page up.
    pub(super) fn pages(&self) -> &[u8] {
        &self.bytes[self.skip..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_that_had_to_grow_begins_at_a_page_again() {
        let grown = Sheet::with_room(1).written(|mut bytes| {
            bytes.extend((0..100_000).map(|i| i as u8));
            bytes
        });
        let content: Vec<u8> = (0..100_000).map(|i| i as u8).collect();
        assert_eq!(grown.pages().as_ptr().align_offset(PAGE), 0);
        assert_eq!((grown.content(), grown.pages().len() % PAGE), (&content[..], 0));
    }

    #[test]
    fn a_sheet_is_used_again_for_less_and_for_more() {
        let mut sheet = Sheet::with_room(3 * PAGE).written(|mut bytes| {
            bytes.extend_from_slice(&[1; 2 * PAGE]);
            bytes
        });
        assert!(sheet.has_room(3 * PAGE) && !sheet.has_room(sheet.bytes.capacity()));
        assert_eq!((sheet.blank(PAGE + 1).len(), sheet.content().len()), (2 * PAGE, PAGE + 1));
        let sheet = sheet.written(|mut bytes| {
            bytes.push(2);
            bytes
        });
        assert_eq!((sheet.content(), sheet.pages().len()), (&[2][..], PAGE));
    }
}
