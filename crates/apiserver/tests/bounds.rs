//! A server in a process of its own, and clients that do not read: what they cost, and that others do not suffer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod common;
mod unread;
