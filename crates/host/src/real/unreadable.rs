//! Settings of the host that other users may not read: root in a container is another user.
//!
//! Walking `/etc` takes milliseconds, and walking what administrators install takes as long as it takes. So one thread of
//! this process does it: before the first container starts, and again at a start that finds the list old. A start
//! waits for the first walk of `/etc`, and never for another one. What the distribution has in `/usr` is not walked:
//! it is on every machine, and no secret.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::masks;

/// The first one is waited for.
const TREES: [&str; 3] = ["/etc", "/opt", "/usr/local"];
/// A start that finds a list of this age has it made again, for those that come after it.
const OLD: Duration = Duration::from_secs(5);
/// And not before so many times the time that it took: walks of large trees shall not keep a processor busy.
const REST: u32 = 50;
/// A settings directory that cannot be walked in this time, can it be read at all?
const PATIENCE: Duration = Duration::from_secs(30);

const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o001;
/// Each path takes time at each start. A directory with more than this of them is left out as a whole.
const EACH_MAX: usize = 16;

/// One for each process; clones share it.
#[derive(Clone, Default)]
pub(super) struct Unreadable {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// Of each tree that was walked.
    found: [Option<Vec<PathBuf>>; TREES.len()],
    /// When the last walk ended, and how long it took.
    walked: Option<(Instant, Duration)>,
    walking: bool,
}

impl Unreadable {
    /// The list of this process. The first call begins the walk.
    pub fn of_process() -> Self {
        static SHARED: std::sync::OnceLock<Unreadable> = std::sync::OnceLock::new();
        let shared = SHARED.get_or_init(Self::default).clone();
        shared.walk_if_old();
        shared
    }

    /// Files and directories that a container must not see. Blocks until `/etc` has been walked.
    pub fn paths(&self) -> io::Result<Vec<PathBuf>> {
        self.walk_if_old();
        let (_, changed) = &*self.shared;
        let unknown = |state: &mut State| state.found[0].is_none();
        let waited = changed.wait_timeout_while(self.state(), PATIENCE, unknown);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.found[0].is_none() {
            let text = format!("`{}` could not be walked in {} s", TREES[0], PATIENCE.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(state.found.iter().flatten().flatten().cloned().collect())
    }

    fn walk_if_old(&self) {
        let mut state = self.state();
        let fresh = state.walked.is_some_and(|(at, took)| at.elapsed() < OLD.max(took.saturating_mul(REST)));
        if fresh || state.walking {
            return;
        }
        state.walking = true;
        drop(state);
        let shared = self.clone();
        thread::spawn(move || shared.walk());
    }

    fn walk(&self) {
        let begun = Instant::now();
        for (number, tree) in TREES.iter().enumerate() {
            let found = unreadable(Path::new(tree));
            self.state().found[number] = Some(found);
            self.shared.1.notify_all();
        }
        let mut state = self.state();
        state.walked = Some((Instant::now(), begun.elapsed()));
        state.walking = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What other users may not read in a tree, on its own filesystem. A directory that others may not enter counts as a whole.
fn unreadable(tree: &Path) -> Vec<PathBuf> {
    let Ok(top) = fs::metadata(tree) else { return Vec::new() };
    let mut found = Vec::new();
    let mut pending = vec![tree.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let before = found.len();
        // What vanishes meanwhile, or cannot be read by us either, is in no container's way.
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if masks::DIRECTORIES.iter().any(|masked| entry.path() == Path::new(masked)) {
                continue;
            }
            match verdict(metadata.file_type(), &metadata) {
                Verdict::Hide => found.push(entry.path()),
                Verdict::Enter if metadata.dev() == top.dev() => pending.push(entry.path()),
                Verdict::Enter | Verdict::Show => {}
            }
        }
        if found.len() - before > EACH_MAX && dir != tree {
            found.truncate(before);
            pending.retain(|path| !path.starts_with(&dir));
            found.push(dir);
        }
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Hide,
    Enter,
    Show,
}

fn verdict(kind: FileType, metadata: &Metadata) -> Verdict {
    let may = |bit: u32| metadata.mode() & bit != 0;
    match () {
        () if kind.is_dir() && may(OTHERS_ENTER) => Verdict::Enter,
        () if kind.is_dir() => Verdict::Hide,
        // Others may run it, so what it holds is no secret.
        () if kind.is_file() && !may(OTHERS_READ | OTHERS_ENTER) => Verdict::Hide,
        () if kind.is_socket() || kind.is_fifo() => {
            if may(OTHERS_READ) {
                Verdict::Show
            } else {
                Verdict::Hide
            }
        }
        // Links lead to what is shown or hidden by itself; nodes of devices cannot be opened.
        () => Verdict::Show,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_not_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("shown", 0o644),
            ("hidden", 0o640),
            ("sudo", 0o4111),
            ("open/hidden", 0o600),
            ("closed/shown", 0o644),
            ("unlisted/hidden", 0o600),
        ];
        let dirs = [("open", 0o755), ("closed", 0o750), ("unlisted", 0o711), ("many", 0o755)];
        for (name, _) in dirs {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let many = (0..=EACH_MAX).map(|number| (format!("many/{number}"), 0o600));
        for (name, mode) in files.map(|(name, mode)| (name.to_owned(), mode)).into_iter().chain(many) {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in dirs {
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("hidden", dir.path().join("link")).unwrap();
        let mut found = unreadable(dir.path());
        found.sort();
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(dir.path()).unwrap()).collect();
        let want = ["closed", "hidden", "many", "open/hidden", "unlisted/hidden"].map(Path::new);
        assert_eq!(names, want);
        assert_eq!(unreadable(Path::new("/no/such/tree")), Vec::<PathBuf>::new());
    }
}
