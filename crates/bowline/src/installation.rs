//! The data directory as a whole: for one user, one process and one installation.
//!
//! Everything else in it is touched only after [`Installation::open`] has locked it. The id is written once and also
//! marks other directories of this installation, so that one Bowline does not take over what another one left.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bowline_host::Random;
use bowline_host::real::{self, ProcessLock, Taken};

const ID: &str = "installation";
const LOCK: &str = "lock";
/// Stands below the id once the directory holds objects.
const HOLDS_STORE: &str = "store";
/// Stands below the id as long as the kubelet directory of an older version may have to be taken over.
const OLDER: &str = "older";
/// What older versions made here; they wrote no id.
const KNOWN: [&str; 5] = ["store", "pki", "kubeconfig", "pool", "containers"];
/// Files whose content lets others into the cluster. The pool has modes of its own, which pods rely on.
const SECRET: [&str; 3] = ["store", "pki", "kubeconfig"];

/// A locked data directory; the lock ends with this value or with the process.
#[derive(Debug)]
pub struct Installation {
    dir: PathBuf,
    marks: Marks,
    _lock: ProcessLock,
}

/// What the file with the id says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marks {
    id: String,
    holds_store: bool,
    older: bool,
}

impl Installation {
    /// Creates the directory if needed, locks it, lets only this user in and reads or makes its id. Where that is
    /// refused, nothing was changed. Blocks.
    pub fn open(data_dir: &Path, random: &(dyn Random + 'static)) -> Result<Self> {
        let shown = data_dir.display();
        let dir = resolve(data_dir).with_context(|| format!("resolve data directory `{shown}`"))?;
        refuse_foreign(&dir).with_context(|| format!("data directory `{shown}` cannot be used"))?;
        let private = real::private_dir(&dir);
        private.with_context(|| format!("make data directory `{shown}` private"))?;
        let lock = match real::lock_for_process(&dir.join(LOCK)) {
            Ok(lock) => lock,
            Err(Taken::InUse(holder)) => {
                bail!("data directory {shown} is in use by another process{holder}: stop it first")
            }
            Err(Taken::Io(error)) => Err(error).with_context(|| format!("lock data directory `{shown}`"))?,
        };
        for name in SECRET {
            let path = dir.join(name);
            real::tighten(&path).with_context(|| format!("make `{}` private", path.display()))?;
        }
        let marks = match read(&dir.join(ID))? {
            Some(found) => found,
            None => {
                let older = KNOWN.iter().any(|name| dir.join(name).exists());
                let marks = Marks { id: random.uuid(), holds_store: false, older };
                write(&dir, &marks)?;
                marks
            }
        };
        Ok(Self { dir, marks, _lock: lock })
    }

    /// Whether a directory is the data directory of an installation.
    pub fn is_at(data_dir: &Path) -> bool {
        data_dir.join(ID).exists()
    }

    /// A UUID that is this directory's for ever.
    pub fn id(&self) -> &str {
        &self.marks.id
    }

    /// Whether an older version, which wrote no id, made this directory, and its kubelet directory is not taken yet.
    pub fn older(&self) -> bool {
        self.marks.older
    }

    /// From now on the kubelet directory carries the id. Blocks.
    pub fn note_kubelet_dir(&mut self) -> Result<()> {
        let taken = Marks { older: false, ..self.marks.clone() };
        self.set(taken)
    }

    /// Whether objects were kept here before.
    pub fn holds_store(&self) -> bool {
        self.marks.holds_store
    }

    /// From now on a start without the store is an error. Blocks.
    pub fn note_store(&mut self) -> Result<()> {
        let held = Marks { holds_store: true, ..self.marks.clone() };
        self.set(held)
    }

    fn set(&mut self, marks: Marks) -> Result<()> {
        if self.marks != marks {
            write(&self.dir, &marks)?;
            self.marks = marks;
        }
        Ok(())
    }
}

/// The directory may be reached through links, which an administrator sets; nothing below it may be one.
fn resolve(data_dir: &Path) -> std::io::Result<PathBuf> {
    match std::fs::canonicalize(data_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => std::path::absolute(data_dir),
        resolved => resolved,
    }
}

/// A directory that others use, or could replace, must not become ours: everybody else would be locked out of it.
fn refuse_foreign(dir: &Path) -> Result<()> {
    const WORLD_WRITABLE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    const OTHERS: u32 = 0o077;
    if let Some(parent) = dir.parent().and_then(|parent| std::fs::metadata(parent).ok())
        && parent.mode() & (WORLD_WRITABLE | STICKY) == WORLD_WRITABLE
    {
        bail!(
            "every user may replace it, because the directory above it is writable for all: choose another place"
        );
    }
    let found = match std::fs::metadata(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.mode() & OTHERS == 0 || KNOWN.iter().chain([&ID]).any(|name| dir.join(name).exists()) {
        return Ok(());
    }
    // A new ext4 filesystem has this directory.
    let foreign = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.map_or(true, |entry| entry.file_name() != "lost+found")
    };
    if std::fs::read_dir(dir)?.any(foreign) {
        bail!("it is open to other users and holds files that are not Bowline's: choose an empty directory");
    }
    Ok(())
}

fn read(path: &Path) -> Result<Option<Marks>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("read `{}`", path.display()))?,
    };
    let mut lines = text.lines();
    let id = lines.next().unwrap_or_default();
    let is_uuid = id.len() == 36 && id.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if !is_uuid {
        bail!(
            "`{}` does not begin with a UUID: it is damaged. Put the id back, which the kubelet directory has, too",
            path.display()
        );
    }
    let marks: Vec<&str> = lines.collect();
    let has = |mark| marks.contains(&mark);
    Ok(Some(Marks { id: id.to_owned(), holds_store: has(HOLDS_STORE), older: has(OLDER) }))
}

fn write(dir: &Path, marks: &Marks) -> Result<()> {
    let path = dir.join(ID);
    let mut text = format!("{}\n", marks.id);
    for (set, mark) in [(marks.holds_store, HOLDS_STORE), (marks.older, OLDER)] {
        if set {
            text.push_str(mark);
            text.push('\n');
        }
    }
    real::write_private(&path, text.as_bytes()).with_context(|| format!("write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    struct Fixed;
    impl Random for Fixed {
        fn next_u64(&self) -> u64 {
            7
        }
    }

    fn open(dir: &Path) -> Result<Installation> {
        Installation::open(dir, &Fixed)
    }

    fn refusal(dir: &Path) -> String {
        format!("{:#}", open(dir).unwrap_err())
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn an_id_stays_and_one_process_has_the_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("data");
        let mut first = open(&dir).unwrap();
        assert_eq!(first.id(), "00000000-0000-4007-8000-000000000007");
        assert!(!first.holds_store());
        first.note_store().unwrap();
        let told = refusal(&dir);
        let pid = std::process::id();
        let shown = dir.display();
        assert_eq!(
            told,
            format!("data directory {shown} is in use by another process (pid {pid}): stop it first")
        );
        drop(first);
        let again = open(&dir).unwrap();
        assert_eq!(again.id(), "00000000-0000-4007-8000-000000000007");
        assert!(again.holds_store());
        drop(again);
        std::fs::write(dir.join(ID), "torn").unwrap();
        assert!(refusal(&dir).contains("does not begin with a UUID"));
    }

    #[test]
    fn what_an_older_version_left_is_tightened() {
        let scratch = tempfile::tempdir().unwrap();
        let link = scratch.path().join("link");
        let dir = scratch.path().join("data");
        std::fs::create_dir_all(dir.join("store/objects")).unwrap();
        std::fs::write(dir.join("store/objects/0.jnl"), "secret").unwrap();
        set_mode(&dir, 0o755);
        set_mode(&dir.join("store"), 0o755);
        set_mode(&dir.join("store/objects/0.jnl"), 0o644);
        symlink(&dir, &link).unwrap();
        open(&link).unwrap();
        for (name, expected) in [("", 0o700), ("store", 0o700), ("store/objects/0.jnl", 0o600)] {
            assert_eq!(mode(&dir.join(name)), expected, "{name}");
        }
    }

    /// A start may be refused, or die, before the kubelet directory is taken over.
    #[test]
    fn a_directory_of_an_older_version_is_known_until_its_kubelet_directory_is_taken() {
        let scratch = tempfile::tempdir().unwrap();
        let (fresh, old) = (scratch.path().join("fresh"), scratch.path().join("old"));
        assert!(!open(&fresh).unwrap().older());
        assert!(!open(&fresh).unwrap().older());
        std::fs::create_dir_all(old.join("containers")).unwrap();
        assert!(open(&old).unwrap().older());
        let mut again = open(&old).unwrap();
        again.note_store().unwrap();
        assert!(again.older());
        again.note_kubelet_dir().unwrap();
        drop(again);
        let after = open(&old).unwrap();
        assert_eq!((after.older(), after.holds_store()), (false, true));
    }

    #[test]
    fn directories_of_others_are_refused_and_left_as_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let shared = scratch.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::write(shared.join("file"), "").unwrap();
        set_mode(&shared, 0o755);
        assert!(refusal(&shared).contains("holds files that are not Bowline's"));
        assert_eq!((mode(&shared), shared.join(LOCK).exists()), (0o755, false));

        set_mode(&shared, 0o777);
        assert!(refusal(&shared.join("data")).contains("writable for all"));
        set_mode(&shared, 0o1777);
        open(&shared.join("data")).unwrap();

        let theirs = scratch.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(65_534), None).unwrap();
        assert!(refusal(&theirs).contains("belongs to user 65534, not to user 0"));
        assert!(!theirs.join(LOCK).exists());
    }
}
