//! The users that may write the file of an engine.
//!
//! A user with write access can replace the file, or change an answer in it. The work of a token
//! would be done again. So the engine refuses a file that a user other than its owner and root may
//! write.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, geteuid};

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// As many links as Linux follows.
const LINKS: usize = 40;

/// A path that a user other than the owner of the store and root may write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exposed {
    pub(crate) path: PathBuf,
    pub(crate) by: By,
}

/// The users that may write a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Every user of the machine.
    All,
    /// The other members of its group.
    Group(String, Vec<String>),
    /// The user that owns it.
    Owner(String),
}

/// Finds a path above a file, or a file of the engine, that others may write. Directories that do
/// not exist are left out.
pub(crate) fn exposed(file: &Path) -> io::Result<Option<Exposed>> {
    exposed_to(&other_members, file)
}

/// The users that may write by the mode for a group: its other members. `None` if it has none. The
/// arguments are the number of the group, and the owner of the store.
type Members = dyn Fn(u32, u32) -> Option<By>;

fn exposed_to(members: &Members, file: &Path) -> io::Result<Option<Exposed>> {
    let owner = match std::fs::symlink_metadata(file) {
        Ok(found) => found.uid(),
        Err(error) if error.kind() == ErrorKind::NotFound => geteuid().as_raw(),
        Err(error) => return Err(error),
    };
    let directory = file.parent().unwrap_or(Path::new("/"));
    if let Some(exposed) = exposed_above(members, directory, owner)? {
        return Ok(Some(exposed));
    }
    // SQLite also reads the files next to it.
    for ending in ["", "-wal", "-shm", "-journal"] {
        let mut path = file.as_os_str().to_owned();
        path.push(ending);
        let path = PathBuf::from(path);
        match std::fs::symlink_metadata(&path) {
            Ok(found) => {
                if let Some(by) = writer(members, &found, owner, false) {
                    return Ok(Some(Exposed { path, by }));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Follows a path from the root, through links. A user with write access to a directory of the path
/// can replace the entries of the directory.
fn exposed_above(members: &Members, directory: &Path, owner: u32) -> io::Result<Option<Exposed>> {
    let mut left: VecDeque<OsString> = names(&std::path::absolute(directory)?).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    loop {
        let found = std::fs::symlink_metadata(&at)?;
        // In a sticky directory only the owner of an entry moves it. But in the directory of the
        // store, others could create a file that SQLite reads.
        let is_sticky = found.mode() & STICKY != 0 && !left.is_empty();
        if let Some(by) = writer(members, &found, owner, is_sticky) {
            return Ok(Some(Exposed { path: at, by }));
        }
        let Some(name) = left.pop_front() else { return Ok(None) };
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let found = match std::fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(io::Error::other("it has too many links"));
        }
        // A link has no mode, but its owner can replace it.
        if !is_trusted(found.uid(), owner) {
            return Ok(Some(Exposed { path: next, by: By::Owner(name_of(found.uid())) }));
        }
        let target = std::fs::read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        names(&target).collect::<Vec<_>>().into_iter().rev().for_each(|name| left.push_front(name));
    }
}

/// The names of a path, with `..` as a name.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

fn is_trusted(user: u32, owner: u32) -> bool {
    [ROOT, owner].contains(&user)
}

/// The users that may write a path, without the owner of the store and root. If `is_sticky` is set,
/// the path is a directory whose mode does not matter.
fn writer(members: &Members, found: &std::fs::Metadata, owner: u32, is_sticky: bool) -> Option<By> {
    if !is_trusted(found.uid(), owner) {
        return Some(By::Owner(name_of(found.uid())));
    }
    let may = |bit| !is_sticky && !found.is_symlink() && found.mode() & bit != 0;
    if may(ALL_WRITE) {
        return Some(By::All);
    }
    if !may(GROUP_WRITES) {
        return None;
    }
    members(found.gid(), owner)
}

fn other_members(number: u32, owner: u32) -> Option<By> {
    let group = Group::from_gid(Gid::from_raw(number)).ok().flatten();
    let Some(group) = group else { return Some(By::Group(number.to_string(), Vec::new())) };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let others = others(&group.mem, &users, number, owner);
    (!others.is_empty()).then_some(By::Group(group.name, others))
}

/// The members of a group, except root and the owner. `users`: the lines of `/etc/passwd`, because
/// the list of a group does not contain the users whose own group it is.
fn others(members: &[String], users: &str, group: u32, owner: u32) -> Vec<String> {
    let mut others = Vec::new();
    let mut trusted = vec!["root".to_owned(), name_of(owner)];
    for line in users.lines() {
        let fields: Vec<_> = line.split(':').collect();
        let [name, _, user, own, ..] = fields[..] else { continue };
        let (Ok(user), Ok(own)) = (user.parse(), own.parse::<u32>()) else { continue };
        if is_trusted(user, owner) {
            trusted.push(name.to_owned());
        } else if own == group && group != ROOT {
            // On some machines, system users are in the group of root.
            others.push(name.to_owned());
        }
    }
    others.extend(members.iter().filter(|name| !trusted.contains(name)).cloned());
    others.sort();
    others.dedup();
    others
}

fn name_of(user: u32) -> String {
    let found = User::from_uid(Uid::from_raw(user)).ok().flatten();
    found.map_or_else(|| format!("user {user}"), |found| found.name)
}

impl std::fmt::Display for Exposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        let (by, change) = match &self.by {
            By::All => ("every user of this machine".to_owned(), "o-w"),
            By::Group(group, members) if members.is_empty() => {
                (format!("the group {group}, whose members are not known"), "g-w")
            }
            By::Group(group, members) => (format!("the group {group} ({})", members.join(", ")), "g-w"),
            By::Owner(owner) => (owner.clone(), ""),
        };
        write!(f, "{path} can be written by {by}, who could exchange the store and have work done again; ")?;
        match change {
            "" => f.write_str("choose a directory that only you can write"),
            change => write!(f, "run `chmod {change} {path}`, or choose another directory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const USERS: &str = "root:x:0:0::/root:/bin/sh\noperator:x:11:0::/:/sbin/nologin\n\
        ada:x:1001:1001::/home/ada:/bin/sh\nben:x:1002:100::/home/ben:/bin/sh\n\
        toor:x:0:7::/root:/bin/sh\nbroken\nodd:x:y:z\n";

    #[test]
    fn other_members_of_a_group_are_found_in_both_tables() {
        let others = |members: &[&str], group| {
            others(&members.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), USERS, group, 1001)
        };
        assert_eq!(others(&[], 1001), [""; 0], "a group of one's own");
        assert_eq!(others(&["ada", "root", "toor"], 1001), [""; 0]);
        assert_eq!(others(&["ada", "eve"], 1001), ["eve"]);
        assert_eq!(others(&["eve", "ben"], 100), ["ben", "eve"]);
        assert_eq!(others(&[], 0), [""; 0], "the group of root");
        assert_eq!(others(&["ben"], 0), ["ben"]);
    }

    fn mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn by(file: &Path) -> Option<(PathBuf, By)> {
        exposed(file).unwrap().map(|found| (found.path, found.by))
    }

    #[test]
    fn a_path_that_all_may_write_is_found_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (above, store) = (place.join("above"), place.join("above/store"));
        create_dir(&above).unwrap();
        create_dir(&store).unwrap();
        let file = store.join("locker.db");
        assert_eq!(by(&file), None);
        for path in [&place, &above, &store] {
            mode(path, 0o777);
            assert_eq!(by(&file), Some((path.clone(), By::All)));
            mode(path, 0o1777);
            // Others may make files in a sticky directory, also those of the engine.
            let expected = (path == &store).then(|| (store.clone(), By::All));
            assert_eq!(by(&file), expected, "{}", path.display());
            mode(path, 0o755);
        }
        for name in ["locker.db", "locker.db-wal", "locker.db-shm", "locker.db-journal"] {
            let file = store.join(name);
            std::fs::write(&file, "").unwrap();
            mode(&file, 0o646);
            assert_eq!(by(&store.join("locker.db")), Some((file.clone(), By::All)));
            mode(&file, 0o644);
        }
        assert_eq!(by(&file), None);
        // A missing directory will be created for its user alone.
        assert_eq!(by(&store.join("new/newer/locker.db")), None);
    }

    #[test]
    fn path_that_other_members_of_its_group_may_write_is_found() {
        fn staff() -> By {
            By::Group("staff".to_owned(), vec!["ben".to_owned()])
        }
        let by = |file: &Path| {
            let found = exposed_to(&|_, _| Some(staff()), file).unwrap();
            found.map(|found| (found.path, found.by))
        };
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (above, store) = (place.join("above"), place.join("above/store"));
        create_dir(&above).unwrap();
        create_dir(&store).unwrap();
        let file = store.join("locker.db");
        std::fs::write(&file, "").unwrap();
        for (path, open, closed) in [(&above, 0o770, 0o750), (&store, 0o770, 0o750), (&file, 0o660, 0o640)] {
            mode(path, open);
            assert_eq!(by(&file), Some((path.clone(), staff())));
            assert_eq!(exposed_to(&|_, _| None, &file).unwrap(), None, "a group without other members");
            mode(path, closed);
            assert_eq!(by(&file), None);
        }
        mode(&above, 0o1770);
        assert_eq!(by(&file), None, "only the owner of an entry moves it");
    }

    #[test]
    fn a_link_is_followed_to_what_others_may_write() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let open = place.join("open");
        create_dir(&open).unwrap();
        create_dir(open.join("store")).unwrap();
        mode(&open, 0o777);
        symlink(&open, place.join("absolute")).unwrap();
        symlink("absolute/../open/store", place.join("relative")).unwrap();
        for link in ["absolute/store", "relative", "open/store/../store"] {
            assert_eq!(by(&place.join(link).join("locker.db")), Some((open.clone(), By::All)), "{link}");
        }
        symlink("loop", place.join("loop")).unwrap();
        assert!(exposed(&place.join("loop/locker.db")).is_err());
    }

    #[test]
    fn the_text_says_who_and_what_to_do() {
        let said = |by| Exposed { path: "/srv/store".into(), by }.to_string();
        assert_eq!(
            said(By::All),
            "/srv/store can be written by every user of this machine, who could exchange the store and have \
             work done again; run `chmod o-w /srv/store`, or choose another directory"
        );
        let group = By::Group("staff".to_owned(), vec!["ben".to_owned(), "eve".to_owned()]);
        assert!(said(group).contains("by the group staff (ben, eve), who could"));
        assert!(said(By::Owner("ben".to_owned())).ends_with("; choose a directory that only you can write"));
    }
}
