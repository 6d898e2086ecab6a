//! Arguments that programs share.

use std::time::Duration;

use super::*;
use crate::serve::Kept;

const ATTACHER: Program = Program {
    name: "csi-attacher",
    about: "",
    syntax: Syntax::GoFlag,
    upstream: &[files::LOGGING, files::SIDECAR, files::CSI_ATTACHER],
    defaults: &[("timeout", "7s")],
    version: Some(Version::Own("v0")),
};

const SCHEDULER: Program = Program {
    name: "kube-scheduler",
    about: "",
    syntax: Syntax::Cobra,
    upstream: &[files::LOGGING, files::KUBE, files::KUBE_SCHEDULER],
    defaults: &[("secure-port", "10259"), ("leader-elect-resource-name", "kube-scheduler")],
    version: Some(Version::Own("v0")),
};

fn sidecar(line: &str) -> SidecarArgs {
    parse(&ATTACHER, "csi-attacher", &words(line)).expect(line).args
}

fn kube(line: &str) -> KubeArgs {
    parse(&SCHEDULER, "kube-scheduler", &words(line)).expect(line).args
}

#[test]
fn defaults_are_upstreams() {
    let args = sidecar("");
    assert_eq!(args.timeout, Duration::from_secs(7), "the program's own default");
    assert_eq!(args.csi_address.to_str(), Some("/run/csi/socket"));
    assert_eq!(args.endpoint.metrics_path, "/metrics");
    assert_eq!(args.election.leader_election(), Ok(None));
    let args = kube("");
    assert_eq!(args.serving.address().map(|address| address.to_string()).as_deref(), Some("0.0.0.0:10259"));
    assert_eq!(args.serving.authorization_always_allow_paths, ["/healthz", "/readyz", "/livez"]);
    let election = args.election.leader_election().expect("valid").expect("on by default");
    assert_eq!(
        (election.lease_duration, election.retry_period),
        (Duration::from_secs(15), Duration::from_secs(2))
    );
    assert_eq!(kube("--leader-elect=false --secure-port=0").serving.address(), None);
}

#[test]
fn timings_of_leader_election_must_fit() {
    let timings = |lease: &str, renew: &str, retry: &str| {
        let line = format!(
            "--leader-election --leader-election-lease-duration={lease} --leader-election-renew-deadline={renew} \
             --leader-election-retry-period={retry}"
        );
        sidecar(&line).validate(&[])
    };
    assert_eq!(timings("15s", "10s", "5s"), Ok(()));
    assert!(timings("10s", "10s", "5s").is_err(), "the lease must outlast the deadline");
    assert!(timings("15s", "6s", "5s").is_err(), "6s is no more than 1.2 times 5s");
    assert_eq!(timings("15s", "6100ms", "5s"), Ok(()));
    assert!(timings("15s", "10s", "0").is_err());
    // Without leader election they do not matter.
    assert_eq!(sidecar("--leader-election-lease-duration=1s").validate(&[]), Ok(()));
    assert!(kube("--leader-elect-lease-duration=5s").validate().is_err());
    assert!(kube("--leader-elect-resource-name=").validate().is_err());
}

#[test]
fn labels_of_the_lease() {
    let args = sidecar("--leader-election --leader-election-labels=a:b,c:d");
    let election = args.election.leader_election().expect("valid").expect("on");
    assert_eq!(election.labels, [("a".into(), "b".into()), ("c".into(), "d".into())].into());
    let wrong = parse::<SidecarArgs>(&ATTACHER, "a", &words("--leader-election-labels=a=b"));
    assert!(
        wrong.is_err_and(|stop| stop
            .text
            .starts_with("invalid value \"a=b\" for flag -leader-election-labels"))
    );
}

#[test]
fn the_namespace_of_the_lease() {
    assert_eq!(lease_namespace(Some("a"), Some("b"), Some("c")), "a");
    assert_eq!(lease_namespace(None, Some("b"), Some("c")), "b");
    assert_eq!(lease_namespace(None, Some(""), Some("c\n")), "c");
    assert_eq!(lease_namespace(None, None, None), "default");
}

#[test]
fn one_endpoint_at_most() {
    assert!(sidecar("--http-endpoint=:8080 --metrics-address=:8081").validate(&[]).is_err());
    let args = sidecar("--metrics-address=:8081 --http-endpoint=");
    assert_eq!(args.endpoint.address(), Ok(Some(":8081")));
    assert!(!args.endpoint.serves_health());
    assert!(sidecar("--http-endpoint=:8080").endpoint.serves_health());
    assert!(sidecar("--metrics-path=metrics").validate(&[]).is_err());
}

#[test]
fn a_certificate_needs_its_key() {
    assert!(kube("--tls-cert-file=/a").validate().is_err());
    assert!(kube("--master=https://x").validate().is_err(), "it has no effect here, so it is refused");
    assert!(kube("--tls-private-key-file=/a").validate().is_err());
    assert_eq!(kube("--tls-private-key-file=/a --tls-cert-file=/b").validate(), Ok(()));
}

#[test]
fn reviews_have_upstreams_flags_and_times() {
    let args = kube("--authentication-kubeconfig=/a --authorization-kubeconfig=/b");
    assert_eq!(args.validate(), Ok(()));
    let ten = Duration::from_secs(10);
    assert_eq!(args.serving.kept(), Kept { tokens: ten, allowed: ten, denied: ten });
    let args = kube("--authorization-webhook-cache-unauthorized-ttl=1m");
    assert_eq!(args.serving.kept().denied, Duration::from_secs(60));
}

#[test]
fn verbosity_is_a_filter() {
    assert_eq!(sidecar("-v=1").logging.filter(), "info");
    assert_eq!(sidecar("-v=4").logging.filter(), "info,bowline_roles=debug");
    assert!(sidecar("-v=5").logging.filter().contains("csi=debug"));
    assert_eq!(sidecar("--logging-format=json").logging.logging_format, Format::Json);
    assert!(parse::<SidecarArgs>(&ATTACHER, "a", &words("--logging-format=xml")).is_err());
}

#[test]
fn shared_arguments_are_upstreams_flags() {
    let shared = mismatches(&command::<SidecarArgs>(&ATTACHER), ATTACHER.upstream, &[]).expect("lists");
    assert!(shared.iter().all(|line| line.contains("is not declared")), "{shared:?}");
    assert_eq!(mismatches(&command::<KubeArgs>(&SCHEDULER), SCHEDULER.upstream, &[]), Ok(vec![]));
    let extra = mismatches(&command::<Sample>(&sample(Syntax::Pflag)), &[LIST, "x bool here"], &["v"]);
    let extra = extra.expect("lists");
    assert!(
        extra.contains(&"--immediate is declared here and not in upstream's list".to_owned()),
        "{extra:?}"
    );
    assert!(extra.contains(&"--x has class `here` and is not declared".to_owned()), "{extra:?}");
    assert!(!extra.iter().any(|line| line.contains("--v ")), "{extra:?}");
}
