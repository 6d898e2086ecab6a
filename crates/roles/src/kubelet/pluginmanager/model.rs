//! What the plugin manager sees, does and says.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bowline_api::{CSINode, Node};

use super::drivers::Capabilities;
use super::version::Version;

/// How long the API objects still name a driver whose socket has gone.
pub const LINGER: Duration = Duration::from_secs(2);

/// What there is to decide about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A registration socket.
    Socket(PathBuf),
    /// A driver that has left the table: its traces in the API are to be removed.
    Departed(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "socket {}", path.display()),
            Self::Departed(driver) => write!(f, "driver {driver}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Socket(Box<SocketSeen>),
    Departed(Box<DepartedSeen>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SocketSeen {
    pub path: PathBuf,
    /// Which creation of the socket stands there; `None` when it is gone.
    pub generation: Option<u64>,
    pub plugin: Option<Plugin>,
    /// Version of a driver with the same name behind another socket.
    pub rival: Option<Version>,
    pub node: Option<Node>,
    pub csi_node: Option<CSINode>,
    /// The machine's uptime.
    pub now: Duration,
    /// When the driver is to be asked again how many volumes it can attach here.
    pub refresh_at: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DepartedSeen {
    pub driver: String,
    /// How long its traces may still stay; `None` when it has not departed.
    pub linger: Option<Duration>,
    /// The driver is in the table again, or on its way there.
    pub back: bool,
    pub node: Option<Node>,
    pub csi_node: Option<CSINode>,
}

/// What is known about the plugin behind a socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    pub generation: u64,
    pub info: Info,
    pub progress: Progress,
}

/// The answer to `GetInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    pub kind: String,
    pub name: String,
    /// Socket of the driver itself.
    pub endpoint: PathBuf,
    pub versions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It said who it is.
    Introduced,
    /// The driver behind it said what it can do here.
    Answered(Facts),
    /// It will not do; it is to be told.
    Rejected(String),
    /// It is in the table and was told so.
    Registered(Facts),
}

/// The answers to `NodeGetInfo` and `NodeGetCapabilities`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    pub node_id: String,
    pub volumes_max: i64,
    pub topology: BTreeMap<String, String>,
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Takes the driver of a vanished or replaced socket out of the table.
    Withdraw,
    GetInfo,
    /// NodeGetInfo and NodeGetCapabilities.
    AskDriver,
    /// NodeGetInfo again: the number of volumes that can be attached may have changed.
    Refresh,
    /// Tells the plugin that it is refused, and tries again later.
    Refuse(String),
    /// Writes annotation and labels of the node.
    DescribeNode {
        annotation: String,
        labels: BTreeMap<String, String>,
    },
    /// Writes the CSINode with another list of drivers.
    WriteCsiNode(Box<CSINode>),
    /// Puts the driver into the table and tells the plugin.
    Confirm(Facts),
    /// Nothing of a departed driver is left in the API.
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    NodeNotInitialised,
    Lingering(Duration),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeNotInitialised => f.write_str("Node and CSINode are not yet initialized"),
            Self::Lingering(left) => {
                write!(
                    f,
                    "the driver may come back at once; its entry stays for another {} ms",
                    left.as_millis()
                )
            }
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
