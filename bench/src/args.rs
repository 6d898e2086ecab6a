//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};

const SCHEME: &str = "unix://";

/// Figures for docs/benchmarks.md: printed, never asserted
#[derive(Debug, Parser)]
#[command(name = "bowline-bench")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// How the figures are printed
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Markdown tables
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start-up, journeys, pods, the API server and the driver
    All {
        /// Journeys in a row
        #[arg(long, value_name = "COUNT", env = "JOURNEYS", default_value_t = 200)]
        journeys: usize,
        #[command(flatten)]
        driver: DriverArgs,
        #[command(flatten)]
        apiserver: ApiserverArgs,
        #[command(flatten)]
        programs: ProgramsArgs,
    },
    /// Programs of PROGRAM alone: memory and hand-over, and upstream's beside them
    Programs {
        /// The bowline program
        program: PathBuf,
        #[command(flatten)]
        programs: ProgramsArgs,
    },
    /// All sidecars of PROGRAM and upstream's, on upstream's control plane
    Sidecars {
        /// The bowline program
        program: PathBuf,
        #[command(flatten)]
        sidecars: SidecarsArgs,
    },
    /// The API server of PROGRAM, and upstream's beside it
    Apiserver {
        /// The bowline program
        program: PathBuf,
        #[command(flatten)]
        apiserver: ApiserverArgs,
    },
    /// CPU time of each pod, with few and with many of them
    Pods {
        /// The bowline program, which containers are started through
        program: PathBuf,
    },
    /// CSI drivers alone: the local driver of PROGRAM, and whatever serves the endpoints
    Driver(DriverArgs),
}

#[derive(Debug, Clone, Args)]
pub struct ApiserverArgs {
    /// Upstream's API server, measured beside ours
    #[arg(long, value_name = "PROGRAM", requires = "etcd")]
    pub kube_apiserver: Option<PathBuf>,
    /// The store of upstream's API server
    #[arg(long, value_name = "PROGRAM", requires = "kube_apiserver")]
    pub etcd: Option<PathBuf>,
    /// Pods that exist while lists, watches and starts are measured
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pub objects: usize,
    /// Watchers of one kind
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub watchers: usize,
}

#[derive(Debug, Clone, Args)]
pub struct ProgramsArgs {
    /// Upstream's controller manager, measured beside ours
    #[arg(long, value_name = "PROGRAM")]
    pub kube_controller_manager: Option<PathBuf>,
    /// Upstream's scheduler, measured beside ours
    #[arg(long, value_name = "PROGRAM")]
    pub kube_scheduler: Option<PathBuf>,
    /// Upstream's provisioner, measured beside ours
    #[arg(long, value_name = "PROGRAM")]
    pub csi_provisioner: Option<PathBuf>,
    /// Hand-overs of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub rounds: usize,
}

#[derive(Debug, Clone, Args)]
pub struct SidecarsArgs {
    /// Upstream's API server
    #[arg(long, value_name = "PROGRAM")]
    pub kube_apiserver: PathBuf,
    /// The store of upstream's API server
    #[arg(long, value_name = "PROGRAM")]
    pub etcd: PathBuf,
    /// Upstream's controller manager
    #[arg(long, value_name = "PROGRAM")]
    pub kube_controller_manager: PathBuf,
    /// The folder with the kinds of snapshots
    #[arg(long, value_name = "FOLDER")]
    pub snapshot_crds: PathBuf,
    #[arg(long, value_name = "PROGRAM")]
    pub csi_provisioner: PathBuf,
    #[arg(long, value_name = "PROGRAM")]
    pub csi_resizer: PathBuf,
    #[arg(long, value_name = "PROGRAM")]
    pub csi_snapshotter: PathBuf,
    #[arg(long, value_name = "PROGRAM")]
    pub snapshot_controller: PathBuf,
    /// Upstream's attacher, built by hand: no module proxy serves it
    #[arg(long, value_name = "PROGRAM")]
    pub csi_attacher: Option<PathBuf>,
    /// Whose sidecars; repeatable, all by default
    #[arg(long = "subject", value_enum, value_name = "SUBJECT")]
    pub subjects: Vec<Subjects>,
    /// What to measure; repeatable, everything by default
    #[arg(long = "phase", value_enum, value_name = "PHASE")]
    pub phases: Vec<Phase>,
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    pub claims: usize,
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub snapshots: usize,
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub resizes: usize,
    /// Requests of the bench that are under way at a time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = at_least_one)]
    pub parallel: usize,
    /// Hand-overs of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub rounds: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subjects {
    /// Upstream's with default flags
    Upstream,
    /// Upstream's with the limits of their clients opened
    UpstreamOpened,
    Bowline,
}

impl Subjects {
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream, default flags",
            Self::UpstreamOpened => "upstream, limits opened",
            Self::Bowline => crate::startup::SUBJECT,
        }
    }
}

/// In the order in which they are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    Claims,
    Snapshots,
    Resizes,
    Attach,
    Detach,
    Delete,
}

impl Phase {
    pub const ALL: [Self; 6] =
        [Self::Claims, Self::Snapshots, Self::Resizes, Self::Attach, Self::Detach, Self::Delete];

    pub fn name(self) -> &'static str {
        match self {
            Self::Claims => "claims, created to Bound",
            Self::Snapshots => "snapshots, created to ready",
            Self::Resizes => "resizes, asked for to done",
            Self::Attach => "attachments, created to attached",
            Self::Detach => "attachments, deleted to gone",
            Self::Delete => "claims, deleted to the volume gone",
        }
    }
}

impl SidecarsArgs {
    pub fn subjects(&self) -> Vec<Subjects> {
        match self.subjects.as_slice() {
            [] => vec![Subjects::Upstream, Subjects::UpstreamOpened, Subjects::Bowline],
            some => some.to_vec(),
        }
    }

    pub fn wants(&self, phase: Phase) -> bool {
        self.phases.is_empty() || self.phases.contains(&phase)
    }
}

#[derive(Debug, Clone, Args)]
pub struct DriverArgs {
    /// The bowline program, whose local driver is started on a temporary pool
    pub program: Option<PathBuf>,
    /// A driver that is running already: `unix:///path/csi.sock`, or just the path; repeatable
    #[arg(long = "csi-endpoint", value_name = "ENDPOINT")]
    pub endpoints: Vec<Endpoint>,
    /// What to call the driver of an endpoint, in the order of the endpoints; its own name by default
    #[arg(long = "name", value_name = "LABEL")]
    pub names: Vec<String>,
    /// The process whose memory is read, in the order of the endpoints; the one that listens by default
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,
    /// What to measure; repeatable, everything by default
    #[arg(long = "part", value_enum, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Volumes that make the whole round from CreateVolume to DeleteVolume
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub volumes: usize,
    /// Volumes that are under way at a time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = at_least_one)]
    pub parallel: usize,
    /// What the volumes hold
    #[arg(long, value_enum, default_value_t = Fs::Ext4)]
    pub fs: Fs,
    /// Volumes that exist while memory and ListVolumes are measured
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pub many: usize,
    /// Data in the volume that is cloned
    #[arg(long, value_name = "MIB", default_value_t = 1_024)]
    pub clone_data_mib: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// From CreateVolume to DeleteVolume, many volumes at a time
    Rounds,
    /// CreateVolume from another volume
    Clone,
    /// Memory and ListVolumes with many volumes
    Many,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fs {
    Ext4,
    Xfs,
    Btrfs,
    /// No filesystem: the workload gets the block device
    #[value(alias = "block")]
    None,
}

impl Fs {
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Ext4 => Some("ext4"),
            Self::Xfs => Some("xfs"),
            Self::Btrfs => Some("btrfs"),
            Self::None => None,
        }
    }

    /// A small volume that its mkfs accepts, in MiB.
    pub fn size_mib(self) -> u64 {
        match self {
            Self::Ext4 | Self::None => 64,
            Self::Xfs => 512,
            Self::Btrfs => 256,
        }
    }
}

/// The path of a UNIX socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(pub PathBuf);

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text.strip_prefix(SCHEME).unwrap_or(text));
        match path.is_absolute() {
            true => Ok(Self(path)),
            false => Err("neither `unix:///absolute/path` nor an absolute path".to_owned()),
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

impl DriverArgs {
    pub fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Labels and pids belong to endpoints by their order; one too many belongs to none.
    pub fn check(&self) -> Result<()> {
        if self.program.is_none() && self.endpoints.is_empty() {
            bail!("nothing to measure: name the bowline program, or a driver with --csi-endpoint");
        }
        for (flag, count) in [("--name", self.names.len()), ("--pid", self.pids.len())] {
            if count > self.endpoints.len() {
                bail!("{count} {flag}, but {} --csi-endpoint", self.endpoints.len());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(line: &str) -> Result<DriverArgs> {
        let words = ["bowline-bench", "driver"].into_iter().chain(line.split_whitespace());
        let Command::Driver(args) = Cli::try_parse_from(words)?.command else { bail!("not `driver`") };
        args.check()?;
        Ok(args)
    }

    #[test]
    fn command_lines() {
        let table = [
            ("bowline", true),
            ("--csi-endpoint unix:///x/csi.sock", true),
            ("bowline --csi-endpoint /x/csi.sock --name theirs --pid 7 --fs block -o json", true),
            ("--csi-endpoint /a.sock --name a --csi-endpoint /b.sock --name b --part clone", true),
            ("", false),
            ("--csi-endpoint tcp://127.0.0.1:1", false),
            ("--csi-endpoint csi.sock", false),
            ("bowline --name nobody", false),
            ("--csi-endpoint /a.sock --pid 1 --pid 2", false),
            ("bowline --parallel 0", false),
            ("bowline --fs ntfs", false),
        ];
        for (line, accepted) in table {
            assert_eq!(driver(line).is_ok(), accepted, "{line}");
        }
    }

    #[test]
    fn every_part_unless_some_are_named() {
        let all = driver("bowline").unwrap();
        assert!([Part::Rounds, Part::Clone, Part::Many].into_iter().all(|part| all.wants(part)));
        let one = driver("bowline --part clone").unwrap();
        assert!(one.wants(Part::Clone) && !one.wants(Part::Rounds) && !one.wants(Part::Many));
    }
}
