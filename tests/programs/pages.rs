//! What monitoring reads: metrics and health of each program have the names that upstream's program has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;

use super::Setup;
use crate::support::https::{get, page_with};
use crate::support::peers::peer;
use crate::support::ports::free_ports;
use crate::support::program::Program;

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");
const LEADS: &str = "leader_election_master_status{";

/// Families of a page of metrics: the type of each, and the names of its labels.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// What upstream's page has only from the first time on, and ours always: rates of a counter need its zero.
const LATER: &str =
    "# TYPE leader_election_slowpath_total counter\nleader_election_slowpath_total{name=\"x\"} 0\n";

fn families(page: &str) -> Families {
    let typed = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut found: BTreeMap<_, _> =
        typed.map(|(name, kind)| (name.to_owned(), (kind.to_owned(), BTreeSet::new()))).collect();
    for (sample, labels) in page.lines().filter_map(|line| line.split_once('{')) {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| sample.strip_suffix(part));
        let family = family.filter(|name| found.contains_key(*name)).unwrap_or(sample);
        let names = labels.split("=\"").filter_map(|text| text.rsplit([',', '"']).next());
        // The text behind the last value is no name.
        let names: Vec<&str> = names.collect();
        if let Some((_, all)) = found.get_mut(family) {
            all.extend(names[..names.len().saturating_sub(1)].iter().map(ToString::to_string));
        }
    }
    found
}

/// Every family of ours is one of upstream's, of the same type and with the same labels.
fn compare(program: &str, ours: &str, theirs: &str) {
    let (ours, theirs, later) = (families(ours), families(theirs), families(LATER));
    let differs = |name: &&String| ours.get(*name) != theirs.get(*name).or_else(|| later.get(*name));
    let different: Vec<_> =
        ours.keys().filter(differs).map(|name| (name, ours.get(name), theirs.get(name))).collect();
    assert!(different.is_empty(), "{program}: {different:#?}");
    for name in ["process_start_time_seconds", "leader_election_master_status", "workqueue_depth"] {
        assert!(ours.contains_key(name), "{program}: {name} is missing in {:?}", ours.keys());
    }
}

#[test]
fn families_are_read_with_their_labels() {
    let page =
        "# TYPE a histogram\na_bucket{x=\"1,2\",le=\"+Inf\"} 1\na_sum{x=\"1,2\"} 1\n# TYPE b gauge\nb 2\n";
    let labels = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let expected = [
        ("a".to_owned(), ("histogram".to_owned(), labels(&["le", "x"]))),
        ("b".to_owned(), ("gauge".to_owned(), labels(&[]))),
    ];
    assert_eq!(families(page), expected.into());
}

/// Ours and upstream's beside it, each with a lease of its own.
#[tokio::test(flavor = "multi_thread")]
async fn kube_programs_have_upstreams_pages() {
    let setup = Setup::new().await;
    let controllers = "--controllers=persistentvolume-binder,attachdetach,pv-protection";
    // Upstream's scheduler does not say which lease.
    for (program, their_name, controllers) in [
        ("kube-controller-manager", "their-kube-controller-manager", Some(controllers)),
        ("kube-scheduler", "kube-scheduler", None),
    ] {
        let start = |name: &str, binary: &Path, subcommand: Option<&str>| {
            let [port] = free_ports();
            let (kubeconfig, lease) = (setup.kubeconfig(), format!("--leader-elect-resource-name={name}"));
            let secure = format!("--secure-port={port}");
            let open = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics";
            let words = [&kubeconfig, &lease, &secure, "--bind-address=127.0.0.1", open].map(Some);
            let words = [subcommand].into_iter().chain(words).chain([controllers]).flatten();
            let words: Vec<&str> = words.collect();
            let running = Program::start(setup.dir.path(), name, binary, &words);
            (running, format!("https://127.0.0.1:{port}"))
        };
        let (mut ours, our_port) = start(&format!("our-{program}"), Path::new(BINARY), Some(program));
        let (_theirs, their_port) = start(&format!("their-{program}"), &peer(program), None);
        let [our_page, their_page] = [
            page_with(&our_port, "/metrics", &format!("{LEADS}name=\"our-{program}\"}} 1")).await,
            page_with(&their_port, "/metrics", &format!("{LEADS}name=\"{their_name}\"}} 1")).await,
        ];
        compare(program, &our_page, &their_page);
        for path in ["/healthz", "/livez", "/readyz"] {
            let nothing = json!({});
            let (ours, theirs) =
                (get(&our_port, &nothing, path).await, get(&their_port, &nothing, path).await);
            assert_eq!(ours, (Some(200), "ok".to_owned()), "{program} {path}");
            // Upstream's kube-controller-manager has only the first of them.
            assert!(
                ours == theirs || theirs.0 == Some(404) && path != "/healthz",
                "{program} {path}: {theirs:?}"
            );
        }
        assert!(ours.end().success(), "{program}");
    }
}

/// Upstream's attacher cannot be built here; it has the library of the provisioner, and its pages.
#[tokio::test(flavor = "multi_thread")]
async fn sidecars_have_upstreams_pages() {
    let setup = Setup::new().await;
    let mut driver = setup.driver();
    let start = |name: &str, binary: &Path, subcommand: Option<&str>, namespace: &str| {
        let [port] = free_ports();
        let (kubeconfig, endpoint) = (setup.kubeconfig(), format!("--http-endpoint=127.0.0.1:{port}"));
        let address = format!("--csi-address={}", setup.socket().display());
        let namespace = format!("--leader-election-namespace={namespace}");
        let words = [&kubeconfig, &endpoint, &address, "--leader-election", &namespace].map(Some);
        let words: Vec<&str> = [subcommand].into_iter().chain(words).flatten().collect();
        (Program::start(setup.dir.path(), name, binary, &words), format!("http://127.0.0.1:{port}"))
    };
    let (_theirs, theirs) = start("theirs", &peer("csi-provisioner"), None, "default");
    let leads = |lease: &str| format!("{LEADS}name=\"{lease}\"}} 1");
    // This version does not say which lease.
    let their_page = page_with(&theirs, "/metrics", &leads("")).await;
    for (program, lease) in [
        ("csi-provisioner", "local-csi-bowline-dev"),
        ("csi-attacher", "external-attacher-leader-local-csi-bowline-dev"),
    ] {
        let (mut running, ours) = start(program, Path::new(BINARY), Some(program), super::NAMESPACE);
        let our_page = page_with(&ours, "/metrics", &leads(lease)).await;
        compare(program, &our_page, &their_page);
        assert!(families(&our_page).contains_key("csi_sidecar_operations_seconds"), "{our_page}");
        let health = "/healthz/leader-election";
        let (mut answers, nothing) = (Vec::new(), json!({}));
        for server in [&ours, &theirs] {
            answers.push(get(server, &nothing, health).await);
        }
        assert_eq!(answers[0], answers[1], "{program}");
        assert_eq!(answers[0].0, Some(200), "{program}");
        assert!(running.end().success(), "{program}");
    }
    driver.end();
}
