//! Rules of ARCHITECTURE.md that a reader of the sources can check, checked.

use std::fs;
use std::path::{Path, PathBuf};

use schedlab_core::kernels::patches;

/// Longest file that still reads from top to bottom.
const MAX_LINES: usize = 900;
/// Longer today, with a reason each.
const LONGER: [(&str, &str); 1] =
    [("balance/mod.rs", "the columns of every decision that Python can ask for")];

/// Path below `src` and text of each source file of the core, tests inside it cut off.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    collect(&root, &mut files);
    files.sort();
    assert!(files.len() > 30, "{} files below {}", files.len(), root.display());
    files
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The lines of code with their numbers: no comments, and nothing of the tests at the end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .take_while(|line| *line != "mod tests {")
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}

/// Where a word stands in code below a folder; `word` must not be part of a longer one.
fn mentions(folder: &str, word: &str) -> Vec<String> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let found_in = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word)
        })
    };
    sources()
        .iter()
        .filter(|(name, _)| name.starts_with(folder) && !name.ends_with("_tests.rs"))
        .flat_map(|(name, text)| {
            code(text)
                .filter(|&(_, line)| found_in(line))
                .map(|(number, line)| format!("{name}:{number}: {}", line.trim()))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[track_caller]
fn absent(folder: &str, words: &[&str]) {
    for word in words {
        assert_eq!(
            mentions(folder, word),
            Vec::<String>::new(),
            "`{word}` does not belong into src/{folder}"
        );
    }
}

#[test]
fn the_search_finds_what_is_there() {
    assert!(!mentions("sim/", "EventQueue").is_empty());
    assert!(!mentions("kernels/", "v5_6").is_empty());
    assert!(mentions("sim/", "EventQueu").is_empty());
}

#[test]
fn the_mechanism_names_no_kernel_version() {
    let versions: Vec<String> = schedlab_core::kernels::REGISTRY
        .iter()
        .flat_map(|kernel| {
            let module = kernel.name.replace('.', "_");
            [module.to_uppercase(), module, kernel.name.to_owned()]
        })
        .collect();
    for version in &versions {
        absent("sim/", &[version]);
        absent("workload/", &[version]);
        absent("record/", &[version]);
    }
}

#[test]
fn policy_pushes_no_event_and_reads_no_clock_of_the_engine() {
    absent("kernels/", &["EventQueue", "events", "Interrupt", "send_interrupt", "Sim", "Record", "Rng"]);
}

#[test]
fn the_core_knows_no_python_no_clock_and_no_file() {
    absent(
        "",
        &[
            "pyo3",
            "numpy",
            "std::time",
            "Instant",
            "SystemTime",
            "std::fs",
            "std::env",
            "println",
            "eprintln",
        ],
    );
}

#[test]
fn no_decision_depends_on_the_order_of_a_hash() {
    for folder in ["sim/", "kernels/", "workload/", "record/", "pelt/", "balance/", "run.rs", "scenario.rs"] {
        absent(folder, &["HashMap", "HashSet"]);
    }
    // Domains are built with the help of maps, which may be asked and not walked.
    for (name, text) in sources() {
        for map in code(&text).filter_map(|(_, line)| declared_map(line)) {
            let walks =
                ["iter()", "iter_mut()", "into_iter()", "values()", "into_values()", "keys()", "drain()"]
                    .map(|method| format!("{map}.{method}"))
                    .into_iter()
                    .chain([format!("in {map} "), format!("in &{map} "), format!("in &self.{map} ")]);
            for walk in walks {
                let found = code(&text).find(|(_, line)| line.contains(&walk));
                assert_eq!(found, None, "{name} walks the map `{map}`");
            }
        }
    }
}

/// Name of the `HashMap` that a line declares.
fn declared_map(line: &str) -> Option<&str> {
    let (before, _) = line.split_once("HashMap")?;
    let name = before.trim_end().strip_suffix(':').or_else(|| before.trim_end().strip_suffix('='))?;
    let name = name.split(':').next()?.trim().rsplit([' ', '{']).next()?;
    (!name.is_empty()).then_some(name)
}

#[test]
fn no_decision_depends_on_a_float() {
    for folder in
        ["sim/", "kernels/", "pelt/", "workload/", "topology/", "record/", "run.rs", "load_weight.rs"]
    {
        absent(folder, &["f32", "f64"]);
    }
}

#[test]
fn a_run_knows_of_no_other_thread() {
    for folder in ["sim/", "kernels/", "workload/", "record/", "topology/", "rng.rs", "load_weight.rs"] {
        absent(folder, &["rayon", "std::thread", "thread_local", "Mutex", "RwLock", "static mut"]);
    }
}

#[test]
fn every_patch_is_in_the_registry() {
    let files: Vec<String> = sources()
        .into_iter()
        .filter_map(|(name, _)| Some(name.strip_prefix("kernels/patches/")?.strip_suffix(".rs")?.to_owned()))
        .filter(|module| module != "mod")
        .collect();
    assert!(!files.is_empty());
    for module in &files {
        let registered = patches::REGISTRY.iter().any(|patch| {
            patch.patched.slots().iter().any(|(_, origin)| origin.module() == format!("patches::{module}"))
        });
        assert!(registered, "no patch of REGISTRY takes a slot from kernels/patches/{module}.rs");
    }
}

#[test]
fn files_are_short_enough_to_read() {
    for (name, text) in sources() {
        let lines = text.lines().count();
        let excused = LONGER.iter().any(|&(longer, _)| longer == name);
        assert!(excused || lines <= MAX_LINES, "{name} has {lines} lines");
        assert!(!excused || lines > MAX_LINES, "{name} has {lines} lines and needs no excuse");
    }
}

#[test]
fn functions_that_model_the_kernel_say_which() {
    // The slots' functions: what fills a slot is policy, so its first line names file and version.
    for (name, text) in sources().iter().filter(|(name, _)| name.starts_with("kernels/v")) {
        let compact: String = text.split_whitespace().collect();
        let mut doc_start: Option<&str> = None;
        for line in text.lines() {
            let trimmed = line.trim_start();
            if trimmed.starts_with("///") {
                doc_start.get_or_insert(trimmed);
                continue;
            }
            let slot = trimmed.strip_prefix("fn ").or_else(|| trimmed.strip_prefix("pub(super) fn "));
            let function = slot.and_then(|rest| rest.split(['(', '<']).next());
            if let Some(function) =
                function.filter(|function| compact.contains(&format!("slot!({function},")))
            {
                let doc = doc_start.unwrap_or_default();
                assert!(doc.starts_with("/// kernel/sched/"), "{name}: {function} says {doc:?}");
            }
            if !trimmed.starts_with("#[") {
                doc_start = None;
            }
        }
    }
}
