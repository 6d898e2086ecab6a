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
    // The sidecars print their usage where they print errors.
    String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
}

/// What the help of a program has and our lists lack, and the other way round, each in order.
fn differences(help: &str, texts: &[&str]) -> [Vec<String>; 2] {
    let known = flags(texts).expect("a list");
    let theirs: Vec<&str> =
        in_help(help).into_iter().filter(|name| !["help", "version"].contains(name)).collect();
    assert!(theirs.len() > 40, "the reader of help found only {theirs:?}");
    let missing = theirs.iter().filter(|name| !known.iter().any(|flag| flag.name == **name));
    let gone = known.iter().filter(|flag| !theirs.contains(&flag.name.as_str()));
    let mut found =
        [missing.map(ToString::to_string).collect(), gone.map(|flag| flag.name.clone()).collect::<Vec<_>>()];
    found.iter_mut().for_each(|names| names.sort());
    found
}

fn compare(variable: &str, texts: &[&str]) {
    let help = help_of(variable);
    assert_eq!(differences(&help, texts), [vec![], vec![]] as [Vec<String>; 2], "{variable}");
    let gates = Gates::known(&[files::KUBE_GATES]).expect("a list");
    let lines = help.lines().map(str::trim).filter(|line| line.contains("=true|false ("));
    let mut compared = 0;
    for line in lines.map(|line| line.strip_prefix("kube:").unwrap_or(line)) {
        let name = line.split('=').next().unwrap_or_default();
        let default = line.contains("default=true");
        assert!(gates.iter().any(|gate| gate.name == name && gate.default == default), "{line}");
        compared += 1;
    }
    assert!(compared > 20, "the reader of help found only {compared} gates");
}

#[test]
fn lists_match_upstreams_help() {
    compare("KUBE_CONTROLLER_MANAGER", &[files::LOGGING, files::KUBE, files::KUBE_CONTROLLER_MANAGER]);
    compare("KUBE_SCHEDULER", &[files::LOGGING, files::KUBE, files::KUBE_SCHEDULER]);
    compare("KUBELET", &[files::LOGGING, files::KUBELET]);
}

/// Our list is that of a later version: what changed since stands here. The programs of the attacher and the registrar
/// cannot be built here; they share most of their list with this one.
#[test]
fn the_provisioners_list_matches_upstreams_help() {
    let removed_since = [
        "add_dir_header",
        "alsologtostderr",
        "log_backtrace_at",
        "log_dir",
        "log_file",
        "log_file_max_size",
        "logtostderr",
        "one_output",
        "skip_headers",
        "skip_log_headers",
        "stderrthreshold",
    ];
    let added_since = [
        "automaxprocs",
        "leader-election-labels",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-json-split-stream",
        "log-text-info-buffer-size",
        "log-text-split-stream",
        "logging-format",
        "snapshot-orphan-sweep-interval",
    ];
    let texts = [files::LOGGING, files::SIDECAR, files::CSI_PROVISIONER];
    let [missing, gone] = differences(&help_of("CSI_PROVISIONER"), &texts);
    assert_eq!(missing, removed_since);
    assert_eq!(gone, added_since);
}
