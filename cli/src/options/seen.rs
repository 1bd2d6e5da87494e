//! The protocol of every act. Without `--seen`, a verb exits with 6 and prints a dry run with an
//! id. With `--seen ID`, it acts on the records of the dry run.

use clap::Args;

use crate::exit::Exit;

#[derive(Debug, Args)]
pub(crate) struct Seen {
    /// Act on the record as it was shown under this id: by a dry run, or for most acts by `locker
    /// show`. Without it, print a dry run with its id and exit with 6.
    #[arg(long = "seen", value_name = "ID")]
    id: Option<String>,
}

/// The difference between an act and its dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differs {
    /// The record has changed.
    Record,
    /// The id was printed for another act.
    Act,
}

/// Compares the id that an operator saw with the id of a dry run now. `only_dry_run`: the revision
/// of `locker show` is not accepted, because `locker show` does not print the effect of the act.
pub(crate) fn compare(seen: &str, now: &str, only_dry_run: bool) -> Result<(), Differs> {
    let (revision, act) = now.split_once('.').unwrap_or((now, ""));
    // `locker show` prints the revision alone, because it has no arguments of an act.
    let of_show = if only_dry_run { "" } else { act };
    match seen.split_once('.').unwrap_or((seen, of_show)) {
        (of, _) if of != revision => Err(Differs::Record),
        (_, of) if of != act => Err(Differs::Act),
        _ => Ok(()),
    }
}

impl Seen {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns whether to act: the operator saw the record as it is now. `false`: no id was given,
    /// so this is a dry run.
    ///
    /// `id`: the id of a dry run now. `said`: the name of the record. `look`: the command that
    /// shows it.
    pub(crate) fn is(&self, id: &str, said: &str, look: &str) -> Result<bool, Exit> {
        let Some(seen) = self.id() else { return Ok(false) };
        compare(seen, id, false).map_err(|differs| self.refused(differs, said, look))?;
        Ok(true)
    }

    /// The exit of an act that is not as it was seen.
    pub(crate) fn refused(&self, differs: Differs, said: &str, look: &str) -> Exit {
        let seen = self.id().unwrap_or_default();
        let why = match differs {
            Differs::Record => format!(
                "{said} has changed since it had the id {seen}; nothing was written. Look again with `{look}`"
            ),
            Differs::Act => format!(
                "the id {seen} is not from a dry run of this verb with these arguments; nothing was \
                 written. Run the command without --seen to see what it would do"
            ),
        };
        Exit::say(Exit::CHANGED, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_show_or_of_the_same_dry_run_is_accepted() {
        let seen = |id: Option<&str>| {
            let seen = Seen { id: id.map(str::to_owned) };
            seen.is("0f3a9c51d2.9a8fac0a", "pay/1", "locker show pay/1").map_err(|exit| exit.code())
        };
        assert_eq!(seen(None), Ok(false));
        assert_eq!(seen(Some("0f3a9c51d2")), Ok(true));
        assert_eq!(seen(Some("0f3a9c51d2.9a8fac0a")), Ok(true));
        for wrong in ["0f3a9c51d2.9a8fac0b", "0f3a9c51d3", "0f3a9c51d3.9a8fac0a", "0f3a9c51d2.", ""] {
            assert_eq!(seen(Some(wrong)), Err(Exit::CHANGED), "{wrong}");
        }
        assert_eq!(compare("0f3a9c51d2", "0f3a9c51d2.9a8fac0a", true), Err(Differs::Act));
        assert_eq!(compare("0f3a9c51d2.9a8fac0a", "0f3a9c51d2.9a8fac0a", true), Ok(()));
    }
}
