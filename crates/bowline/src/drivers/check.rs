//! `bowline driver local check`: what is wrong with a pool, for people and for programs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_drivers::local::check::{self, Finding, Repair, Report, Severity};
use bowline_host::real::{self, RealConfig};

use crate::terminal::Terminal;

/// Exit code when something was found.
const FOUND: u8 = 1;
/// Exit code when the pool could not be looked at.
const FAILED: u8 = 2;

/// Audit a pool: records, images, loop devices and mounts
///
/// Changes nothing and may run beside the driver; what that is doing at the moment may show. Exits with 0 when
/// nothing was found or all of it was repaired, with 1 when something was found, with 2 when it could not look.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Directory that holds the volumes
    #[arg(long, value_name = "DIR")]
    pool: PathBuf,
    /// Put right what provably can be; the driver must not run. Never removes data that has no owner
    #[arg(long)]
    pub repair: bool,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Output {
    /// One line per finding
    #[default]
    Text,
    /// Stable, for programs
    Json,
}

impl Check {
    pub async fn run(self) -> ExitCode {
        crate::logging::start("error");
        match self.report().await {
            Ok(report) if report.is_clean() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::from(FOUND),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "bowline: {error:#}");
                ExitCode::from(FAILED)
            }
        }
    }

    async fn report(&self) -> Result<Report> {
        let host = real::host(RealConfig::new(&self.pool)).context("open this machine")?;
        let report = match self.repair {
            true => check::repair(&host, &self.pool).await?,
            false => check::check(&host, &self.pool).await?,
        };
        let terminal = Terminal::default();
        match self.output {
            Output::Json => terminal.line(serde_json::to_string_pretty(&report)?),
            Output::Text => {
                print(&terminal, &report);
                self.hint(&report);
            }
        }
        Ok(report)
    }

    /// For the person at the terminal, not for who counts lines.
    fn hint(&self, report: &Report) {
        if self.repair || report.findings.is_empty() {
            return;
        }
        let possible = report.findings.iter().any(|finding| finding.repair == Repair::Possible);
        let _ = writeln!(
            std::io::stderr(),
            "nothing was changed; what a running driver is doing may show{}",
            match possible {
                true => "; stop it and add --repair for what can be repaired",
                false => "",
            }
        );
    }
}

fn print(terminal: &Terminal, report: &Report) {
    let Report { pool, volumes, snapshots, groups, findings } = report;
    let counts = format!("{volumes} volumes, {snapshots} snapshots, {groups} groups");
    let found = match findings.len() {
        0 => terminal.good("nothing found"),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    terminal.line(format!("{}: {counts}, {found}", pool.display()));
    let width = |part: fn(&Finding) -> usize| findings.iter().map(part).max().unwrap_or_default();
    let widths = [width(|f| f.severity.as_str().len()), width(|f| f.reason.len()), width(|f| f.object.len())];
    for finding in findings {
        terminal.line(line(terminal, finding, widths));
    }
}

fn line(terminal: &Terminal, finding: &Finding, [severity, reason, object]: [usize; 3]) -> String {
    // Padded before it is coloured: a terminal does not count colours, `format!` does.
    let word = format!("{:severity$}", finding.severity.as_str());
    let word = match finding.severity {
        Severity::Error => terminal.bad(&word),
        Severity::Warning => terminal.accent(&word),
        Severity::Note => terminal.dim(&word),
    };
    let outcome = match (&finding.repair, &finding.error) {
        (Repair::Done, _) => terminal.good("repaired"),
        (Repair::Failed, why) => {
            terminal.bad(&format!("repair failed: {}", why.as_deref().unwrap_or("no reason given")))
        }
        (Repair::Possible | Repair::Manual, _) => finding.action.clone(),
    };
    let Finding { reason: what, object: which, message, .. } = finding;
    format!("{word}  {what:reason$}  {which:object$}  {message}; {outcome}")
}
