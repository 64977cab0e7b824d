//! Archives that are hostile, cut or followed by something.

use crate::{get, gz, png, put, tar_gz, temporary, zip};
use pflpipe::base::FaultKind;
use serde_json::json;

#[test]
fn hostile_archives_are_refused_in_bounded_memory() {
    let picture = png(4, 4, [1, 2, 3]);
    // Names that lead out of the archive.
    for name in ["../../etc/passwd.png", "/etc/x.png", "kvasir-dataset-v2/polyps/../../../x.png", "C:/x/y.png", "..\\..\\x\\y.png"] {
        let dir = temporary();
        put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zip(&[(name, &picture)]));
        let fault = get("kvasir", json!({}), dir.path()).expect_err("leads out");
        assert!(fault.what.contains("a name that leads out of it"), "{name}: {fault}");
        let dir = temporary();
        put(dir.path(), "UTKFace/UTKFace.tar.gz", &tar_gz(&[(name, &picture)]));
        let fault = get("utkface", json!({}), dir.path()).expect_err("leads out");
        assert!(fault.what.contains("a name that leads out of it"), "{name}: {fault}");
    }
    // A member of zeros that unpacks to more than a picture may have.
    let dir = temporary();
    let zeros = vec![0; 300 << 20];
    put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zip(&[("kvasir-dataset-v2/polyps/1.png", &zeros)]));
    let fault = get("kvasir", json!({}), dir.path()).expect_err("a bomb");
    assert!(fault.what.contains("more than the 256.0 MiB"), "{fault}");
    put(dir.path(), "UTKFace/UTKFace.tar.gz", &tar_gz(&[("UTKFace/1_1_1_1.jpg.chip.jpg", &zeros)]));
    assert!(get("utkface", json!({}), dir.path()).expect_err("a bomb").what.contains("more than the 256.0 MiB"));
    drop(zeros);
    // A picture that promises more pixels than fit.
    let mut huge = png(4, 4, [1, 2, 3]);
    huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    put(dir.path(), "own/a/1.png", &huge);
    assert!(get("images", json!({"folder": "own"}), dir.path()).expect_err("huge").what.contains("is not a sound picture"));
    // Truncated at any place.
    let members: Vec<(&str, &[u8])> = vec![("kvasir-dataset-v2/polyps/1.png", &picture), ("kvasir-dataset-v2/cecum/2.png", &picture)];
    let (zipped, tarred) =
        (zip(&members), tar_gz(&[("UTKFace/27_1_1_1.jpg.chip.jpg", &picture), ("UTKFace/28_1_1_1.jpg.chip.jpg", &picture)]));
    for cut in (0..zipped.len()).step_by(13) {
        put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zipped[..cut]);
        let fault = get("kvasir", json!({}), dir.path()).expect_err("truncated");
        assert_eq!(fault.kind, FaultKind::Storage, "{cut}: {fault}");
    }
    for cut in (0..tarred.len() - 40).step_by(13) {
        put(dir.path(), "UTKFace/UTKFace.tar.gz", &tarred[..cut]);
        let fault = get("utkface", json!({}), dir.path()).expect_err("truncated, or incomplete");
        assert_eq!(fault.kind, FaultKind::Storage, "{cut}: {fault}");
    }
    for at in (0..zipped.len()).step_by(3) {
        let mut changed = zipped.clone();
        changed[at] ^= 0x55;
        put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &changed);
        let _ = get("kvasir", json!({}), dir.path());
    }
    put(dir.path(), "SP-SW-HAR/sp-sw-har-dataset-DATA.tar.xz", b"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46garbage that is no stream");
    assert!(get("sp-sw-har", json!({}), dir.path()).expect_err("garbage").what.contains("is not a sound archive"));
}

/// The messages for an archive whole, cut at each of the last bytes, and with something behind it.
fn ends(data: &str, path: &str, whole: &[u8], cuts: impl Iterator<Item = usize>) {
    let dir = temporary();
    let read = |content: &[u8]| {
        put(dir.path(), path, content);
        get(data, json!({"verify": false}), dir.path())
    };
    let samples = read(whole).expect("sound").len();
    for cut in cuts {
        let fault = read(&whole[..cut]).expect_err("cut");
        assert!(fault.kind == FaultKind::Storage && fault.what.contains("is not a sound archive"), "{path}, {cut} bytes: {fault}");
    }
    for more in [&b"\n"[..], b"garbage behind the end", &[0xff; 4096], &[b'x'; 100_000]] {
        let fault = read(&[whole, more].concat()).expect_err("something follows");
        assert!(fault.kind == FaultKind::Storage && fault.what.contains("is not a sound archive"), "{path}, {} more: {fault}", more.len());
    }
    assert_eq!(read(whole).expect("sound").len(), samples);
}

#[test]
fn archives_that_are_cut_behind_their_last_member_or_go_on_are_refused() {
    let picture = png(4, 4, [1, 2, 3]);
    let zipped = zip(&[("kvasir-dataset-v2/polyps/1.png", &picture), ("kvasir-dataset-v2/cecum/2.png", &picture)]);
    ends("kvasir", "kvasir/kvasir-dataset-v2.zip", &zipped, zipped.len() - 60..zipped.len());
    let names = ["UTKFace/27_1_1_1.jpg.chip.jpg", "UTKFace/28_1_1_1.jpg.chip.jpg"];
    let tarred = tar_gz(&names.map(|name| (name, picture.as_slice())));
    // The last 8 bytes are the checksum and the length of what is packed.
    ends("utkface", "UTKFace/UTKFace.tar.gz", &tarred, tarred.len() - 40..tarred.len());
    let mut damaged = tarred.clone();
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    let dir = temporary();
    put(dir.path(), "UTKFace/UTKFace.tar.gz", &damaged);
    assert!(get("utkface", json!({"verify": false}), dir.path()).expect_err("another checksum").what.contains("is not a sound archive"));
}

#[test]
fn a_tar_that_ends_behind_a_member_was_cut() {
    let picture = png(4, 4, [1, 2, 3]);
    let mut plain = Vec::new();
    let packed = tar_gz(&[("UTKFace/27_1_1_1.jpg.chip.jpg", &picture), ("UTKFace/28_1_1_1.jpg.chip.jpg", &picture)]);
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut plain).expect("own format");
    // Each member is a block of its header and one or more of its content; two blocks of zeros follow.
    let member = 512 + picture.len().div_ceil(512) * 512;
    assert_eq!(plain.len(), 2 * member + 1024);
    let dir = temporary();
    let read = |content: &[u8]| {
        put(dir.path(), "UTKFace/UTKFace.tar.gz", &gz(content));
        get("utkface", json!({"verify": false}), dir.path()).map(|data| data.len()).map_err(|fault| fault.what)
    };
    let cut =
        |found: Result<usize, String>| assert!(found.as_ref().is_err_and(|what| what.contains("without the two blocks")), "{found:?}");
    assert_eq!(read(&plain), Ok(2));
    cut(read(&plain[..member]));
    cut(read(&plain[..2 * member]));
    cut(read(&plain[..2 * member + 512]));
    // Tapes have records of many blocks, which are filled up.
    assert_eq!(read(&[&plain[..], &[0; 9_216]].concat()), Ok(2));
    let behind = read(&[&plain[..], &plain[..member]].concat());
    assert!(behind.as_ref().is_err_and(|what| what.contains("something follows its end")), "{behind:?}");
}

#[test]
fn files_packed_with_gzip_end_with_their_checksum() {
    let dir = temporary();
    let line = format!("{} {}\n", vec!["1.0000"; 256].join(" "), "0 0 0 1 0 0 0 0 0 0");
    let whole = gz(line.repeat(3).as_bytes());
    let read = |content: &[u8]| {
        put(dir.path(), "Semeion/semeion.data.gz", content);
        get("semeion", json!({"verify": false}), dir.path())
    };
    assert_eq!(read(&whole).expect("sound").len(), 3);
    for cut in whole.len() - 12..whole.len() {
        assert_eq!(read(&whole[..cut]).expect_err("cut").kind, FaultKind::Storage, "{cut}");
    }
    for more in [&b"x"[..], b"more than nothing", &[0; 20]] {
        assert_eq!(read(&[&whole[..], more].concat()).expect_err("something follows").kind, FaultKind::Storage, "{more:?}");
    }
    // Two members, one after the other, are one file.
    assert_eq!(read(&[&whole[..], &whole[..]].concat()).expect("sound").len(), 6);
}

#[test]
fn arrays_of_numpy_end_with_their_directory() {
    let dir = temporary();
    let npy = |shape: &str, bytes: &[u8]| {
        let mut header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({shape}), }}");
        header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
        header.push('\n');
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes].concat()
    };
    let whole = zip(&[("x.npy", &npy("2, 3", &[1, 2, 3, 4, 5, 6])), ("y.npy", &npy("2,", &[0, 1]))]);
    let read = |content: &[u8]| {
        put(dir.path(), "own.npz", content);
        get("npz", json!({"file": "own.npz"}), dir.path())
    };
    assert_eq!(read(&whole).expect("sound").len(), 2);
    for cut in whole.len() - 40..whole.len() {
        assert!(read(&whole[..cut]).expect_err("cut").what.contains("npz"), "{cut}");
    }
    for more in [&b"\0"[..], b"behind"] {
        let fault = read(&[&whole[..], more].concat()).expect_err("something follows");
        assert!(fault.what.contains("something follows"), "{fault}");
    }
}
