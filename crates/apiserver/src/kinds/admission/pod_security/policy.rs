//! Which policy the labels of a namespace ask for.

use std::collections::BTreeMap;
use std::fmt;

use bowline_api::keys;

use crate::field::Invalid;

/// In order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

const LEVELS: [(&str, Level); 3] =
    [("privileged", Level::Privileged), ("baseline", Level::Baseline), ("restricted", Level::Restricted)];
const NO_LEVEL: &str = "must be one of privileged, baseline, restricted";
const NO_VERSION: &str = "must be \"latest\" or \"v1.x\"";

/// Which release's idea of a level counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// v1.x
    Minor(u64),
    Latest,
}

/// What one mode asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

impl LevelVersion {
    pub const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = LEVELS.iter().find(|(_, level)| *level == self.level).map_or("", |(name, _)| name);
        match self.version {
            Version::Minor(minor) => write!(f, "{name}:v1.{minor}"),
            Version::Latest => write!(f, "{name}:latest"),
        }
    }
}

/// The three modes of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

impl Policy {
    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }

    /// There is always a policy to evaluate. A level that cannot be read is the strictest one where it is enforced, and
    /// none where it only informs.
    pub fn of(labels: &BTreeMap<String, String>) -> (Self, Vec<Invalid>) {
        let mut reading = Reading { labels, errors: Vec::new() };
        let enforce = reading.mode((keys::POD_SECURITY_ENFORCE, keys::POD_SECURITY_ENFORCE_VERSION));
        let audit = reading.mode((keys::POD_SECURITY_AUDIT, keys::POD_SECURITY_AUDIT_VERSION));
        let warn = reading.mode((keys::POD_SECURITY_WARN, keys::POD_SECURITY_WARN_VERSION));
        let informs = |level: Label<Level>| level.or_else(Level::Privileged, Level::Privileged);
        let enforced = LevelVersion {
            level: enforce.level.or_else(Level::Privileged, Level::Restricted),
            version: enforce.version(),
        };
        let mut policy = Self {
            enforce: enforced,
            audit: LevelVersion { level: informs(audit.level), version: audit.version() },
            warn: LevelVersion { level: informs(warn.level), version: warn.version() },
        };
        // What is enforced is warned of as well, unless the labels say otherwise.
        if let (Label::Absent, Label::Valid(level)) = (warn.level, enforce.level)
            && level > Level::Privileged
        {
            policy.warn.level = level;
            if warn.version == Label::Absent {
                policy.warn.version = enforced.version;
            }
        }
        (policy, reading.errors)
    }
}

/// A label as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label<T> {
    Absent,
    Valid(T),
    Wrong,
}

impl<T> Label<T> {
    fn or_else(self, absent: T, wrong: T) -> T {
        match self {
            Self::Valid(value) => value,
            Self::Absent => absent,
            Self::Wrong => wrong,
        }
    }
}

/// The two labels of a mode.
#[derive(Clone, Copy)]
struct Mode {
    level: Label<Level>,
    version: Label<Version>,
}

impl Mode {
    fn version(&self) -> Version {
        self.version.or_else(Version::Latest, Version::Latest)
    }
}

struct Reading<'a> {
    labels: &'a BTreeMap<String, String>,
    errors: Vec<Invalid>,
}

impl Reading<'_> {
    fn mode(&mut self, (level, version): (&str, &str)) -> Mode {
        Mode {
            level: self.label(level, parse_level, NO_LEVEL),
            version: self.label(version, parse_version, NO_VERSION),
        }
    }

    fn label<T>(&mut self, key: &str, parse: fn(&str) -> Option<T>, why: &str) -> Label<T> {
        let Some(text) = self.labels.get(key) else { return Label::Absent };
        let parsed = parse(text);
        if parsed.is_none() {
            self.errors.push(Invalid::invalid(format!("metadata.labels[{key}]"), text.as_str(), why));
        }
        parsed.map_or(Label::Wrong, Label::Valid)
    }
}

fn parse_level(text: &str) -> Option<Level> {
    LEVELS.iter().find(|(name, _)| *name == text).map(|(_, level)| *level)
}

/// `v1.` and a number that fits into Go's int, without zeros in front.
fn parse_version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(Version::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
    let minor = minor.parse::<i64>().ok().filter(|_| plain)?;
    Some(Version::Minor(minor.unsigned_abs()))
}
