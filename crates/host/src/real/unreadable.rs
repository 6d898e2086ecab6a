//! Settings of the host that other users may not read: root in a container is another user.
//!
//! Walking `/etc` takes milliseconds, and walking what administrators install takes as long as it takes. So threads of
//! this process do it, one for each tree: before the first container starts, and again at a start that finds a list old.
//! A start waits for the first walks, and never for another one. A tree that takes longer than a start can wait is left
//! out as a whole until its walk has ended. What the distribution has in `/usr` is not walked: it is on every machine,
//! and no secret.

mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use walk::{Private, walk};

/// A container without settings can do nothing; without the others it can.
const NEEDED: &str = "/etc";
const TREES: [&str; 3] = [NEEDED, "/opt", "/usr/local"];
/// A start that finds a list of this age has it made again, for those that come after it.
const OLD: Duration = Duration::from_secs(5);
/// And not before so many times the time that it took: walks of large trees shall not keep a processor busy.
const REST: u32 = 50;
/// How long starts wait for the first walk of a tree, from its beginning.
const PATIENCE: Duration = Duration::from_secs(30);

/// One for each process; clones share it.
#[derive(Clone)]
pub(super) struct Unreadable {
    shared: Arc<Shared>,
}

struct Shared {
    trees: Mutex<Vec<Tree>>,
    changed: Condvar,
    settings: Settings,
}

struct Settings {
    walk: Box<dyn Fn(&Path) -> Private + Send + Sync>,
    patience: Duration,
    old: Duration,
}

/// One that never ends, at a mount point that does not answer, keeps no other from being walked.
struct Tree {
    path: &'static Path,
    found: Option<Private>,
    /// When the last walk ended, and how long it took.
    walked: Option<(Instant, Duration)>,
    /// When the walk began that goes on.
    walking: Option<Instant>,
    /// That it takes too long was logged.
    told: bool,
}

impl Unreadable {
    /// The lists of this process. The first call begins the walks.
    pub fn of_process() -> Self {
        static SHARED: std::sync::OnceLock<Unreadable> = std::sync::OnceLock::new();
        let settings = || Settings { walk: Box::new(walk), patience: PATIENCE, old: OLD };
        let shared = SHARED.get_or_init(|| Self::new(&TREES, settings())).clone();
        shared.walk_if_old();
        shared
    }

    fn new(trees: &[&'static str], settings: Settings) -> Self {
        let tree = |path: &&'static str| Tree {
            path: Path::new(*path),
            found: None,
            walked: None,
            walking: None,
            told: false,
        };
        let trees = Mutex::new(trees.iter().map(tree).collect());
        Self { shared: Arc::new(Shared { trees, changed: Condvar::new(), settings }) }
    }

    /// Files and directories that a container must not see. Blocks until each tree has been walked once, or has had its time.
    pub fn paths(&self) -> io::Result<Vec<PathBuf>> {
        self.walk_if_old();
        let patience = self.shared.settings.patience;
        let mut trees = self.trees();
        while let Some(left) = trees.iter().filter_map(|tree| tree.worth_waiting(patience)).max() {
            let waited = self.shared.changed.wait_timeout(trees, left);
            trees = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut paths = Vec::new();
        for tree in trees.iter() {
            match &tree.found {
                Some(found) => paths.extend(found.paths.iter().cloned()),
                None if tree.path == Path::new(NEEDED) => {
                    let text = format!(
                        "`{NEEDED}` could not be walked in {} s: is a mount in it dead, or are there too many threads?",
                        patience.as_secs()
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                // What is in it is not known, so nothing of it is shown.
                None => paths.push(tree.path.to_owned()),
            }
        }
        Ok(paths)
    }

    fn walk_if_old(&self) {
        let settings = &self.shared.settings;
        for (number, tree) in self.trees().iter_mut().enumerate() {
            if let Some(begun) = tree.walking {
                if begun.elapsed() > settings.patience && !tree.told {
                    tree.told = true;
                    let left = if tree.found.is_some() { "what was found before" } else { "all of it" };
                    tracing::warn!(
                        tree = %tree.path.display(), hidden = left,
                        "directory takes long to walk for files that containers must not see; look for a dead mount in it"
                    );
                }
                continue;
            }
            let rest = |took: Duration| settings.old.max(took.saturating_mul(REST));
            if tree.walked.is_some_and(|(at, took)| at.elapsed() < rest(took)) {
                continue;
            }
            let (shared, path) = (self.clone(), tree.path);
            let name = format!("walk {}", path.display());
            match thread::Builder::new().name(name).spawn(move || shared.walk(number, path)) {
                // The thread cannot have ended: it needs the lock that is held here.
                Ok(_) => tree.walking = Some(Instant::now()),
                Err(error) => {
                    tracing::warn!(tree = %path.display(), %error, "cannot walk a directory; tried again at the next start");
                }
            }
        }
    }

    fn walk(&self, number: usize, path: &Path) {
        let begun = Instant::now();
        let found = (self.shared.settings.walk)(path);
        if let Some(tree) = self.trees().get_mut(number) {
            let known = tree.found.take().unwrap_or_default();
            for dir in found.whole.iter().filter(|dir| !known.whole.contains(dir)) {
                tracing::warn!(
                    dir = %dir.display(),
                    "containers do not see this directory: it holds too many files that other users may not read"
                );
            }
            tree.found = Some(found);
            tree.walked = Some((Instant::now(), begun.elapsed()));
            (tree.walking, tree.told) = (None, false);
        }
        self.shared.changed.notify_all();
    }

    fn trees(&self) -> MutexGuard<'_, Vec<Tree>> {
        self.shared.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    /// How long a start still waits for it.
    fn worth_waiting(&self, patience: Duration) -> Option<Duration> {
        let begun = self.walking.filter(|_| self.found.is_none())?;
        patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const TREES: [&str; 2] = ["/etc", "/opt"];

    /// A machine on which the walk of `/opt` ends when the sender is dropped, and how often `/etc` was walked.
    fn slow(patience: Duration) -> (Unreadable, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (release, held) = mpsc::channel();
        let (held, count) = (Mutex::new(held), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        let walk = move |tree: &Path| {
            match tree == Path::new("/opt") {
                true => drop(held.lock().unwrap().recv()),
                false => drop(counted.fetch_add(1, Ordering::Relaxed)),
            }
            Private { paths: vec![tree.join("private")], ..Private::default() }
        };
        let settings = Settings { walk: Box::new(walk), patience, old: Duration::ZERO };
        (Unreadable::new(&TREES, settings), release, count)
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is(unreadable: &Unreadable, want: [&str; 2]) -> bool {
        unreadable.paths().is_ok_and(|paths| paths == want.map(Path::new))
    }

    #[test]
    fn the_first_start_waits_for_every_tree() {
        let (unreadable, release, _) = slow(Duration::from_secs(3600));
        let waiting = thread::spawn({
            let unreadable = unreadable.clone();
            move || unreadable.paths().unwrap()
        });
        until("walked", || unreadable.trees()[0].found.is_some());
        assert!(!waiting.is_finished());
        drop(release);
        assert_eq!(waiting.join().unwrap(), ["/etc/private", "/opt/private"].map(Path::new));
    }

    #[test]
    fn a_tree_that_cannot_be_walked_is_hidden_and_holds_up_no_other() {
        let (unreadable, release, walks) = slow(Duration::ZERO);
        until("hidden as a whole", || is(&unreadable, ["/etc/private", "/opt"]));
        let before = walks.load(Ordering::Relaxed);
        until("the other one is walked again", || {
            is(&unreadable, ["/etc/private", "/opt"]) && walks.load(Ordering::Relaxed) > before
        });
        assert!(unreadable.trees()[1].told, "it takes too long");
        drop(release);
        until("walked at last", || is(&unreadable, ["/etc/private", "/opt/private"]));
    }

    #[test]
    fn without_settings_nothing_starts() {
        let settings = Settings {
            walk: Box::new(|_| {
                loop {
                    thread::park()
                }
            }),
            patience: Duration::ZERO,
            old: Duration::ZERO,
        };
        let error = Unreadable::new(&TREES, settings).paths().unwrap_err();
        assert!(error.to_string().contains("`/etc` could not be walked"), "{error}");
    }
}
