//! What a command reads is not what it writes: a path typed twice would replace a pipeline by its own table.

use super::load::Project;
use crate::base::{Fault, Outcome};
use std::path::Path;

/// Refuses to write over one of the files that are read.
///
/// # Errors
/// A usage fault that names the file.
pub(super) fn apart<'a>(out: &Path, read: impl IntoIterator<Item = &'a Path>) -> Outcome<()> {
    match read.into_iter().find(|read| same(out, read)) {
        None => Ok(()),
        Some(read) => {
            let what = format!("`{}` would be written over `{}`, which this command reads", out.display(), read.display());
            Err(Fault::usage(what).help("give another file to write"))
        }
    }
}

/// The same for the files of a pipeline: its own, those that it extends, and published numbers that it names.
///
/// # Errors
/// A usage fault that names the file.
pub(super) fn pipeline(out: &Path, project: &Project) -> Outcome<()> {
    let compared = project.pipeline.tables.iter().filter_map(|table| table.compare.as_ref()).flat_map(|compare| compare.files.values());
    let files = project.pipeline.files.iter().chain([&project.file]).chain(compared);
    apart(out, files.map(std::path::PathBuf::as_path))
}

/// Whether two paths are one file, by whatever names.
fn same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if let (Ok(a), Ok(b)) = (a.metadata(), b.metadata())
            && (a.dev(), a.ino()) == (b.dev(), b.ino())
            && a.is_file()
        {
            return true;
        }
    }
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b && a.is_file())
}
