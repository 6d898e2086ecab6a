//! Health of kube-* programs: the checks that upstream's have, and a program whose caches are not complete is not ready.

use std::path::Path;

use super::Setup;
use crate::support::https::page_with;
use crate::support::peers::peer;
use crate::support::ports::free_ports;
use crate::support::program::Program;

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");
const MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

/// A program of ours or of upstream's with a lease of its own, and where its pages are.
fn start(setup: &Setup, program: &str, ours: bool, kubeconfig: &Path) -> (Program, String) {
    let [port] = free_ports();
    let name = format!("{}-{program}", if ours { "our" } else { "their" });
    let words = [
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--leader-elect-resource-name={name}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    let controllers = "--controllers=persistentvolume-binder,attachdetach,pv-protection";
    let words = ours.then_some(program).into_iter().chain(words.iter().map(String::as_str));
    let words: Vec<&str> = words.chain((program == MANAGER).then_some(controllers)).collect();
    let binary = if ours { BINARY.into() } else { peer(program) };
    let running = Program::start(setup.dir.path(), &name, binary, &words);
    (running, format!("https://127.0.0.1:{port}"))
}

/// Upstream's controllers are listed in the order in which they happened to start.
fn sorted(page: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = page.lines().collect();
    lines.sort_unstable();
    lines
}

/// The page with all these checks, as soon as it has them: controllers are added one by one.
async fn page_of(server: &str, path: &str, checks: &[&str]) -> String {
    let mut page = String::new();
    for check in checks {
        page = page_with(server, path, &format!("[+]{check} ok")).await;
    }
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_programs_have_upstreams_checks() {
    let setup = Setup::new().await;
    let controllers = ["binder", "attach-detach", "protection"]
        .map(|controller| format!("persistentvolume-{controller}-controller"));
    let controllers = controllers.each_ref().map(String::as_str);
    let pages: [(&str, &[(&str, &[&str])]); 2] = [
        (MANAGER, &[("/healthz?verbose", &controllers)]),
        (
            SCHEDULER,
            &[
                ("/healthz?verbose", &["leaderElection"]),
                ("/livez?verbose", &["ping"]),
                ("/readyz?verbose", &["sched-handler-sync"]),
            ],
        ),
    ];
    for (program, pages) in pages {
        let [(mut ours, our_port), (_theirs, their_port)] =
            [true, false].map(|ours| start(&setup, program, ours, &setup.plane.kubeconfig()));
        for (path, checks) in pages {
            let (our_page, their_page) =
                (page_of(&our_port, path, checks).await, page_of(&their_port, path, checks).await);
            assert_eq!(sorted(&our_page), sorted(&their_page), "{program} {path}");
        }
        if program == MANAGER {
            page_of(&our_port, "/readyz?verbose", &["informer-sync"]).await;
        }
        assert!(ours.end().success(), "{program}");
    }
}

/// Without an API server there is nothing to fill them from; the program itself is healthy.
#[tokio::test(flavor = "multi_thread")]
async fn programs_are_not_ready_before_their_caches_are_complete() {
    let setup = Setup::new().await;
    let text = std::fs::read_to_string(setup.plane.kubeconfig()).expect("a kubeconfig");
    let [nowhere] = free_ports();
    let at = text.find("https://").expect("an address");
    let address: String = text[at..].chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
    let kubeconfig = setup.dir.path().join("nowhere");
    std::fs::write(&kubeconfig, text.replace(&address, &format!("https://127.0.0.1:{nowhere}")))
        .expect("written");
    let (mut scheduler, ours) = start(&setup, SCHEDULER, true, &kubeconfig);
    let (_theirs, theirs) = start(&setup, SCHEDULER, false, &kubeconfig);
    let (mut manager, controllers) = start(&setup, MANAGER, true, &kubeconfig);
    let failed = "[-]sched-handler-sync failed: reason withheld";
    let (our_page, their_page) =
        (page_with(&ours, "/readyz", failed).await, page_with(&theirs, "/readyz", failed).await);
    assert_eq!(our_page, their_page);
    page_with(&controllers, "/readyz", "[-]informer-sync failed: reason withheld").await;
    for server in [&ours, &controllers] {
        page_with(server, "/healthz?verbose", "[+]leaderElection ok\nhealthz check passed").await;
    }
    for program in [&mut scheduler, &mut manager] {
        assert!(program.end().success(), "{}", program.name);
    }
}
