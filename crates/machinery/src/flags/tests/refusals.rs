//! Upstream's flags that a program does not have, and feature gates.

use super::*;

#[test]
fn tuning_flags_are_one_warning() {
    let line = "--worker-threads=10 --kube-api-qps 5.5 --automaxprocs --worker-threads=20 --timeout=1s";
    let parsed = run(Syntax::GoFlag, line).expect("parses");
    let expected =
        "accepted without effect in this program: --kube-api-qps, --automaxprocs, --worker-threads";
    assert_eq!(parsed.warning.as_deref(), Some(expected));
    assert_eq!(run(Syntax::GoFlag, "--timeout=1s --enable-pprof=false").expect("parses").warning, None);
}

#[test]
fn values_without_effect_are_still_checked() {
    let (message, code) = refused(Syntax::Pflag, "--worker-threads=many");
    assert_eq!(code, 2);
    assert_eq!(
        message,
        "invalid argument \"many\" for \"--worker-threads\" flag: `many` is not a whole number"
    );
}

#[test]
fn unsupported_flags_are_refused_with_a_reason() {
    let (message, _) = refused(Syntax::Cobra, "--config=/etc/x.yaml");
    assert_eq!(message, "--config is not supported: set the options as flags");
    let (message, _) = refused(Syntax::Cobra, "--enable-pprof");
    let expected = "--enable-pprof=true is not supported, only --enable-pprof=false: there is no Go profiler";
    assert_eq!(message, expected);
}

#[test]
fn values_are_compared_by_what_they_mean() {
    for line in ["--reconcile=1m", "--reconcile=1m0s", "--reconcile=60s", "--threads=00", "--enable-pprof=F"]
    {
        let parsed = run(Syntax::GoFlag, line).map(|parsed| parsed.warning);
        assert_eq!(parsed, Ok(None), "{line}");
    }
    let (message, _) = refused(Syntax::GoFlag, "--reconcile=61s");
    assert_eq!(message, "--reconcile=61s is not supported, only --reconcile=1m: attachments are watched");
}

#[test]
fn feature_gates() {
    let known =
        Gates::known(&["# list\nAlpha false fixed\nBeta true fixed\nChoice false switch\n"]).expect("a list");
    let parse =
        |given: &[&str]| Gates::parse(&known, &given.iter().map(ToString::to_string).collect::<Vec<_>>());
    let gates = parse(&["Alpha=false,Beta=true", "kube:Choice=false", "Choice=T, "]).expect("gates");
    assert_eq!(
        ["Alpha", "Beta", "Choice", "Other"].map(|name| gates.enabled(name)),
        [false, true, true, false]
    );
    let table = [
        ("Nope=true", "unrecognized feature gate: Nope"),
        ("Chioce=true", "unrecognized feature gate: Chioce; did you mean Choice?"),
        ("Alpha", "missing bool value for `Alpha`"),
        ("Alpha=x", "invalid value of Alpha=x: `x` is not a boolean; use true or false"),
        ("Alpha=true", "feature gate Alpha cannot be switched on: this program only has its default, false"),
        ("Beta=false", "feature gate Beta cannot be switched off: this program only has its default, true"),
    ];
    for (given, message) in table {
        assert_eq!(parse(&[given]), Err(message.to_owned()), "{given}");
    }
}
