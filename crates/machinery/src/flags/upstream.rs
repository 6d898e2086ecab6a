//! Upstream's flags per program, as data: name, kind, and what becomes of the flag here.
//!
//! A line of `upstream/*.txt` is `name kind class [value] [sentence]`; the classes are those of [`Class`].

use clap::Command;

use super::values::{boolean, duration};

/// Upstream's lists. A program names those that apply to it, shared ones first.
pub mod files {
    pub const LOGGING: &str = include_str!("upstream/logging.txt");
    pub const SIDECAR: &str = include_str!("upstream/sidecar.txt");
    pub const CSI_PROVISIONER: &str = include_str!("upstream/csi-provisioner.txt");
    pub const CSI_ATTACHER: &str = include_str!("upstream/csi-attacher.txt");
    pub const CSI_RESIZER: &str = include_str!("upstream/csi-resizer.txt");
    pub const CSI_SNAPSHOTTER: &str = include_str!("upstream/csi-snapshotter.txt");
    pub const SNAPSHOT_CONTROLLER: &str = include_str!("upstream/snapshot-controller.txt");
    pub const LIVENESSPROBE: &str = include_str!("upstream/livenessprobe.txt");
    pub const CSI_EXTERNAL_HEALTH_MONITOR_CONTROLLER: &str =
        include_str!("upstream/csi-external-health-monitor-controller.txt");
    /// Of `bowline sidecars`: flags that two controllers have.
    pub const SIDECARS: &str = include_str!("upstream/sidecars.txt");
    /// Of `bowline node-sidecars`.
    pub const NODE_SIDECARS: &str = include_str!("upstream/node-sidecars.txt");
    pub const CSI_NODE_DRIVER_REGISTRAR: &str = include_str!("upstream/csi-node-driver-registrar.txt");
    pub const KUBE: &str = include_str!("upstream/kube.txt");
    pub const KUBE_CONTROLLER_MANAGER: &str = include_str!("upstream/kube-controller-manager.txt");
    pub const KUBE_SCHEDULER: &str = include_str!("upstream/kube-scheduler.txt");
    pub const KUBELET: &str = include_str!("upstream/kubelet.txt");
    /// Feature gates of the programs of kubernetes v1.36.
    pub const KUBE_GATES: &str = include_str!("upstream/gates-kube.txt");
}

/// What a value is; it is checked also where it has no effect, so that a typing error does not wait for another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Float,
    Duration,
    String,
    /// Comma-separated or repeated.
    List,
    /// `key=value` pairs, comma-separated or repeated.
    Map,
}

/// What becomes of a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// The program declares it.
    Here,
    /// Accepted without effect; all of them together are one warning.
    Tuning,
    /// Accepted with this value, refused with any other for the reason given.
    Only { value: String, why: String },
    /// Refused for the reason given.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub name: String,
    pub kind: Kind,
    pub class: Class,
}

impl Kind {
    pub(super) fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Bool => boolean(value).map(drop),
            Self::Int => {
                value.parse::<i64>().map(drop).map_err(|_| format!("`{value}` is not a whole number"))
            }
            Self::Float => value.parse::<f64>().map(drop).map_err(|_| format!("`{value}` is not a number")),
            Self::Duration => duration(value).map(drop),
            Self::String | Self::List | Self::Map => Ok(()),
        }
    }

    /// Whether two values mean the same: `60s` is `1m`.
    pub(super) fn same(self, a: &str, b: &str) -> bool {
        fn equal<T: PartialEq, E>(a: Result<T, E>, b: Result<T, E>) -> bool {
            matches!((a, b), (Ok(a), Ok(b)) if a == b)
        }
        match self {
            Self::Bool => equal(boolean(a), boolean(b)),
            Self::Int => equal(a.parse::<i64>(), b.parse()),
            Self::Float => equal(a.parse::<f64>(), b.parse()),
            Self::Duration => equal(duration(a), duration(b)),
            Self::String | Self::List | Self::Map => a == b,
        }
    }
}

/// Reads lists of flags. Of two lines about one flag, the later counts.
pub fn flags(texts: &[&str]) -> Result<Vec<Flag>, String> {
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(flag).collect()
}

fn flag(line: &str) -> Result<Flag, String> {
    let wrong = |what: &str| format!("{what} in the list of upstream's flags: `{line}`");
    let mut words = line.split_whitespace();
    let mut word = || words.next().ok_or_else(|| wrong("too few columns"));
    let (name, kind, class) = (word()?, word()?, word()?);
    let kind = match kind {
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "float" => Kind::Float,
        "duration" => Kind::Duration,
        "string" => Kind::String,
        "list" => Kind::List,
        "map" => Kind::Map,
        _ => return Err(wrong("unknown kind")),
    };
    let value = if class == "only" { word()? } else { "" };
    let why = words.collect::<Vec<_>>().join(" ");
    let class = match class {
        "here" => Class::Here,
        "tuning" => Class::Tuning,
        "only" if !why.is_empty() => Class::Only { value: value.replace("\"\"", ""), why },
        "refused" if !why.is_empty() => Class::Refused(why),
        "only" | "refused" => return Err(wrong("no reason")),
        _ => return Err(wrong("unknown class")),
    };
    Ok(Flag { name: name.to_owned(), kind, class })
}

/// Where a program's declaration and upstream's list disagree: flags that upstream does not have and that are not in
/// `additions`, and flags of class `here` that the program lacks. Every program's tests expect none.
pub fn mismatches(command: &Command, texts: &[&str], additions: &[&str]) -> Result<Vec<String>, String> {
    let lines = flags(texts)?;
    // Of two lines about one flag, the later counts.
    let counts =
        |(index, flag): &(usize, &Flag)| !lines[index + 1..].iter().any(|later| later.name == flag.name);
    let upstream: Vec<&Flag> = lines.iter().enumerate().filter(counts).map(|(_, flag)| flag).collect();
    let declared: Vec<&str> = command.get_arguments().filter_map(|arg| arg.get_long()).collect();
    let foreign = declared
        .iter()
        .filter(|name| !additions.contains(*name) && !upstream.iter().any(|flag| flag.name == **name));
    let foreign = foreign.map(|name| format!("--{name} is declared here and not in upstream's list"));
    let missing =
        upstream.iter().filter(|flag| flag.class == Class::Here && !declared.contains(&flag.name.as_str()));
    let missing = missing.map(|flag| format!("--{} has class `here` and is not declared", flag.name));
    Ok(foreign.chain(missing).collect())
}
