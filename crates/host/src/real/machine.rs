//! Who and where we are.

use std::io;

use nix::libc;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::raw;

/// Whether this process may mount, attach loop devices and make namespaces.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The machine's name.
pub fn hostname() -> io::Result<String> {
    let name = rustix::system::uname();
    name.nodename().to_str().map(String::from).map_err(io::Error::other)
}

/// Lets this process have as many files open as it may ask for. Most start with room for a thousand, and every
/// connection, watch and container takes some.
pub fn raise_open_files() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// From now on Ctrl-C and SIGTERM end this process at once, in the kernel: also when nothing in it answers any more.
pub fn end_on_next_signal() -> io::Result<()> {
    [libc::SIGINT, libc::SIGTERM].into_iter().try_for_each(raw::default_action)
}

/// Gives memory that was freed back to the kernel. The allocator keeps it otherwise, and a process that once had a
/// thousand connections would stay as large as it was then. Takes some milliseconds.
pub fn give_memory_back() {
    raw::trim_heap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_files() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum.map(|most| most - 1);
        setrlimit(Resource::Nofile, limit).unwrap();
        raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }
}
