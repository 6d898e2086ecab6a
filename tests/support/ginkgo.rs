//! What a run of a Ginkgo suite reported, and whether that is good enough.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// Specs that upstream keeps switched off; more of them means that the suite changed under us.
const PENDING_MAX: usize = 1;

/// A spec that no driver can pass, and what its failure then says. It compares the topology that it sent with the one
/// it got as Go structs, and a struct that was sent also holds the size it was sent with. Our own tests check the
/// same answer (`a_snapshot_says_where_it_can_be_reached`).
const BROKEN_UPSTREAM: (&str, &str) =
    ("should succeed when creating a snapshot with accessibility requirements", "sizeCache: 0");

/// Which specs may be skipped.
pub enum Skips {
    /// None: every spec has to run.
    Never,
    /// Exactly those that give one of these reasons, and each reason at least once.
    For(&'static [&'static str]),
    /// Any; for a driver that does not claim every capability.
    Any,
}

pub struct Spec {
    pub name: String,
    /// Why it failed or was skipped, in the suite's words.
    pub why: String,
    /// Where in the suite, for whoever has to read it.
    place: String,
}

pub struct Report {
    pub passed: usize,
    pub failed: Vec<Spec>,
    pub skipped: Vec<Spec>,
    pub pending: Vec<Spec>,
    /// Failed through no fault of the driver.
    pub broken: Vec<Spec>,
    pub seconds: f64,
}

impl Report {
    /// Reads the file that `--ginkgo.json-report` writes.
    pub fn read(json: &str) -> Result<Self, String> {
        let suites: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let suite = suites.get(0).ok_or("the report holds no suite")?;
        let specs = suite["SpecReports"].as_array().ok_or("the report holds no specs")?;
        let seconds = suite["RunTime"].as_f64().ok_or("the report holds no duration")? / 1e9;
        let (failed, skipped, pending, broken) = Default::default();
        let mut report = Self { passed: 0, failed, skipped, pending, broken, seconds };
        for spec in specs {
            let is_spec = spec["LeafNodeType"] == "It";
            match spec["State"].as_str() {
                Some("passed") if is_spec => report.passed += 1,
                Some("passed") => {}
                Some("skipped") => report.skipped.push(read_spec(spec)),
                Some("pending") => report.pending.push(read_spec(spec)),
                Some("failed") if is_broken(spec) => report.broken.push(read_spec(spec)),
                // Failed, panicked, timed out, interrupted, or a state we do not know.
                _ => report.failed.push(read_spec(spec)),
            }
        }
        Ok(report)
    }

    pub fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped, {} pending, {} that nobody passes, {:.1} s",
            self.passed,
            self.failed.len(),
            self.skipped.len(),
            self.pending.len(),
            self.broken.len(),
            self.seconds
        )
    }

    /// Everything that is wrong with the run; empty when nothing is.
    pub fn complaints(&self, skips: &Skips) -> String {
        let mut text = list("failed", &self.failed);
        text += &list("skipped without permission", self.unexcused(skips));
        for reason in unused(skips, &self.skipped) {
            let _ = writeln!(text, "no spec was skipped for `{reason}`, so it need not be permitted");
        }
        if self.pending.len() > PENDING_MAX {
            text += &list("pending, more than upstream has", &self.pending);
        }
        if self.passed == 0 {
            text += "no spec passed\n";
        }
        text
    }

    fn unexcused(&self, skips: &Skips) -> impl Iterator<Item = &Spec> {
        let excused = |spec: &&Spec| match skips {
            Skips::Never => false,
            Skips::For(reasons) => reasons.contains(&spec.why.as_str()),
            Skips::Any => true,
        };
        self.skipped.iter().filter(move |spec| !excused(spec))
    }
}

fn unused(skips: &Skips, skipped: &[Spec]) -> impl Iterator<Item = &'static str> {
    let reasons: &[&str] = match skips {
        Skips::For(reasons) => reasons,
        Skips::Never | Skips::Any => &[],
    };
    reasons.iter().copied().filter(|reason| !skipped.iter().any(|spec| spec.why == *reason))
}

fn is_broken(spec: &Value) -> bool {
    let Spec { name, why, .. } = read_spec(spec);
    name.contains(BROKEN_UPSTREAM.0) && why.contains(BROKEN_UPSTREAM.1)
}

fn read_spec(spec: &Value) -> Spec {
    let words = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten().map(words);
    let parts: Vec<String> = containers.chain([words(&spec["LeafNodeText"])]).collect();
    let failure = &spec["Failure"];
    let file = words(&failure["Location"]["FileName"]);
    let file = file.rsplit('/').next().unwrap_or_default().to_owned();
    Spec {
        name: parts.join(" > "),
        why: words(&failure["Message"]),
        place: format!("{file}:{}", failure["Location"]["LineNumber"]),
    }
}

/// One paragraph per reason, since one missing capability skips many specs.
fn list<'a>(what: &str, specs: impl IntoIterator<Item = &'a Spec>) -> String {
    let mut reasons = BTreeMap::<&str, Vec<&Spec>>::new();
    for spec in specs {
        reasons.entry(&spec.why).or_default().push(spec);
    }
    let mut text = String::new();
    for (why, specs) in reasons {
        let _ = writeln!(text, "{what}: {}", why.replace('\n', "\n    "));
        for spec in specs {
            let _ = writeln!(text, "  {} ({})", spec.name, spec.place);
        }
    }
    text
}
