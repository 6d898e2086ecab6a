//! Our lists of upstream's flags, against the help that upstream's programs print.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use bowline_machinery::flags::{Gates, files, flags};

/// Names behind two dashes at the start of a line of help.
fn in_help(help: &str) -> Vec<&str> {
    let names = help.lines().filter_map(|line| {
        let flag = line.trim_start().split_once("--").filter(|(before, _)| before.len() <= 4)?.1;
        (line.starts_with("  ") && !line.starts_with("       ")).then_some(flag)
    });
    names.filter_map(|flag| flag.split([' ', '=']).next()).filter(|name| !name.is_empty()).collect()
}

fn help_of(variable: &str) -> String {
    let program = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names upstream's program"));
    let output = std::process::Command::new(&program).arg("--help").output().expect("the program runs");
    String::from_utf8(output.stdout).expect("text")
}

fn compare(variable: &str, texts: &[&str]) {
    let help = help_of(variable);
    let known = flags(texts).expect("a list");
    let theirs: Vec<&str> =
        in_help(&help).into_iter().filter(|name| !["help", "version"].contains(name)).collect();
    assert!(theirs.len() > 50, "the reader of help found only {theirs:?}");
    let missing: Vec<_> =
        theirs.iter().filter(|name| !known.iter().any(|flag| flag.name == **name)).collect();
    assert!(missing.is_empty(), "not in our list: {missing:?}");
    let gone: Vec<_> = known.iter().filter(|flag| !theirs.contains(&flag.name.as_str())).collect();
    assert!(gone.is_empty(), "not in upstream's help: {gone:?}");
    let gates = Gates::known(&[files::KUBE_GATES]).expect("a list");
    for line in help.lines().filter_map(|line| line.trim().strip_prefix("kube:")) {
        let name = line.split('=').next().unwrap_or_default();
        let default = line.contains("default=true");
        assert!(gates.iter().any(|gate| gate.name == name && gate.default == default), "{line}");
    }
}

#[test]
fn lists_match_upstreams_help() {
    compare("KUBE_CONTROLLER_MANAGER", &[files::LOGGING, files::KUBE, files::KUBE_CONTROLLER_MANAGER]);
    compare("KUBE_SCHEDULER", &[files::LOGGING, files::KUBE, files::KUBE_SCHEDULER]);
}
