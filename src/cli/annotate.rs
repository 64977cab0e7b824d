//! What a table gets besides its cells: headings by family, statistics, published numbers; and the files in which it is written.
//!
//! Numbers come from [`crate::table`] and [`crate::results`]; which published number belongs to a cell is decided in `compared`.

use super::compared;
use super::context::Context;
use super::load::{self, Project};
use super::spare;
use crate::base::{Fault, Outcome};
use crate::results::stats::Test;
use crate::spec::{Statistics, Table as Layout};
use crate::table::analysis::Against;
use crate::table::{Analysis, Format, Look, Table, Wanted, format};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Adds to each table what its layout asks for.
///
/// # Errors
/// A pipeline or storage fault when a file of published numbers cannot be used.
pub(super) fn complete(tables: &mut [Table], project: &Project, layouts: &[&Layout]) -> Outcome<()> {
    for (table, layout) in tables.iter_mut().zip(layouts) {
        if layout.families {
            let families = families();
            table.group_by(|row| {
                row.split(", ")
                    .find_map(|part| families.get(part.split('(').next().unwrap_or_default()).copied())
                    .unwrap_or("other")
                    .to_owned()
            });
        }
        if let Some(statistics) = &layout.statistics {
            table.analysis = Some(Analysis::of(table, &wanted(statistics)));
        }
        if let Some(compare) = &layout.compare {
            table.beside = Some(compared::beside(table, layout, compare, project)?);
        }
    }
    Ok(())
}

/// The family of each algorithm by its name.
pub(super) fn families() -> HashMap<&'static str, &'static str> {
    load::algorithms().iter().map(|entry| (entry.description.name, entry.description.family)).collect()
}

fn wanted(statistics: &Statistics) -> Wanted {
    Wanted {
        test: Test::named(&statistics.test).unwrap_or(Test::Wilcoxon),
        against: match statistics.against.as_str() {
            "first" => Against::First,
            "best" => Against::Best,
            "all" => Against::All,
            row => Against::Row(row.to_owned()),
        },
        corrected: statistics.corrected,
        level: statistics.level,
    }
}

/// Where the files of a pipeline's tables go: `results/PIPELINE/` beside its file, or in the folder that was asked for.
pub(super) fn folder(project: &Project, results: Option<&Path>) -> PathBuf {
    let beside = || project.file.parent().filter(|folder| folder.is_dir()).unwrap_or(Path::new(".")).join("results");
    let name = project.pipeline.name.replace(['/', '\\'], "-");
    let name = if name.trim_matches('.').is_empty() { "pipeline" } else { &name };
    results.map_or_else(beside, Path::to_owned).join(name)
}

/// Makes the folder for the files of these tables, before anything is computed; nothing when no table asks for a file.
///
/// # Errors
/// A storage fault when files cannot be written there.
pub(super) fn prepare(folder: &Path, layouts: &[&Layout], project: &Project) -> Outcome<()> {
    if layouts.iter().all(|layout| layout.formats.is_empty()) {
        return Ok(());
    }
    for layout in layouts {
        for name in &layout.formats {
            spare::pipeline(&file(folder, layout, format::find(name)?), project)?;
        }
    }
    std::fs::create_dir_all(folder).map_err(|e| Fault::io("create", folder, &e))?;
    writable(folder)
}

/// Says at once that files cannot be written into a folder.
///
/// # Errors
/// A storage fault.
pub(super) fn writable(folder: &Path) -> Outcome<()> {
    there(folder)?;
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(|e| Fault::io("write into", folder, &plain(&e)))
}

/// The folder of a file.
pub(super) fn beside(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Says that a folder is not there.
///
/// # Errors
/// A storage fault.
pub(super) fn there(folder: &Path) -> Outcome<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let what =
        if folder.exists() { format!("`{}` is no folder", folder.display()) } else { format!("there is no folder `{}`", folder.display()) };
    Err(Fault::storage(what).help("make it first, or choose another place for the output"))
}

/// An error without the name of a temporary file, of which nobody knows.
fn plain(error: &std::io::Error) -> std::io::Error {
    error.kind().into()
}

/// The file of a table in a format.
fn file(folder: &Path, layout: &Layout, format: &dyn Format) -> PathBuf {
    folder.join(format!("{}.{}", layout.name.replace(['/', '\\'], "-"), format.extension()))
}

/// Writes every table in the formats that its layout names, each file whole or not at all.
///
/// # Errors
/// A storage fault when a file cannot be written.
pub(super) fn write(tables: &[Table], layouts: &[&Layout], project: &Project, folder: &Path, context: &Context<'_>) -> Outcome<()> {
    prepare(folder, layouts, project)?;
    let mut written: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (table, layout) in tables.iter().zip(layouts) {
        for name in &layout.formats {
            let format = format::find(name)?;
            written.insert(file(folder, layout, format), format.render(std::slice::from_ref(table), Look::default())?);
        }
    }
    for (path, text) in &written {
        replace(path, text.as_bytes())?;
    }
    if let Some(first) = written.keys().next() {
        let shown = std::env::current_dir()
            .ok()
            .and_then(|here| first.strip_prefix(here).ok().map(Path::to_owned))
            .unwrap_or_else(|| first.clone());
        let more = if written.len() > 1 { format!(" and {} more", written.len() - 1) } else { String::new() };
        context.terminal.note(format!("wrote {}{more}", shown.display()));
    }
    Ok(())
}

/// Writes a file so that readers see the old content or the new one, never a part.
///
/// # Errors
/// A storage fault when it cannot be written.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let folder = beside(path);
    there(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".pflpipe-");
    // A temporary file is private; a result is as readable as the user's other files.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(|e| Fault::io("create", path, &plain(&e)))?;
    file.write_all(bytes).and_then(|()| file.flush()).map_err(|e| Fault::io("write", path, &e))?;
    file.persist(path).map_err(|e| Fault::io("write", path, &e.error))?;
    Ok(())
}
