//! The layers of the crate: a module imports only what stands below it, only `cli` prints, and every file says what it is.
//!
//! ARCHITECTURE.md explains the order. Adding a module means adding a line to [`BELOW`].

use std::fs;
use std::path::{Path, PathBuf};

/// For each module what it may import, besides itself. `spec::catalog` is plain data by which the lower layers describe their
/// parameters, `spec::rules` those of several stages together, and `stage::task` the contract between executors and stages.
const BELOW: [(&str, &[&str]); 22] = [
    ("base", &[]),
    ("store", &["base"]),
    ("spec", &["base"]),
    ("plan", &["spec", "base"]),
    ("engine", &["base"]),
    ("data", &["engine", "base", "spec::catalog", "spec::rules"]),
    ("models", &["engine", "base", "spec::catalog", "spec::rules"]),
    ("fl", &["models", "data", "engine", "base", "spec::catalog", "spec::rules"]),
    ("algorithms", &["fl", "models", "data", "engine", "base", "spec::catalog", "spec::rules"]),
    ("attacks", &["fl", "data", "engine", "base", "spec::catalog", "spec::rules", "spec::Params"]),
    ("threats", &["fl", "data", "engine", "base", "spec::catalog", "spec::rules"]),
    ("defences", &["fl", "base", "spec::catalog", "spec::rules"]),
    ("privacy", &["fl", "engine", "base", "spec::catalog", "spec::rules"]),
    ("secure", &["fl", "base", "spec::catalog", "spec::rules"]),
    ("results", &["fl::history", "base"]),
    ("table", &["results", "attacks", "fl", "base"]),
    ("plots", &["results", "base"]),
    ("report", &["plots", "table", "results", "base"]),
    ("stage", &["attacks", "privacy", "secure", "threats", "defences", "algorithms", "fl", "models", "data", "engine", "store", "base"]),
    ("exec", &["stage::task", "store", "base"]),
    (
        "catalog",
        &[
            "results",
            "attacks",
            "privacy",
            "secure",
            "threats",
            "defences",
            "algorithms",
            "fl",
            "models",
            "data",
            "engine",
            "base",
            "spec::Params",
            "spec::catalog",
            "spec::rules",
        ],
    ),
    (
        "cli",
        &[
            "catalog",
            "exec",
            "stage",
            "report",
            "plots",
            "table",
            "results",
            "attacks",
            "privacy",
            "secure",
            "threats",
            "defences",
            "algorithms",
            "fl",
            "models",
            "data",
            "engine",
            "store",
            "plan",
            "spec",
            "base",
        ],
    ),
];

/// Where `unsafe` may stand: hand-written kernels and the memory map.
const UNSAFE: [&str; 2] = ["engine/simd/", "store/map"];

struct Source {
    path: String,
    module: String,
    text: String,
}

impl Source {
    /// The text without line comments, so that what documentation mentions is no import.
    fn code(&self) -> String {
        self.text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path: PathBuf = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
                let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
                files.push(Source { path: name, module, text: fs::read_to_string(&path).expect("UTF-8") });
            }
        }
    }
    assert!(files.len() > 50, "the sources are not where they should be");
    files
}

/// The paths after each `crate::`, groups taken apart, as `a::b`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => {
                let (mut depth, mut start) = (0, 0);
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        '}' | ',' if depth == 0 => {
                            found.push(first_two(group[start..i].trim()));
                            start = i + 1;
                            if c == '}' {
                                break;
                            }
                        }
                        _ => {}
                    }
                }
            }
            None => found.push(first_two(rest)),
        }
    }
    found.retain(|path| !path.is_empty());
    found
}

fn first_two(path: &str) -> String {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(path.len());
    path[..end].split("::").filter(|part| !part.is_empty()).take(2).collect::<Vec<_>>().join("::")
}

#[test]
fn imports_go_down_only() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !["lib", "main"].contains(&source.module.as_str())) {
        let Some((_, below)) = BELOW.iter().find(|(module, _)| *module == source.module) else {
            wrong.push(format!("src/{}: its module is not in the list of this test", source.path));
            continue;
        };
        for import in imports(&source.code()) {
            let module = import.split("::").next().unwrap_or_default();
            if module != source.module && !below.contains(&module) && !below.contains(&import.as_str()) {
                wrong.push(format!("src/{} imports `{import}`", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_list_itself_has_no_cycle() {
    for (place, (module, below)) in BELOW.iter().enumerate() {
        for name in below.iter().filter(|name| !name.contains("::")) {
            let other = BELOW.iter().position(|(module, _)| module == name);
            assert!(other.is_some_and(|other| other < place), "`{module}` stands before `{name}`");
        }
    }
}

#[test]
fn only_the_command_line_prints() {
    let printing = ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!(", "stdout()", "stderr()"];
    for source in sources().iter().filter(|source| source.module != "cli") {
        for word in printing {
            assert!(!source.code().contains(word), "src/{} uses `{word}`", source.path);
        }
    }
}

#[test]
fn every_file_says_what_it_is() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "src/{} does not begin with a `//!` sentence", source.path);
    }
}

#[test]
fn unsafe_stands_where_it_is_allowed_only() {
    for source in sources().iter().filter(|source| !UNSAFE.iter().any(|place| source.path.starts_with(place))) {
        for word in ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"] {
            assert!(!source.code().contains(word), "src/{} contains `{word}`", source.path);
        }
    }
}

#[test]
fn nothing_is_left_to_do() {
    for source in sources() {
        for word in ["todo!(", "unimplemented!("] {
            assert!(!source.code().contains(word), "src/{} contains `{word}`", source.path);
        }
    }
}

#[test]
fn groups_of_imports_are_taken_apart() {
    let code = "use crate::{data, spec::{catalog::{Field, Type}, node}};\nuse crate::base::Outcome; let x = crate::fl::History::default();";
    assert_eq!(imports(code), ["data", "spec", "base::Outcome", "fl::History"]);
}
