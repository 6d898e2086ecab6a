//! The command line: one subcommand per role, and the two that run all of them.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::apiserver::KubeApiserver;
use crate::audit::Audit;
use crate::demo::Demo;
use crate::drivers::Driver;
use crate::programs::{PROGRAMS, help};
use crate::rbac::Rbac;
use crate::store::StoreCommand;
use crate::up::Up;
use crate::up::nodes::control::NodeCommand;

const ABOUT: &str = "The whole journey of a CSI volume, from a claim to a mounted filesystem, in one binary";

const AFTER: &str = "\
Start here:
  bowline demo        watch one claim become a mounted filesystem, then clean up
  bowline up          run everything on this machine; use plain kubectl against it

`bowline COMMAND --help` lists the flags of a command. The programs of a cluster take upstream's flags, and run under
upstream's names, too: `ln -s bowline csi-provisioner`.";

/// The program under upstream's name whose command line clap reads.
const LINKED: &str = "kube-apiserver";

/// One binary; a role per subcommand.
#[derive(Parser)]
#[command(name = "bowline", version, about = ABOUT, after_help = AFTER, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line of this process, or prints why not and exits.
    pub fn read(argv: Vec<OsString>) -> Self {
        let mut command = help::with_groups(Self::command(), PROGRAMS);
        // Their own parser reads them; here they are names that a mistyped one is compared with.
        let single = PROGRAMS.iter().map(|entry| entry.program.name).filter(|name| !name.contains(' '));
        let names = single.map(|name| clap::Command::new(name).hide(true));
        command = command.subcommands(names);
        let matches =
            command.try_get_matches_from_mut(with_subcommand(argv)).unwrap_or_else(|error| error.exit());
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// A link named after upstream's program is its subcommand, as those of `PROGRAMS` are.
fn with_subcommand(mut argv: Vec<OsString>) -> Vec<OsString> {
    let linked =
        argv.first().and_then(|argv0| Path::new(argv0).file_name()).is_some_and(|name| name == LINKED);
    if linked {
        argv.splice(..1, ["bowline".into(), LINKED.into()]);
    }
    argv
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
    Audit(Audit),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_named_kube_apiserver_is_that_program() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for (line, expected) in [
            ("/usr/bin/kube-apiserver --secure-port=1", "bowline kube-apiserver --secure-port=1"),
            ("kube-apiserver", "bowline kube-apiserver"),
            ("bowline kube-apiserver", "bowline kube-apiserver"),
            ("bowline up", "bowline up"),
        ] {
            assert_eq!(with_subcommand(words(line)), words(expected));
        }
        let link = with_subcommand(words("./kube-apiserver --secure-port=6443"));
        let read = Cli::try_parse_from(link).map(|cli| cli.command);
        assert!(matches!(read, Ok(Command::KubeApiserver(_))), "{:?}", read.map(|_| ()));
    }
}
