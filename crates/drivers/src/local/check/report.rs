//! What people and programs read.

use std::path::PathBuf;

use serde::Serialize;

use super::facts::Facts;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Data is lost or cannot be reached.
    Error,
    /// Something is left over, or less safe than it should be.
    Warning,
    /// Something is under way, or not ours.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// What a repair did, or could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Repair {
    /// A person has to decide.
    Manual,
    Possible,
    Done,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub severity: Severity,
    /// One word for programs; never changes its meaning.
    pub reason: &'static str,
    /// What it is about: "volume `pvc-1`".
    pub object: String,
    pub message: String,
    /// What to do about it.
    pub action: String,
    pub repair: Repair,
    /// Why the repair failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub pool: PathBuf,
    pub volumes: usize,
    pub snapshots: usize,
    pub groups: usize,
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(facts: &Facts, findings: Vec<Finding>) -> Self {
        Self {
            pool: facts.pool.clone(),
            volumes: facts.volumes.len(),
            snapshots: facts.snapshots.len(),
            groups: facts.groups.len(),
            findings,
        }
    }

    /// Whether nothing is left to be done.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.repair == Repair::Done)
    }
}
