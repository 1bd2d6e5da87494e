//! Kept test inputs: each once found something, and every test run replays them.

use std::path::Path;

/// The files of a folder of `corpus/`, by name.
pub(crate) fn read(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<_> = files
        .map(|file| {
            let file = file.expect("a file");
            let name = file.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(file.path()).expect("its bytes"))
        })
        .collect();
    assert!(!inputs.is_empty(), "{} has no files", folder.display());
    inputs.sort();
    inputs
}
