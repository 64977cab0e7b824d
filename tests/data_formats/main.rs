//! Every format on small files made as the originals are, and on truncated, damaged and hostile ones.

mod archives;
mod folders;
mod generated;
mod pictures;
mod sensors;
mod tables;

use image::{ImageFormat, RgbImage};
use pflpipe::base::Fault;
use pflpipe::data::{Dataset, load};
use serde_json::{Map, Value};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

fn params(value: Value) -> Map<String, Value> {
    value.as_object().expect("a map").clone()
}

fn get(name: &str, setting: Value, dir: &Path) -> Result<Dataset, Fault> {
    load(name, &params(setting), &[dir.to_path_buf()])
}

fn sound(name: &str, setting: Value, dir: &Path) -> Dataset {
    let data = get(name, setting, dir).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    // Whatever is read can be stored and read again.
    let parts = data.to_parts();
    let back = Dataset::from_parts(&parts.info, parts.samples, &parts.labels).expect("own format");
    assert_eq!(
        (back.labels(), back.groups(), back.shape(), back.superclasses()),
        (data.labels(), data.groups(), data.shape(), data.superclasses())
    );
    data
}

fn first(data: &Dataset, index: u32) -> Vec<f32> {
    let mut values = Vec::new();
    data.gather(&[index], &mut values);
    values
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn put(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("inside")).expect("a temporary folder");
    std::fs::write(path, content).expect("a temporary file");
}

fn copy(from: &str, dir: &Path, to: &str) {
    put(dir, to, &std::fs::read(golden(from)).expect("a golden file"));
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, content) in members {
        writer.start_file(*name, options).expect("memory");
        writer.write_all(content).expect("memory");
    }
    writer.finish().expect("memory").into_inner()
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

fn tar_gz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Names that the builder would refuse are wanted, too.
        header.as_gnu_mut().expect("of this kind").name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).expect("memory");
    }
    gz(&builder.into_inner().expect("memory"))
}

/// A picture of one color.
fn png(width: u32, height: u32, color: [u8; 3]) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    RgbImage::from_pixel(width, height, image::Rgb(color)).write_to(&mut out, ImageFormat::Png).expect("memory");
    out.into_inner()
}
