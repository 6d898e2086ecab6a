//! Who and where we are.

use std::io;

/// Whether this process may mount, attach loop devices and make namespaces.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The machine's name.
pub fn hostname() -> io::Result<String> {
    let name = rustix::system::uname();
    name.nodename().to_str().map(String::from).map_err(io::Error::other)
}
