//! The command line: one subcommand per role, and the two that run all of them.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::apiserver::KubeApiserver;
use crate::demo::Demo;
use crate::drivers::Driver;
use crate::programs::{PROGRAMS, help};
use crate::rbac::Rbac;
use crate::store::StoreCommand;
use crate::up::Up;
use crate::up::nodes::control::NodeCommand;

const ABOUT: &str = "The whole journey of a CSI volume, from a claim to a mounted filesystem, in one process";

const AFTER: &str = "\
Start here:
  bowline demo        watch one claim become a mounted filesystem, then clean up
  bowline up          run everything on this machine; use plain kubectl against it";

/// One binary; a role per subcommand.
#[derive(Parser)]
#[command(name = "bowline", version, about = ABOUT, after_help = AFTER, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line of this process, or prints why not and exits.
    pub fn read() -> Self {
        let mut command = help::with_groups(Self::command(), PROGRAMS);
        let matches = command.get_matches_mut();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

#[derive(Subcommand)]
pub enum Command {
    Up(Up),
    Demo(Demo),
    KubeApiserver(Box<KubeApiserver>),
    #[command(subcommand)]
    Driver(Driver),
    #[command(subcommand)]
    Store(StoreCommand),
    #[command(subcommand)]
    Node(NodeCommand),
    Rbac(Rbac),
}
