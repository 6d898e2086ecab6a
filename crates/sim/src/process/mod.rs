//! Simulated processes: each role group as a program of its own, with its own client, caches and doors.

pub mod doors;
pub mod life;
mod program;
mod stream;

pub use program::{Program, Start, run};
