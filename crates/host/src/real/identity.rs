//! Who the processes of a container are, and what they may do.
//!
//! All of it belongs to the calling thread and is inherited by what it starts. [`confine`] is for every thread that a
//! container could lay hands on, [`assume`] only for the one that starts a program.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{FileType, Gid, OFlags, Uid, fchown, fstat};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::init::text;
use super::{raw, seccomp};
use crate::containers::{ALL_CAPABILITIES, Security};

/// One more than the highest capability any kernel knows today.
const CAPABILITIES: u32 = 64;
const ROOT: u32 = 0;

const PASSWD: &str = "/etc/passwd";
/// What stands behind this in it is not read.
const PASSWD_MAX: u64 = 1 << 20;
/// Of a user without an entry, as other runtimes have it.
const NO_HOME: &str = "/";

/// Takes away what nothing in the container may ever get back, by no program and no trick.
pub(super) fn confine(security: &Security) -> Result<(), String> {
    raw::new_session_keyring().map_err(|e| text("leave the keyring", &e))?;
    drop_capabilities(set(security)).map_err(|e| text("drop capabilities", &e))?;
    seccomp::confine(security).map_err(|e| text("install the seccomp filter", &e))?;
    if security.no_new_privileges {
        rustix::thread::set_no_new_privs(true).map_err(|e| text("forbid new privileges", &e.into()))?;
    }
    Ok(())
}

/// Becomes the container's user, in this thread alone.
pub(super) fn assume(security: &Security) -> Result<(), String> {
    let Security { uid, gid, .. } = *security;
    let groups: Vec<Gid> = security.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    rustix::thread::set_thread_groups(&groups)
        .map_err(|e| text(&format!("set supplementary groups {:?}", security.groups), &e.into()))?;
    let group = Gid::from_raw(gid);
    rustix::thread::set_thread_res_gid(group, group, group)
        .map_err(|e| text(&format!("set group {gid}"), &e.into()))?;
    let user = Uid::from_raw(uid);
    rustix::thread::set_thread_res_uid(user, user, user)
        .map_err(|e| text(&format!("set user {uid}"), &e.into()))?;
    let kept = if uid == ROOT { set(security) } else { CapabilitySet::empty() };
    keep_capabilities(kept).map_err(|e| text("set capabilities", &e))
}

/// Leaves this thread no capabilities but these, as far as it has them. Nothing is inherited by programs: they get
/// what their user and their file give them.
fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let kept = kept & rustix::thread::capabilities(None)?.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// What process 1 still needs once the program is on its way: to pass signals on to another user's program. A program
/// that is allowed to look into other processes gains nothing by looking into this one.
pub(super) fn keep_only_signals() -> Result<(), String> {
    keep_capabilities(CapabilitySet::KILL).map_err(|e| text("drop capabilities of init", &e))
}

fn set(security: &Security) -> CapabilitySet {
    let bit = |(number, name): (u32, &&str)| match security.capabilities.contains(*name) {
        true => CapabilitySet::from_bits_retain(1 << number),
        false => CapabilitySet::empty(),
    };
    (0..).zip(&ALL_CAPABILITIES).map(bit).fold(CapabilitySet::empty(), CapabilitySet::union)
}

/// Takes from the bounding set, which limits what a program can get.
fn drop_capabilities(kept: CapabilitySet) -> io::Result<()> {
    for bit in 0..CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Unknown to this kernel.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Makes the pipe or terminal the user's, so that a program can open `/dev/stdout`. Other files stay whose they are.
pub(super) fn give(file: impl AsFd, uid: u32) -> Result<(), String> {
    let given = fstat(&file).and_then(|stat| match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => fchown(&file, Some(Uid::from_raw(uid)), None),
        FileType::CharacterDevice if rustix::termios::isatty(&file) => {
            fchown(&file, Some(Uid::from_raw(uid)), None)
        }
        _ => Ok(()),
    });
    given.map_err(|e| text("hand over standard input and output", &e.into()))
}

/// The user's home directory, in the container's own list of users.
pub(super) fn home(uid: u32) -> String {
    let users = users().unwrap_or_default();
    home_in(&users, uid).unwrap_or(NO_HOME).to_owned()
}

/// A volume may hold anything in place of this file: a pipe that nobody writes to, or a device without end. It is read
/// by processes that nothing limits yet, so it must neither block nor fill their memory.
fn users() -> io::Result<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(PASSWD)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut users = Vec::new();
    file.take(PASSWD_MAX).read_to_end(&mut users)?;
    Ok(String::from_utf8_lossy(&users).into_owned())
}

/// `name:password:uid:gid:comment:home:shell`
fn home_in(users: &str, uid: u32) -> Option<&str> {
    let is_user = |line: &&str| line.split(':').nth(2).and_then(|id| id.parse().ok()) == Some(uid);
    let line = users.lines().find(is_user)?;
    line.split(':').nth(5).filter(|home| !home.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_capabilities_are_numbers() {
        let security = |names: &[&str]| Security {
            capabilities: names.iter().map(ToString::to_string).collect(),
            ..Security::default()
        };
        assert_eq!(set(&security(&[])), CapabilitySet::empty());
        for (number, name) in ALL_CAPABILITIES.iter().enumerate() {
            assert_eq!(set(&security(&[name])).bits(), 1 << number);
            assert_eq!(Some(set(&security(&[name]))), CapabilitySet::from_name(name), "{name}");
        }
    }

    #[test]
    fn homes() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nweb:x:33:33::/var/www:/bin/false\nno:x:7:7:::\n";
        for (uid, want) in [(0, Some("/root")), (33, Some("/var/www")), (7, None), (8, None)] {
            assert_eq!(home_in(users, uid), want, "{uid}");
        }
    }
}
