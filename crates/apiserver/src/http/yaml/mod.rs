//! YAML bodies, read as upstream reads them: version 1.1, in which a bare `y` is a boolean, and turned into JSON; and
//! answers in YAML.

mod read;
mod scalar;
#[cfg(test)]
mod tests;
mod write;

pub use read::read;
pub use write::write;

pub const MEDIA_TYPE: &str = "application/yaml";
