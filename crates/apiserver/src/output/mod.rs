//! Answers in the form the client asked for.

pub mod events;
pub mod gather;
mod list;
mod partial;
mod render;
mod scale;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod warning;
mod yaml;

pub use render::{reply, status};
pub use shared::SharedFrames;
pub use yaml::yaml;
