//! YAML bodies, read as upstream reads them: version 1.1, in which a bare `y` is a boolean, and turned into JSON.

mod read;
mod scalar;
#[cfg(test)]
mod tests;

pub use read::read;
