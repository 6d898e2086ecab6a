//! Command lines of `bowline sidecars`, and what a replaced driver means.

use std::time::Duration;

use bowline_machinery::Identity;
use bowline_machinery::backlog::{LastError, Operation};
use bowline_machinery::flags::{Stop, parse};

use super::args::known;
use super::run::same_driver;
use super::table::{CONTROLLERS, FLAGS};
use super::*;

fn read(line: &str) -> Result<SidecarsArgs, Stop> {
    let words: Vec<String> = line.split_whitespace().map(String::from).collect();
    parse::<SidecarsArgs>(&SidecarsArgs::PROGRAM, "sidecars", &words).map(|parsed| parsed.args)
}

fn accepted(line: &str) -> SidecarsArgs {
    let args = read(line).unwrap_or_else(|stop| panic!("{line}: {}", stop.text));
    args.validate().unwrap_or_else(|why| panic!("{line}: {why}"));
    args
}

fn refused(line: &str) -> String {
    match read(line) {
        Err(stop) => stop.text,
        Ok(args) => args.validate().expect_err(line),
    }
}

fn enabled(args: &SidecarsArgs) -> Vec<&'static str> {
    args.enabled.iter().map(|one| one.controller.name).collect()
}

#[test]
fn any_subset_of_controllers_can_be_run() {
    assert_eq!(enabled(&accepted("--controllers=attacher")), ["attacher"]);
    let both = accepted("--controllers=attacher,provisioner");
    assert_eq!(enabled(&both), ["provisioner", "attacher"], "in the order of a volume's journey");
    assert!(both.probe.is_none());
    let probe = accepted("--controllers=livenessprobe --http-endpoint=:9808 --probe-timeout=2s");
    assert_eq!((enabled(&probe).len(), probe.probe), (0, Some(Duration::from_secs(2))));
    assert_eq!(enabled(&accepted("-controllers attacher -controllers health-monitor")).len(), 2, "repeated");
}

#[test]
fn what_cannot_be_run_is_refused_with_what_can() {
    for name in known() {
        assert!(refused("--csi-address=/x").contains(name), "{name}");
        assert!(refused("--controllers=mounter").contains(name), "{name}");
    }
    assert!(refused("--controllers=livenessprobe").contains("--http-endpoint"));
    let foreign = refused("--controllers=attacher --volume-name-prefix=x");
    assert!(foreign.contains("belongs to provisioner"), "{foreign}");
    assert!(refused("--controllers=attacher --feature-gates=Nope=true").contains("Nope"));
    let off = "--feature-gates=VolumeAttributesClass=false";
    accepted(&format!("--controllers=resizer {off}"));
    let fixed = refused(&format!("--controllers=resizer,provisioner {off}"));
    assert!(fixed.contains("cannot be switched off"), "{fixed}");
    let nodes = refused("--controllers=provisioner --provisioner-node-deployment --leader-election");
    assert!(nodes.contains("--node-deployment"), "{nodes}");
    let bad = refused("--controllers=attacher --leader-election --leader-election-renew-deadline=20s");
    assert!(bad.contains("renew deadline"), "{bad}");
}

#[test]
fn flags_of_one_controller_keep_their_names_and_shared_ones_get_its_name() {
    let args = accepted(
        "--controllers=provisioner,attacher --volume-name-prefix=v --provisioner-default-fstype=xfs --attacher-default-fstype=ext4 --strict-topology",
    );
    let words: Vec<_> = args.enabled.iter().map(|one| one.words.join(" ")).collect();
    assert!(
        words[0].contains("--volume-name-prefix=v") && words[0].contains("--default-fstype=xfs"),
        "{words:?}"
    );
    assert!(words[0].contains("--strict-topology"), "{words:?}");
    assert_eq!(words[1], "--default-fstype=ext4");
    for one in &args.enabled {
        let declared: Vec<String> =
            one.controller.arguments().iter().filter_map(|a| a.get_long().map(String::from)).collect();
        for word in &one.words {
            let name = word.trim_start_matches("--").split('=').next().unwrap_or_default();
            assert!(declared.iter().any(|flag| flag == name), "{name} in {declared:?}");
        }
    }
}

/// A collision without a line in `upstream/sidecars.txt` would be refused without saying what to write instead.
#[test]
fn a_flag_that_two_controllers_have_is_refused_with_the_names_to_use() {
    let mut names: Vec<&str> =
        FLAGS.iter().filter(|flag| flag.name != flag.own).map(|flag| flag.own.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert!(!names.is_empty());
    for name in names {
        let all: Vec<&str> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        let text = refused(&format!("--controllers={} --{name}=true", all.join(",")));
        for flag in FLAGS.iter().filter(|flag| flag.own == name) {
            assert!(
                text.contains(&format!("--{}", flag.name)),
                "add `{}` to sidecars.txt: {text}",
                flag.name
            );
        }
    }
}

#[test]
fn timeouts_are_those_of_each_program_unless_given() {
    let timeouts =
        |line: &str| -> Vec<u64> { accepted(line).enabled.iter().map(|one| one.timeout.as_secs()).collect() };
    assert_eq!(timeouts("--controllers=provisioner,attacher,resizer"), [10, 15, 10]);
    assert_eq!(timeouts("--controllers=provisioner,attacher --timeout=40s"), [40, 40]);
    assert_eq!(timeouts("--controllers=provisioner,attacher --timeout=40s --attacher-timeout=1m"), [40, 60]);
}

#[test]
fn a_restarted_driver_goes_on_and_another_driver_ends_the_process() {
    let identity = |name: &str, rpcs: &[i32]| Identity {
        name: name.into(),
        services: Default::default(),
        controller: rpcs.iter().copied().collect(),
    };
    assert!(same_driver(&identity("a", &[1]), &identity("a", &[1])).is_ok());
    assert!(same_driver(&identity("a", &[1]), &identity("a", &[1, 2])).is_ok(), "with what it can do now");
    let error = same_driver(&identity("a", &[1]), &identity("b", &[1])).expect_err("another driver");
    assert!(error.to_string().contains("replaced by b"), "{error}");
}

#[test]
fn top_shows_one_line_per_operation() {
    let error = LastError { object: "attachment csi-1".into(), message: "no node".into(), seconds_ago: 12.2 };
    let operations = [
        Operation {
            controller: "external-attacher".into(),
            operation: "attach".into(),
            depth: 3,
            oldest_seconds: 4.25,
            in_flight: 64,
            longest_seconds: 1.0,
            failing: 2,
            last_error: Some(error),
        },
        Operation {
            controller: "external-attacher".into(),
            operation: "detach".into(),
            ..Default::default()
        },
    ];
    let lines = top::table(&operations);
    assert_eq!(lines.len(), 3);
    let cells: Vec<&str> = lines[1].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let last = "12s ago, attachment csi-1: no node";
    assert_eq!(cells, ["external-attacher", "attach", "3", "4.2s", "64", "1.0s", "2", last]);
    assert!(lines[2].contains("detach"), "{}", lines[2]);
    assert_eq!(top::body("HTTP/1.1 200 OK\r\na: b\r\n\r\n{}", "x").expect("a body"), "{}");
    for wrong in ["HTTP/1.1 404 Not Found\r\n\r\n", "garbage"] {
        assert!(top::body(wrong, "x").is_err());
    }
}

#[test]
fn every_controller_has_a_lock_of_its_own() {
    let mut locks: Vec<String> =
        CONTROLLERS.iter().map(|controller| (controller.lock)("d.example")).collect();
    locks.push(election::lock("d.example"));
    let expected = locks.len();
    locks.sort();
    locks.dedup();
    assert_eq!(locks.len(), expected, "{locks:?}");
}
