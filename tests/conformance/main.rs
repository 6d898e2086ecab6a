//! A script of kubectl commands (tests/kubectl), answered by our API server as upstream's answered it.
//!
//! Each theme is one script and, for each kind of store, one test on an empty server of its own. What upstream's
//! kube-apiserver said is recorded in tests/kubectl/recorded; `make record` does so anew.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod compare;
mod deviations;
mod normalise;
mod script;
mod shell;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write;
use std::path::PathBuf;

use compare::{Deviation, differences};
use deviations::DEVIATIONS;
use script::Step;
use support::apiserver::ApiServer;
use support::store::Store;

/// Each theme on each kind of store: `memory::apply`, `file::apply`, `etcd::apply`.
macro_rules! themes {
    ($($theme:ident,)*) => {
        const THEMES: &[&str] = &[$(stringify!($theme)),*];
        mod memory {
            $(#[test]
            fn $theme() {
                super::judge(stringify!($theme), super::Store::Memory);
            })*
        }
        mod file {
            $(#[test]
            fn $theme() {
                super::judge(stringify!($theme), super::Store::File);
            })*
        }
        mod etcd {
            $(#[test]
            fn $theme() {
                super::judge(stringify!($theme), super::Store::Etcd);
            })*
        }
    };
}

themes! {
    apply,
    auth,
    badinput,
    create,
    delete,
    describe,
    discovery,
    dryrun,
    edit,
    events,
    explain,
    get,
    inside,
    podsecurity,
    raw,
    rules,
    scale,
    serverside,
    snapshots,
    status,
    unprivileged,
    watch,
}

fn judge(theme: &str, store: Store) {
    let recorded = script::parse(&read(&recording(theme)));
    let commands = script::commands(&read(&script_of(theme)));
    let recorded_commands: Vec<&String> = recorded.iter().map(|step| &step.command).collect();
    assert!(
        recorded_commands.iter().copied().eq(&commands),
        "the script of `{theme}` changed: run `make record`"
    );
    let ours = shell::run(theme, &commands, &ApiServer::ours(&[store.flags(), flags(theme)].concat()));
    let meant: Vec<&Deviation> = DEVIATIONS.iter().filter(|deviation| deviation.theme == theme).collect();
    let wrong = differences(&recorded, &ours, &meant);
    let summary =
        format!("{theme} on {store:?}: {} of {} answers differ from upstream's", wrong.len(), ours.len());
    let details = wrong.join("\n\n");
    assert!(wrong.is_empty(), "{summary} (- upstream, + ours):\n\n{details}");
}

/// Of both servers.
fn flags(theme: &str) -> Vec<String> {
    let plain = theme == "unprivileged";
    if plain { Vec::new() } else { vec!["--allow-privileged=true".into()] }
}

fn script_of(theme: &str) -> PathBuf {
    shell::folder().join(format!("{theme}.txt"))
}

fn recording(theme: &str) -> PathBuf {
    shell::folder().join("recorded").join(format!("{theme}.txt"))
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A script that no test runs, or a deviation of no theme, would be forgotten.
#[test]
fn every_script_is_a_theme() {
    let files = std::fs::read_dir(shell::folder()).expect("the folder of scripts").flatten();
    let scripts =
        files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "txt"));
    let mut names: Vec<String> =
        scripts.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    assert_eq!(names, THEMES, "the scripts and the table of themes");
    let strays = DEVIATIONS.iter().filter(|deviation| !THEMES.contains(&deviation.theme));
    assert_eq!(strays.map(|deviation| deviation.why).collect::<Vec<_>>(), Vec::<&str>::new());
    let commands = THEMES.iter().map(|theme| script::commands(&read(&script_of(theme))).len()).sum::<usize>();
    assert!(commands > 1_200, "only {commands} commands: was a script cut short?");
}

/// Not a test: writes what upstream answers. `RECORD="apply get"` limits it to some themes.
#[test]
#[ignore = "`make record` runs it"]
fn record() {
    let chosen = std::env::var("RECORD").unwrap_or_default();
    let is_chosen = |theme: &&&str| chosen.is_empty() || chosen.split(' ').any(|name| name == **theme);
    for theme in THEMES.iter().filter(is_chosen) {
        let commands = script::commands(&read(&script_of(theme)));
        let steps: Vec<Step> = shell::run(theme, &commands, &ApiServer::upstream(&flags(theme)));
        std::fs::write(recording(theme), script::render(&steps)).expect("write the recording");
        let _ = writeln!(std::io::stderr(), "recorded {theme}: {} answers", steps.len());
    }
}
