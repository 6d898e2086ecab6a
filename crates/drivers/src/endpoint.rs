//! Where a driver serves.

use std::path::{Path, PathBuf};
use std::str::FromStr;

const SCHEME: &str = "unix://";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint `{0}` is neither `unix:///absolute/path` nor an absolute path")]
pub struct BadEndpoint(String);

/// The path of a UNIX socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let path = PathBuf::from(text.strip_prefix(SCHEME).unwrap_or(text));
        match path.is_absolute() && path.file_name().is_some() {
            true => Ok(Self(path)),
            false => Err(BadEndpoint(text.to_owned())),
        }
    }
}

impl From<Endpoint> for PathBuf {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let table = [
            ("unix:///run/csi.sock", Some("/run/csi.sock")),
            ("/run/csi.sock", Some("/run/csi.sock")),
            ("unix://run/csi.sock", None),
            ("csi.sock", None),
            ("tcp://127.0.0.1:1", None),
            ("unix:///", None),
            ("", None),
        ];
        for (text, expected) in table {
            let path = text.parse::<Endpoint>().ok().map(|endpoint| endpoint.0);
            assert_eq!(path, expected.map(PathBuf::from), "{text}");
        }
    }
}
