//! Answers in the form the client asked for.

pub mod events;
mod list;
mod partial;
mod render;
mod span;
mod table;
mod warning;

pub use render::{reply, status};
