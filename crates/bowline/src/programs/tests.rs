//! Choosing and starting programs from a table of samples.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::flags::{LoggingArgs, Program, SidecarArgs, Syntax, Version, files};
use clap::{Args, CommandFactory};

use super::*;

#[derive(Debug, Args)]
struct Sidecar {
    #[command(flatten)]
    shared: SidecarArgs,
}

impl Run for Sidecar {
    const PROGRAM: Program = Program {
        name: "csi-sample",
        about: "Does what a sidecar does",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::SIDECAR],
        defaults: &[],
        version: Some(Version::Own("v1")),
    };
    const GROUP: Group = Group::Sidecars;

    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.shared.validate(&[])
    }
    async fn run(self) -> Result<ExitCode> {
        Ok(ExitCode::SUCCESS)
    }
}

const TABLE: &[Entry] = &[Entry::of::<Sidecar>()];

fn argv(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// What the program is called, and its words.
fn chosen(line: &str) -> Option<(String, String)> {
    let chosen = choose(TABLE, argv(line))?;
    assert_eq!(chosen.entry.program.name, "csi-sample");
    let words: Vec<_> = chosen.words.iter().map(|word| word.to_string_lossy()).collect();
    Some((chosen.argv0.to_string_lossy().into_owned(), words.join(" ")))
}

#[test]
fn programs_are_chosen_by_link_or_by_subcommand() {
    let some = |argv0: &str, words: &str| Some((argv0.to_owned(), words.to_owned()));
    assert_eq!(chosen("/usr/bin/csi-sample -v=5 x"), some("/usr/bin/csi-sample", "-v=5 x"));
    assert_eq!(chosen("./bowline csi-sample -v=5"), some("csi-sample", "-v=5"));
    assert_eq!(chosen("csi-sample"), some("csi-sample", ""));
    // Under the name of a program, its first word is not a subcommand.
    assert_eq!(chosen("csi-sample up"), some("csi-sample", "up"));
    for line in ["bowline", "bowline up", "bowline --help", "bowline -v csi-sample", "bowline csi-sampl", ""]
    {
        assert_eq!(chosen(line), None, "{line}");
    }
}

#[test]
fn a_program_starts_or_says_why_not() {
    let start = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        (TABLE[0].start)("./csi-sample", &words)
    };
    let ready = start("--kube-api-qps=5 -v=5").unwrap_or_else(|stop| panic!("{}", stop.text));
    assert_eq!(ready.logging.verbosity, 5);
    assert_eq!(ready.warning.as_deref(), Some("accepted without effect in this program: --kube-api-qps"));
    let stop = |line: &str| start(line).map(|_| ()).expect_err(line);
    assert_eq!(stop("--nope").code, 2);
    assert_eq!(stop("--version").text, "./csi-sample v1\n");
    let both = stop("--http-endpoint=:1 --metrics-address=:2");
    assert_eq!(both.code, 1);
    let expected =
        "./csi-sample: only one of --http-endpoint and --metrics-address can be set; use --http-endpoint\n";
    assert_eq!(both.text, expected);
}

#[test]
fn help_lists_commands_in_groups() {
    let help = |table| help::with_groups(crate::cli::Cli::command(), table).render_help().to_string();
    let text = help(TABLE);
    let titles = [
        "Everything on one machine:",
        "Cluster components:",
        "CSI sidecars:",
        "Drivers and tools:",
        "Options:",
    ];
    let positions: Vec<_> =
        titles.iter().map(|title| text.find(title).unwrap_or_else(|| panic!("{title}: {text}"))).collect();
    assert!(positions.is_sorted(), "{text}");
    let between = |from: usize, line: &str| text[positions[from]..positions[from + 1]].contains(line);
    assert!(between(0, "\n  up "), "{text}");
    assert!(between(1, "\n  kube-apiserver "), "{text}");
    assert!(between(2, "\n  csi-sample      Does what a sidecar does\n"), "{text}");
    assert!(between(3, "\n  driver "), "{text}");
    assert!(between(3, "\n  store "), "{text}");
    assert!(!help(&[]).contains("CSI sidecars"), "a group without programs is not listed");
}

#[test]
fn every_program_declares_upstreams_flags() {
    for entry in PROGRAMS {
        assert_eq!(entry.mismatches(), Ok(Vec::new()), "{}", entry.program.name);
    }
}
