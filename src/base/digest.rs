//! blake3 digests: of bytes, files and canonical values.

use super::fault::{Fault, Outcome};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A blake3 digest of 32 bytes, written as 64 lower-case hexadecimal characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
    /// The digest of a regular file's content, hashed in parallel from a memory map where that pays.
    ///
    /// # Errors
    /// A storage fault when the file cannot be read.
    pub fn of_file(path: &Path) -> Outcome<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_mmap_rayon(path).map_err(|e| Fault::io("read", path, &e))?;
        Ok(Self(*hasher.finalize().as_bytes()))
    }
    /// All 64 hexadecimal characters.
    #[must_use]
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
    /// The first twelve hexadecimal characters, enough for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = Fault;
    fn from_str(text: &str) -> Outcome<Self> {
        blake3::Hash::from_hex(text)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| Fault::storage(format!("`{text}` is not a digest of 64 hexadecimal characters")))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A stored object: the digest of its content and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// blake3 of the content.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        let digest = Digest::of(b"pflpipe");
        assert_eq!(digest.hex().parse::<Digest>().expect("own format"), digest);
        assert!("xyz".parse::<Digest>().is_err());
    }
}
