use std::process::{Child, Command};

use super::*;

/// A process that does nothing until it is told to end.
pub struct Idle(Child);

impl Idle {
    pub fn start() -> (Self, Process) {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::with_pid(child.id()).unwrap().unwrap();
        (Self(child), process)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub fn running(shim: &Process, init: &Process) -> Running {
    Running { shim: shim.clone(), init: init.clone(), started_at: Timestamp::UNIX_EPOCH }
}

fn record() -> (tempfile::TempDir, Record) {
    let dir = tempfile::tempdir().unwrap();
    let record = Record::new(dir.path().join("uid_main_0"));
    fs::create_dir(record.dir()).unwrap();
    (dir, record)
}

fn exit(code: i32) -> Exit {
    Exit {
        code,
        signal: None,
        finished_at: Timestamp::UNIX_EPOCH,
        error: None,
        oom_killed: false,
        message: None,
    }
}

/// Its volumes are in use until the last of it is gone.
#[test]
fn a_container_runs_as_long_as_shim_or_init_does() {
    let (_dir, record) = record();
    let ((first, shim), (second, init)) = (Idle::start(), Idle::start());
    record.set_running(&running(&shim, &init)).unwrap();
    let runs = State::Running { pid: init.pid, started_at: Timestamp::UNIX_EPOCH };
    assert_eq!(record.state().unwrap(), Some(runs.clone()));
    drop(first);
    assert_eq!(record.state().unwrap(), Some(runs), "killed, but not gone");
    assert_eq!(record.exit().unwrap(), None, "nothing was said for good");
    drop(second);
    let State::Exited { exit, .. } = record.state().unwrap().unwrap() else { panic!("it runs") };
    assert_eq!(exit.code, 137);
    assert_eq!(record.exit().unwrap(), Some(exit));
}

#[test]
fn who_dies_while_removing_a_record_changes_no_end() {
    let (_dir, record) = record();
    let (first, gone) = Idle::start();
    drop(first);
    let make = || {
        record.set_running(&running(&gone, &gone)).unwrap();
        record.set_evicted().unwrap();
        record.set_exit(&exit(7)).unwrap();
        drop(record.lock().unwrap());
    };
    make();
    let files = record.files().unwrap().unwrap();
    assert_eq!(files.len(), 5);
    for removed in 0..=files.len() {
        make();
        files[..removed].iter().for_each(|file| fs::remove_file(file).unwrap());
        if let Some(State::Exited { exit, .. }) = record.state().unwrap() {
            assert_eq!((exit.code, record.evicted().unwrap()), (7, true), "after {removed} files");
        }
    }
    record.remove().unwrap();
    assert!(!record.dir().exists());
}

/// Volumes of a container can be taken down although nothing can be written any more.
#[test]
fn an_end_that_cannot_be_written_down_is_an_end() {
    let (_dir, record) = record();
    let (first, gone) = Idle::start();
    drop(first);
    record.set_running(&running(&gone, &gone)).unwrap();
    fs::create_dir(record.dir().join("exit.json.new")).unwrap();
    assert!(record.set_exit(&exit(7)).is_err());
    let State::Exited { exit, .. } = record.state().unwrap().unwrap() else { panic!("it runs") };
    assert_eq!(exit.code, 137);
}

/// Its shim may write down the end between a look at the state and one at the lock.
#[test]
fn the_end_that_a_record_tells_by_now_is_presumed() {
    let (_dir, record) = record();
    let why = io::ErrorKind::WouldBlock.into();
    let State::Exited { exit: unknown, .. } = record.presumed(&why) else { panic!("no process is at it") };
    assert_eq!(unknown.code, UNKNOWN_END);
    record.set_exit(&exit(7)).unwrap();
    let State::Exited { exit: told, .. } = record.presumed(&why) else { panic!("it has ended") };
    assert_eq!(told, exit(7));
}

#[test]
fn a_record_tells_whether_the_machine_was_started_since() {
    let (_dir, record) = record();
    let (first, process) = Idle::start();
    record.set_running(&running(&process, &process)).unwrap();
    let says = || match record.look().unwrap() {
        Look::Says(said) => (matches!(said.state, State::Exited { .. }), said.earlier_boot),
        other => panic!("{other:?}"),
    };
    assert_eq!(says(), (false, false));
    drop(first);
    assert_eq!(says(), (true, false), "killed by a person");
    let file = record.dir().join(RUNNING);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(boot.trim(), "another")).unwrap();
    assert_eq!(says(), (true, true));
    fs::write(&file, "").unwrap();
    assert_eq!(says(), (true, true), "lost in a power cut");
}

/// On a full disk no file can be made, but one can be renamed.
#[test]
fn the_mark_of_an_eviction_needs_no_new_file() {
    let (_dir, record) = record();
    record.reserve().unwrap();
    let names = || fs::read_dir(record.dir()).unwrap().count();
    let before = names();
    assert!(!record.evicted().unwrap());
    record.set_evicted().unwrap();
    assert!(record.evicted().unwrap());
    assert_eq!(names(), before);
    record.set_evicted().unwrap();
    assert!(record.evicted().unwrap(), "once more");
}

#[test]
fn what_a_power_cut_left_of_a_record() {
    let (_dir, record) = record();
    for (name, text) in [(SPEC, "{\"id\": \"uid/ma"), (RUNNING, "\0\0\0\0")] {
        fs::write(record.dir().join(name), text).unwrap();
    }
    assert_eq!(record.state().unwrap(), None);
    assert!(record.spec().unwrap().is_none());
    fs::write(record.dir().join(EXIT), "{").unwrap();
    let State::Exited { exit, .. } = record.state().unwrap().unwrap() else { panic!("it runs") };
    assert_eq!((exit.code, exit.signal), (UNKNOWN_END, None));
    assert!(exit.error.as_ref().unwrap().contains("exit.json"), "{exit:?}");
    let again = record.state().unwrap();
    assert!(matches!(again, Some(State::Exited { exit: ref other, .. }) if *other == exit), "{again:?}");
}

/// A shim that comes late does not share a container with the one of its successor.
#[test]
fn the_lock_of_a_record_that_was_removed_is_none() {
    let (_dir, record) = record();
    let held = record.lock().unwrap().unwrap();
    assert!(record.lock().unwrap().is_none());
    assert!(!record.discard().unwrap(), "its lock is taken");
    drop(held);
    assert!(record.discard().unwrap());
    assert!(!record.dir().exists());
    assert!(record.discard().unwrap(), "gone already");
}
