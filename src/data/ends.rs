//! The ends of archives: whether everything is there, and nothing behind it.
//!
//! A tar ends with two blocks of zeros, and may be filled up with more of them; an archive without them was cut, for both POSIX and
//! GNU tar write them. Its packing has an end of its own, which is read too, so that its checksum is compared. A zip ends with its
//! directory's end and the comment that this announces. It knows no data set.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};

/// A block of a tar.
const BLOCK: u64 = 512;
/// The most zeros behind a tar: more than any tape's record has.
const MOST_ZEROS: u64 = 64 << 20;

/// The length of a zip's end of its directory without the comment, and how that begins.
const END: u64 = 22;
const SIGN: [u8; 4] = *b"PK\x05\x06";

/// Reads what is behind the last member of a tar, of which the first block of zeros was read already.
///
/// # Errors
/// When a block of zeros is missing, when something else is there, and when it cannot be unpacked.
pub(super) fn tar(mut rest: impl Read) -> Result<()> {
    let mut buffer = [0; 1 << 14];
    let mut zeros = 0_u64;
    loop {
        let n = match rest.read(&mut buffer) {
            Ok(0) if zeros < BLOCK => return Err(truncated("it ends without the two blocks of zeros with which a tar ends")),
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        zeros += n as u64;
        if zeros > MOST_ZEROS || buffer[..n].iter().any(|byte| *byte != 0) {
            return Err(Error::new(ErrorKind::InvalidData, "something follows its end"));
        }
    }
}

/// Makes sure that a zip ends where its directory's end says.
///
/// # Errors
/// When it does not, or cannot be read.
pub(super) fn zip(file: &mut (impl Read + Seek)) -> Result<()> {
    let size = file.seek(SeekFrom::End(0))?;
    let from = size.saturating_sub(END + u64::from(u16::MAX));
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(END + u64::from(u16::MAX)).read_to_end(&mut tail)?;
    file.seek(SeekFrom::Start(0))?;
    let ends = |at: usize| {
        let comment = u16::from_le_bytes([tail[at + 20], tail[at + 21]]);
        tail[at..].starts_with(&SIGN) && at + END as usize + usize::from(comment) == tail.len()
    };
    let places = (tail.len() + 1).saturating_sub(END as usize);
    let signs = || (0..places).filter(|at| tail[*at..].starts_with(&SIGN));
    match (signs().any(ends), signs().next().is_some()) {
        (true, _) => Ok(()),
        (false, true) => Err(Error::new(ErrorKind::InvalidData, "its end is cut, or something follows it")),
        (false, false) => Err(truncated("it has no directory at its end")),
    }
}

fn truncated(what: &str) -> Error {
    Error::new(ErrorKind::UnexpectedEof, what)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    #[test]
    fn a_zip_ends_with_its_comment() {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        writer.set_comment("PK\u{5}\u{6} in a comment").expect("short");
        writer.start_file("a", zip::write::SimpleFileOptions::default()).expect("memory");
        writer.write_all(b"abc").expect("memory");
        let sound = writer.finish().expect("memory").into_inner();
        let of = |bytes: &[u8]| super::zip(&mut Cursor::new(bytes)).is_ok();
        assert!(of(&sound));
        for more in 1..70_000 {
            if more < 40 || more % 997 == 0 {
                assert!(!of(&[&sound[..], &vec![b'x'; more]].concat()), "{more}");
            }
        }
        for cut in 0..sound.len() {
            assert!(!of(&sound[..cut]), "{cut}");
        }
    }

    #[test]
    fn a_tar_ends_with_zeros_alone() {
        let of = |bytes: &[u8]| super::tar(bytes).is_ok();
        assert!(of(&[0; 512]) && of(&[0; 9_728]) && of(&[0; 513]));
        assert!(!of(&[]) && !of(&[0; 511]) && !of(&[&[0; 512][..], b"x"].concat()));
        assert!(super::tar(std::io::repeat(0)).is_err(), "zeros without end");
    }
}
