//! Which words are flags and which are values.

use super::*;

use Syntax::{Cobra, GoFlag, Pflag};

fn shown(syntax: Syntax, line: &str) -> String {
    let args = match run(syntax, line) {
        Ok(parsed) => parsed.args,
        Err(stop) => panic!("{line}: {}", stop.text),
    };
    let Sample { csi_address, leader_election, immediate, timeout, verbosity, .. } = args;
    format!("{csi_address} {leader_election} {immediate} {timeout:?} {verbosity}")
}

#[test]
fn forms_that_are_accepted() {
    let table = [
        (GoFlag, "", "/run/csi/socket false true 15s 0"),
        (GoFlag, "-csi-address=/a --csi-address=/b", "/b false true 15s 0"),
        (GoFlag, "-csi-address /a --timeout 300ms", "/a false true 300ms 0"),
        (GoFlag, "--leader-election -v 5", "/run/csi/socket true true 15s 5"),
        (GoFlag, "-v=5 --leader-election=T", "/run/csi/socket true true 15s 5"),
        (GoFlag, "--leader-election --leader-election=0", "/run/csi/socket false true 15s 0"),
        // The value of a boolean is not a word of its own: it ends the parsing, and what follows is lost.
        (GoFlag, "--leader-election false --timeout=1s", "/run/csi/socket true true 15s 0"),
        (GoFlag, "-v=1 -- -v=2", "/run/csi/socket false true 15s 1"),
        (GoFlag, "-v=1 - -v=2", "/run/csi/socket false true 15s 1"),
        (GoFlag, "--immediate=False", "/run/csi/socket false false 15s 0"),
        (GoFlag, "--immediate", "/run/csi/socket false true 15s 0"),
        // The next word is the value, whatever it looks like.
        (GoFlag, "--csi-address --timeout", "--timeout false true 15s 0"),
        (GoFlag, "--csi-address=a=b", "a=b false true 15s 0"),
        (GoFlag, "--csi-address=", " false true 15s 0"),
        (Pflag, "-v5", "/run/csi/socket false true 15s 5"),
        (Pflag, "-v=5", "/run/csi/socket false true 15s 5"),
        (Pflag, "-v 5", "/run/csi/socket false true 15s 5"),
        (Pflag, "--v=5", "/run/csi/socket false true 15s 5"),
        (Pflag, "--leader-election false --timeout=1s", "/run/csi/socket true true 1s 0"),
        (Pflag, "-v=1 -- -v=2", "/run/csi/socket false true 15s 1"),
        (Cobra, "--leader_election --csi_address /a -v5", "/a true true 15s 5"),
    ];
    for (syntax, line, expected) in table {
        assert_eq!(shown(syntax, line), expected, "{syntax:?} {line}");
    }
}

#[test]
fn lists_are_joined_and_numbers_may_be_negative() {
    let args =
        run(Pflag, "--controllers=a,b --length -7 --controllers c --controllers=*,-d").expect("parses").args;
    assert_eq!(args.controllers, ["a", "b", "c", "*", "-d"]);
    assert_eq!(args.length, -7);
}

#[test]
fn an_empty_value_is_the_default_of_a_flag_without_one() {
    let args = run(GoFlag, "--kubeconfig=/a --kubeconfig=").expect("parses").args;
    assert_eq!(args.kubeconfig, None);
}

#[test]
fn wrong_syntax_is_refused_in_the_words_of_the_parser() {
    let table = [
        (
            GoFlag,
            "--csi-adress=/a",
            "flag provided but not defined: -csi-adress; did you mean -csi-address?",
            2,
        ),
        (GoFlag, "-nonsense-flag", "flag provided but not defined: -nonsense-flag", 2),
        (GoFlag, "-v5", "flag provided but not defined: -v5", 2),
        (GoFlag, "--timeout", "flag needs an argument: -timeout", 2),
        (GoFlag, "---x", "bad flag syntax: ---x", 2),
        (GoFlag, "--=x", "bad flag syntax: --=x", 2),
        (GoFlag, "-=x", "bad flag syntax: -=x", 2),
        (
            GoFlag,
            "--leader-election=maybe",
            "invalid boolean value \"maybe\" for -leader-election: `maybe` is not a boolean; use true or false",
            2,
        ),
        (
            GoFlag,
            "--timeout=10",
            "invalid value \"10\" for flag -timeout: `10` is not a duration such as `15s` or `1m30s`",
            2,
        ),
        (Pflag, "--tiemout=1s", "unknown flag: --tiemout; did you mean --timeout?", 2),
        (Pflag, "-x", "unknown shorthand flag: 'x' in -x", 2),
        (Pflag, "-timeout=1s", "unknown shorthand flag: 't' in -timeout=1s; did you mean --timeout?", 2),
        (Pflag, "-v", "flag needs an argument: 'v' in -v", 2),
        (Cobra, "--nope", "unknown flag: --nope", 1),
        (Cobra, "--timeout", "flag needs an argument: --timeout", 1),
        (
            Cobra,
            "--leader-election false",
            "`sample` takes no arguments, got `false`; a boolean takes its value behind `=`, as in --flag=false",
            1,
        ),
        (
            Cobra,
            "--leader-election=maybe",
            "invalid argument \"maybe\" for \"--leader-election\" flag: `maybe` is not a boolean; use true or false",
            1,
        ),
        (Cobra, "--v=x", "invalid argument \"x\" for \"--v\" flag: invalid digit found in string", 1),
    ];
    for (syntax, line, message, code) in table {
        assert_eq!(refused(syntax, line), (message.to_owned(), code), "{syntax:?} {line}");
    }
}

#[test]
fn help_and_version_end_without_an_error() {
    for (syntax, line, to_stderr) in [
        (GoFlag, "-h", true),
        (GoFlag, "--help", true),
        (Pflag, "-h", true),
        (Cobra, "-hv5", false),
        (Cobra, "--timeout=1s --help", false),
    ] {
        let stop = run(syntax, line).map(|parsed| parsed.args).expect_err(line);
        assert_eq!((stop.code, stop.to_stderr), (0, to_stderr), "{syntax:?} {line}");
        assert!(stop.text.contains("--csi-address"), "{}", stop.text);
    }
    let stop = run(GoFlag, "-version").map(|parsed| parsed.args).expect_err("stops");
    assert_eq!(stop, Stop { text: "./sample v1.2.3\n".to_owned(), to_stderr: false, code: 0 });
    assert!(run(GoFlag, "--version=false").is_ok());
    assert!(
        run(GoFlag, "--version=raw").is_err_and(|stop| stop.code == 2),
        "the sidecars have no such value"
    );
    let silent = Program { version: None, ..sample(GoFlag) };
    let stop =
        parse::<Sample>(&silent, "sample", &words("--version")).map(|parsed| parsed.args).expect_err("stops");
    assert!(stop.text.starts_with("flag provided but not defined: -version"), "{}", stop.text);
}

/// As kubeadm reads it.
#[test]
fn kube_programs_print_the_version_of_kubernetes() {
    let program = Program { version: Some(Version::Kubernetes("v1.36.0+x")), ..sample(Cobra) };
    let printed = |line: &str| {
        let stop = parse::<Sample>(&program, "./sample", &words(line)).map(|parsed| parsed.args);
        let stop = stop.expect_err("stops");
        assert_eq!((stop.code, stop.to_stderr), (0, false), "{}", stop.text);
        stop.text
    };
    assert_eq!(printed("--version"), "Kubernetes v1.36.0+x\n");
    let raw = printed("--version=raw");
    assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"36\", "), "{raw}");
    assert!(raw.contains("GitVersion:\"v1.36.0+x\""), "{raw}");
    let wrong = parse::<Sample>(&program, "./sample", &words("--version=v1.2.3")).map(|parsed| parsed.args);
    assert_eq!(wrong.expect_err("refused").code, 1);
}
