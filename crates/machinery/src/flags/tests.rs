//! Whole command lines through the parser.

mod refusals;
mod shared;
mod syntax;
mod upstream;

use clap::{ArgAction, Args};

use super::*;

/// A program with a flag of each kind.
#[derive(Debug, Args)]
struct Sample {
    #[arg(long, default_value = "/run/csi/socket")]
    csi_address: String,
    #[arg(long)]
    kubeconfig: Option<std::path::PathBuf>,
    #[arg(long)]
    leader_election: bool,
    #[arg(long, action = ArgAction::Set, default_value_t = true)]
    immediate: bool,
    #[arg(long, value_parser = duration, default_value = "15s")]
    timeout: std::time::Duration,
    #[arg(long, action = ArgAction::Append, value_delimiter = ',')]
    controllers: Vec<String>,
    #[arg(long = "v", short = 'v', default_value_t = 0)]
    verbosity: u32,
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    length: i32,
}

const LIST: &str = "
# Upstream's
csi-address   string  here
worker-threads int    tuning
kube-api-qps  float   tuning
automaxprocs  bool    tuning
enable-pprof  bool    only false there is no Go profiler
reconcile     duration only 1m attachments are watched
threads       int     only 0 there is no pool
config        string  refused set the options as flags
";

const fn sample(syntax: Syntax) -> Program {
    Program {
        name: "sample",
        about: "",
        syntax,
        upstream: &[LIST],
        defaults: &[],
        version: Some(Version::Own("v1.2.3")),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn run(syntax: Syntax, line: &str) -> Result<Parsed<Sample>, Stop> {
    parse(&sample(syntax), "./sample", &words(line))
}

/// The line that says what is wrong, and the exit code.
fn refused(syntax: Syntax, line: &str) -> (String, u8) {
    let stop = run(syntax, line).map(|parsed| parsed.args).expect_err(line);
    assert!(stop.to_stderr, "{line}");
    let message = match syntax {
        Syntax::Cobra => stop.text.lines().last().and_then(|line| line.strip_prefix("Error: ")),
        _ => stop.text.lines().next(),
    };
    assert!(stop.text.contains("sample [flags]"), "usage is printed: {}", stop.text);
    (message.expect("a message").to_owned(), stop.code)
}
