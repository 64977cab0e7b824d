//! Files by name, in a folder or inside an archive (zip, tar, tar.gz, tar.xz) that is read as it is and never unpacked to disk.
//! A zip that wraps one other zip is read through.
//!
//! Only regular files are seen. One member is in memory at a time, and none larger than its reader allows; a name that leads out of
//! the archive is refused.

use super::ends;
use super::files::{self, Source};
use crate::base::{Fault, Outcome, text};
use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The deepest folder in a folder that is looked into.
const DEEPEST: usize = 12;
/// The most members of an archive or files of a folder.
const MOST: usize = 20_000_000;

/// Where files lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Folder(PathBuf),
    Archive(Source),
}

/// What a reader of members wants.
pub(super) struct Wanted<'a> {
    /// Whether the member of this path is wanted; parts are separated by `/`.
    pub name: &'a dyn Fn(&str) -> bool,
    /// The most bytes of a member.
    pub most: u64,
}

impl Place {
    /// The first of the data folders' subfolders in which one of the archives or one of the markers lies; a marker is a file or a
    /// folder that shows that the data set was unpacked there.
    pub fn find(dirs: &[PathBuf], subfolders: &[&str], archives: &[&str], markers: &[&str]) -> Outcome<Vec<Self>> {
        for folder in files::folders(dirs, subfolders) {
            if markers.iter().any(|marker| folder.join(marker).exists()) {
                return Ok(vec![Self::Folder(folder)]);
            }
            let found = archives.iter().map(|name| Source::at(folder.join(name))).collect::<Outcome<Vec<_>>>()?;
            let found: Vec<Self> = found.into_iter().flatten().map(Self::Archive).collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
    /// The path, for messages.
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Archive(source) => &source.path,
        }
    }
    /// A fault about it.
    pub fn fault(&self, what: impl std::fmt::Display) -> Fault {
        Fault::storage(format!("`{}` {what}", self.path().display()))
    }
    /// Hands over every wanted file with its content; those of a folder in the order of their paths.
    pub fn each(&self, wanted: &Wanted<'_>, visit: &mut dyn FnMut(&str, Vec<u8>) -> Outcome<()>) -> Outcome<()> {
        match self {
            Self::Folder(root) => {
                for name in list(root)?.into_iter().filter(|name| (wanted.name)(name)) {
                    let Some(source) = Source::at(root.join(&name))? else { continue };
                    visit(&name, source.whole(wanted.most)?)?;
                }
                Ok(())
            }
            Self::Archive(source) if source.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("zip")) => zip(source, wanted, visit),
            Self::Archive(source) => {
                let file = File::open(&source.path).map_err(|e| Fault::io("read", &source.path, &e))?;
                let file = BufReader::with_capacity(1 << 17, file);
                let name = source.path.to_string_lossy().to_lowercase();
                if name.ends_with(".xz") {
                    tar(source, lzma_rust2::XzReader::new(file, true), wanted, visit)
                } else if name.ends_with("gz") {
                    tar(source, MultiGzDecoder::new(file), wanted, visit)
                } else {
                    tar(source, file, wanted, visit)
                }
            }
        }
    }
    /// The contents of the files of these names, wherever in the folder they lie, read in one pass.
    pub fn read_all(&self, names: &[String], most: u64) -> Outcome<BTreeMap<String, Vec<u8>>> {
        let mut found = BTreeMap::new();
        let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        self.each(&Wanted { name: &|path| names.contains(&last(path)), most }, &mut |path, content| {
            found.entry(last(path)).or_insert(content);
            Ok(())
        })?;
        match names.iter().find(|name| !found.contains_key(*name)) {
            Some(name) => Err(self.fault(format_args!("lacks `{name}`"))),
            None => Ok(found),
        }
    }
    /// The content of the first file whose path ends in this name.
    pub fn read(&self, name: &str, most: u64) -> Outcome<Vec<u8>> {
        let mut found = None;
        let is = |path: &str| path == name || path.ends_with(&format!("/{name}"));
        self.each(&Wanted { name: &is, most }, &mut |_, content| {
            found.get_or_insert(content);
            Ok(())
        })?;
        found.ok_or_else(|| self.fault(format_args!("lacks `{name}`")))
    }
}

/// Whether a link in a folder leads to one that the folder itself is in, so that following it would never end.
fn leads_up(folder: &Path, link: &Path) -> bool {
    match (std::fs::canonicalize(folder), std::fs::canonicalize(link)) {
        (Ok(folder), Ok(link)) => folder.starts_with(link),
        _ => false,
    }
}

/// The regular files below a folder by their path with `/`, in its order.
pub(super) fn list(root: &Path) -> Outcome<Vec<String>> {
    fn walk(folder: &Path, prefix: &str, depth: usize, out: &mut Vec<String>) -> Outcome<()> {
        let io = |e: std::io::Error| Fault::io("read", folder, &e);
        for entry in std::fs::read_dir(folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            // A name that is no text belongs to no data set.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{prefix}{name}");
            let Ok(meta) = std::fs::metadata(entry.path()) else { continue };
            if meta.is_dir() && entry.file_type().is_ok_and(|kind| kind.is_symlink()) && leads_up(folder, &entry.path()) {
                continue;
            }
            if meta.is_dir() && depth < DEEPEST {
                walk(&entry.path(), &format!("{path}/"), depth + 1, out)?;
            } else if meta.is_file() && out.len() < MOST {
                out.push(path);
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk(root, "", 0, &mut out)?;
    out.sort_unstable();
    Ok(out)
}

fn unsound(source: &Source, error: &dyn std::fmt::Display) -> Fault {
    source.fault(format_args!("is not a sound archive: {error}")).help("fetch the file again: it may be truncated")
}

/// A member's path with `/`, when it stays inside the archive.
fn checked(source: &Source, name: &str) -> Outcome<String> {
    let name = name.replace('\\', "/");
    if name.starts_with('/') || name.split('/').any(|part| part == "..") || name.contains('\0') || name.get(1..3) == Some(":/") {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(120).collect();
        return Err(source.fault(format_args!("holds `{shown}`, a name that leads out of it")).help("do not trust this archive"));
    }
    Ok(name.trim_start_matches("./").to_owned())
}

fn too_large(source: &Source, name: &str, size: u64, most: u64) -> Fault {
    source.fault(format_args!("holds `{name}` of {}, more than the {} that such a file may have", text::bytes(size), text::bytes(most)))
}

fn zip(source: &Source, wanted: &Wanted<'_>, visit: &mut dyn FnMut(&str, Vec<u8>) -> Outcome<()>) -> Outcome<()> {
    let file = File::open(&source.path).map_err(|e| Fault::io("read", &source.path, &e))?;
    let mut file = BufReader::new(file);
    ends::zip(&mut file).map_err(|e| unsound(source, &e))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|e| unsound(source, &e))?;
    match wrapped(&archive) {
        Some(at) => {
            let mut inner = unwrap(source, &mut archive, at)?;
            ends::zip(&mut inner).map_err(|e| unsound(source, &format!("the archive inside: {e}")))?;
            zip_members(source, &mut zip::ZipArchive::new(inner).map_err(|e| unsound(source, &e))?, wanted, visit)
        }
        None => zip_members(source, &mut archive, wanted, visit),
    }
}

/// The place of the one archive that a zip was made for, as the UCI repository wraps its data sets; there may be notes beside it.
fn wrapped(archive: &zip::ZipArchive<BufReader<File>>) -> Option<usize> {
    let is_zip = |name: &str| name.to_ascii_lowercase().ends_with(".zip") && !name.contains('/');
    let mut inner = archive.file_names().enumerate().filter(|(_, name)| name.as_ref().is_ok_and(|name| is_zip(name)));
    let first = inner.next()?;
    (archive.len() <= 8 && inner.next().is_none()).then_some(first.0)
}

/// The archive inside, in memory, or in a file without a name when it is large.
fn unwrap(source: &Source, archive: &mut zip::ZipArchive<BufReader<File>>, at: usize) -> Outcome<BufReader<tempfile::SpooledTempFile>> {
    let member = archive.by_index(at).map_err(|e| unsound(source, &e))?;
    let size = member.size();
    if size > source.bound_unpacked().min(files::GREATEST) {
        return Err(too_large(source, "an archive", size, source.bound_unpacked().min(files::GREATEST)));
    }
    let mut inner = tempfile::spooled_tempfile(1 << 26);
    let copied = std::io::copy(&mut member.take(size), &mut inner).map_err(|e| unsound(source, &e))?;
    if copied != size {
        return Err(unsound(source, &format!("the archive inside has {copied} of {size} bytes")));
    }
    inner.seek(SeekFrom::Start(0)).map_err(|e| unsound(source, &e))?;
    Ok(BufReader::new(inner))
}

fn zip_members(
    source: &Source,
    archive: &mut zip::ZipArchive<impl Read + Seek>,
    wanted: &Wanted<'_>,
    visit: &mut dyn FnMut(&str, Vec<u8>) -> Outcome<()>,
) -> Outcome<()> {
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).map_err(|e| unsound(source, &e))?;
        let name = checked(source, &member.name().map_err(|e| unsound(source, &e))?)?;
        if !member.is_file() || !(wanted.name)(&name) {
            continue;
        }
        let size = member.size();
        if size > wanted.most {
            return Err(too_large(source, &name, size, wanted.most));
        }
        let mut content = Vec::new();
        member.by_ref().take(wanted.most + 1).read_to_end(&mut content).map_err(|e| unsound(source, &format!("`{name}`: {e}")))?;
        if content.len() as u64 != size {
            return Err(unsound(source, &format!("`{name}` has {} of {size} bytes", content.len())));
        }
        visit(&name, content)?;
    }
    Ok(())
}

fn tar(source: &Source, reader: impl Read, wanted: &Wanted<'_>, visit: &mut dyn FnMut(&str, Vec<u8>) -> Outcome<()>) -> Outcome<()> {
    let mut archive = tar::Archive::new(reader);
    // The entries end at the first block of zeros, or where the archive was cut.
    for entry in archive.entries().map_err(|e| unsound(source, &e))? {
        let mut entry = entry.map_err(|e| unsound(source, &e))?;
        let name = entry.path().map_err(|e| unsound(source, &e))?.to_string_lossy().into_owned();
        let name = checked(source, &name)?;
        if !entry.header().entry_type().is_file() || !(wanted.name)(&name) {
            continue;
        }
        let size = entry.size();
        if size > wanted.most {
            return Err(too_large(source, &name, size, wanted.most));
        }
        let mut content = Vec::new();
        entry.by_ref().take(size).read_to_end(&mut content).map_err(|e| unsound(source, &format!("`{name}`: {e}")))?;
        if content.len() as u64 != size {
            return Err(unsound(source, &format!("`{name}` has {} of {size} bytes", content.len())));
        }
        visit(&name, content)?;
    }
    ends::tar(archive.into_inner()).map_err(|e| unsound(source, &e))
}
