//! Development only. The house rules live in `tidy` and run as tests, so plain `cargo test` tells the truth.

#[cfg(test)]
mod tidy;

fn main() {}
