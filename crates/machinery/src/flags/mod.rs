//! Command lines as upstream's programs read them.
//!
//! Upstream has two parsers, Go's own and pflag, and neither is clap's. A program here declares its flags as clap `Args`
//! and names upstream's list of flags ([`upstream`]); [`parse`] turns what was typed into words that clap cannot
//! misread ([`syntax`]), sorts out what has no meaning here, and leaves values and defaults to clap.

mod catalog;
mod gates;
mod kube;
mod logging;
mod parse;
mod sidecar;
mod syntax;
mod upstream;
mod values;

#[cfg(test)]
mod tests;

pub use gates::{Gate, Gates};
pub use kube::{KubeArgs, LeaderElectArgs, ServingArgs};
pub use logging::{Format, LoggingArgs};
pub use parse::{Parsed, Program, Stop, Version, command, parse};
pub use sidecar::{ElectionArgs, EndpointArgs, LeaderElection, SidecarArgs, lease_namespace};
pub use syntax::Syntax;
pub use upstream::{Class, Flag, Kind, files, flags, mismatches};
pub use values::{boolean, duration, label, socket};
