//! The variables that begin with `LOCKER_`. An unknown variable is a mistake: the command would use
//! another table than intended.

use std::collections::BTreeSet;

use crate::exit::Exit;

/// Variables that are read without an option of the command: its own, and those of the functions.
const OTHERS: [&str; 8] = [
    "LOCKER_ATTEMPTS",
    "LOCKER_EXPECT_MS",
    "LOCKER_FINGERPRINT_SECRET_ARN",
    "LOCKER_KEYS_IN_LOGS",
    "LOCKER_LOG",
    "LOCKER_RETRY_HOURS",
    "LOCKER_STACK",
    "LOCKER_WORKFLOWS_TABLE",
];

/// Returns the variables that a command line reads, and those of the other programs of Locker.
pub(crate) fn known(command: &clap::Command) -> BTreeSet<String> {
    let mut known = OTHERS.map(str::to_owned).into();
    add(command, &mut known);
    known
}

fn add(command: &clap::Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(clap::Arg::get_env).filter_map(|name| name.to_str());
    known.extend(names.map(str::to_owned));
    command.get_subcommands().for_each(|verb| add(verb, known));
}

/// Refuses a variable of this process that is not known.
///
/// # Errors
///
/// [`Exit::SETUP`], with the nearest variable that is known.
pub(crate) fn check(known: &BTreeSet<String>) -> Result<(), Exit> {
    let exported = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let unknown = exported.filter(|name| name.starts_with("LOCKER_") && !known.contains(name)).min();
    match unknown {
        None => Ok(()),
        Some(unknown) => Err(Exit::say(Exit::SETUP, refusal(&unknown, known))),
    }
}

fn refusal(unknown: &str, known: &BTreeSet<String>) -> String {
    let nearest = known
        .iter()
        .filter(|name| name.starts_with("LOCKER_"))
        .map(|name| (strsim::osa_distance(unknown, name), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 4);
    match nearest {
        Some((_, name)) => format!("no variable is called {unknown}; did you mean {name}? Nothing was done"),
        None => format!("no variable is called {unknown}; unset it. Nothing was done"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The names in a text that stand in quotes or are read from an environment.
    fn named(text: &str, found: &mut BTreeSet<String>) {
        for part in text.split("\"LOCKER_").skip(1) {
            let end = part.find(|c: char| !(c.is_ascii_uppercase() || c == '_')).unwrap_or(part.len());
            if end > 0 && part[end..].starts_with('"') {
                found.insert(format!("LOCKER_{}", &part[..end]));
            }
        }
    }

    fn sources(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                named(&std::fs::read_to_string(path).expect("text"), found);
            }
        }
    }

    #[test]
    fn every_variable_that_the_sources_read_is_known() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let mut read = BTreeSet::new();
        for folder in ["cli/src", "dev/src", "functions/src", "locker/src"] {
            sources(&workspace.join(folder), &mut read);
        }
        let known = known(&crate::command::stock());
        // Variables that one test passes to another.
        read.retain(|name| !["LOCKER_TABEL", "LOCKER_FROBNICATE"].contains(&name.as_str()));
        assert!(read.len() > 8, "{read:?}");
        let unknown: Vec<_> = read.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?}: add them to OTHERS");
    }

    #[test]
    fn the_nearest_variable_is_named() {
        let known = known(&crate::command::stock());
        assert!(refusal("LOCKER_TABEL", &known).contains("did you mean LOCKER_TABLE?"));
        assert!(refusal("LOCKER_FROBNICATE", &known).contains("unset it"));
    }
}
