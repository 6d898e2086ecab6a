use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::auth::tests::server_with;
use crate::auth::{Holder, Identity, MASTERS, Mode, Settings};
use crate::http::body::Body;
use crate::http::path;
use crate::server::{Peer, Server};
use crate::testing::{CONFIGMAPS, PODS};

fn limits(settings: LimitSettings) -> Limits {
    Limits::new(settings, Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)))
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.into(), groups, ..User::default() }
}

/// 8 seats for the cluster, 8 for all others, of which one user gets 2.
fn sixteen() -> Limits {
    limits(LimitSettings { max_requests_inflight: 16, ..LimitSettings::default() })
}

#[test]
fn requests_by_what_they_are() {
    let table = [
        (Method::GET, "/api/v1/pods", "", Request::ReadOnly),
        (Method::HEAD, "/api/v1/pods", "", Request::ReadOnly),
        (Method::GET, "/version", "", Request::ReadOnly),
        (Method::GET, "/api/v1/pods", "watch=1", Request::LongRunning),
        (Method::GET, "/api/v1/pods", "watch=false", Request::ReadOnly),
        (Method::GET, "/api/v1/namespaces/a/pods/b", "watch=1", Request::ReadOnly),
        (Method::GET, "/api/v1/watch/pods", "", Request::LongRunning),
        (Method::GET, "/api/v1/namespaces/a/pods/b/log", "", Request::LongRunning),
        (Method::POST, "/api/v1/namespaces/a/pods/b/exec", "command=x", Request::LongRunning),
        (Method::POST, "/api/v1/namespaces/a/pods", "", Request::Mutating),
        (Method::DELETE, "/api/v1/namespaces/a/pods", "watch=1", Request::Mutating),
        (Method::GET, "/livez/ping", "", Request::Probe),
        (Method::GET, "/livezy", "", Request::ReadOnly),
    ];
    for (method, path, query, want) in table {
        let found = Request::of(&method, &path::parse(path), &Query::parse(query));
        assert_eq!(found, want, "{method} {path}?{query}");
    }
}

#[test]
fn users_by_what_they_are() {
    let table = [
        (user("admin", &["system:masters"]), "exempt exempt"),
        (user("system:node:n", &["system:nodes"]), "system system-nodes"),
        (user("system:kube-scheduler", &[]), "system kube-scheduler"),
        (user("system:kube-controller-manager", &[]), "system kube-controller-manager"),
        (User::service_account("kube-system", "a"), "system kube-system-service-accounts"),
        (User::service_account("default", "a"), "workload-low service-accounts"),
        (User::anonymous(), "workload-low global-default"),
        (user("system:node:n", &[]), "workload-low global-default"),
    ];
    for (user, want) in table {
        let level = Level::of(&user);
        assert_eq!(format!("{} {}", level.name(), level.flow_schema(&user)), want);
    }
}

#[test]
fn accounts_of_one_namespace_are_one_tenant() {
    let table = [
        (User::service_account("a", "one"), "system:serviceaccount:a"),
        (User::service_account("a", "two"), "system:serviceaccount:a"),
        (User::service_account("b", "one"), "system:serviceaccount:b"),
        (User::service_account("kube-system", "one"), "system:serviceaccount:kube-system:one"),
        (user("joe", &[]), "joe"),
        (user("system:serviceaccount:a:one", &[]), "system:serviceaccount:a:one"),
    ];
    for (user, want) in table {
        assert_eq!(Level::of(&user).tenant(&user), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_who_floods_the_server_waits_and_others_do_not() {
    let limits = sixteen();
    let (joe, ann, node) = (user("joe", &[]), user("ann", &[]), user("system:node:n", &["system:nodes"]));
    let enter = |user| limits.enter(user, Request::ReadOnly);
    let seats = [enter(&joe).await.unwrap(), enter(&joe).await.unwrap()];
    assert!(enter(&joe).now_or_never().is_none(), "a third one waits");
    assert!(limits.enter(&joe, Request::Mutating).now_or_never().is_some(), "writes are counted apart");
    let admin = user("admin", &["system:masters"]);
    for other in [&ann, &node, &admin] {
        assert!(enter(other).now_or_never().is_some_and(|seat| seat.is_ok()), "{}", other.name);
    }
    let refused = enter(&joe).await.err().unwrap();
    assert_eq!(refused, too_many_requests());
    let waiting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(seats);
    };
    let (served, ()) = tokio::join!(enter(&joe), waiting);
    drop(served.unwrap());
    assert_eq!(limits.reads.users(), 0, "users without requests are forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_the_cluster_needs_has_seats_of_its_own() {
    let limits = sixteen();
    let mut seats = Vec::new();
    for number in 0..4 {
        for _ in 0..2 {
            let user = user(&format!("u{number}"), &[]);
            seats.push(limits.enter(&user, Request::ReadOnly).await.unwrap());
        }
    }
    let late = user("late", &[]);
    assert!(limits.enter(&late, Request::ReadOnly).now_or_never().is_none(), "all are taken");
    let node = user("system:node:n", &["system:nodes"]);
    assert!(limits.enter(&node, Request::ReadOnly).now_or_never().is_some());
    seats.pop();
    assert!(limits.enter(&late, Request::ReadOnly).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_line_has_an_end() {
    let limits = sixteen();
    let joe = user("joe", &[]);
    let all: Vec<_> = (0..400).map(|_| limits.enter(&joe, Request::ReadOnly)).collect();
    let begun = tokio::time::Instant::now();
    let ended = futures::future::join_all(all.into_iter().map(|one| async move {
        let served = one.await;
        let at = begun.elapsed();
        // Those that are served stay until all have been told.
        (served, at)
    }))
    .await;
    let served = ended.iter().filter(|(served, _)| served.is_ok()).count();
    let at_once = ended.iter().filter(|(served, at)| served.is_err() && at.is_zero()).count();
    assert_eq!((served, at_once), (2, 98), "2 seats, 300 wait, the others are refused at once");
    assert!(begun.elapsed() < Duration::from_secs(16));
}

/// However many users there are: a namespace is free to have for who may create them.
#[tokio::test(start_paused = true)]
async fn all_lines_together_have_an_end() {
    let limits = sixteen();
    let users: Vec<User> = (0..40).map(|number| user(&format!("u{number}"), &[])).collect();
    let node = user("system:node:n", &["system:nodes"]);
    let flood = users.iter().flat_map(|user| (0..100).map(move |_| user));
    let mut waiting: Vec<_> = flood.map(|user| Box::pin(limits.enter(user, Request::ReadOnly))).collect();
    let (mut served, mut refused) = (Vec::new(), 0);
    waiting.retain_mut(|one| match one.now_or_never() {
        Some(Ok(seat)) => {
            served.push(seat);
            false
        }
        Some(Err(_)) => {
            refused += 1;
            false
        }
        None => true,
    });
    assert_eq!(
        (served.len(), waiting.len(), refused),
        (8, 3_200, 792),
        "8 seats, upstream's half of 6,400 wait"
    );
    let writes = limits.enter(&users[0], Request::Mutating).now_or_never();
    assert!(writes.is_some_and(|seat| seat.is_ok()), "writes are counted apart");
    assert!(limits.enter(&node, Request::ReadOnly).now_or_never().is_some_and(|seat| seat.is_ok()));
    // Who gives up makes room.
    drop(waiting.pop());
    let late = user("late", &[]);
    let mut one = Box::pin(limits.enter(&late, Request::ReadOnly));
    assert!((&mut one).now_or_never().is_none(), "it waits");
    assert!(limits.enter(&late, Request::ReadOnly).now_or_never().is_some_and(|answer| answer.is_err()));
    drop((served, waiting, one));
    assert_eq!(limits.reads.users(), 0);
}

/// Ten tenants who fill their lines do not keep an eleventh out.
#[tokio::test(start_paused = true)]
async fn full_lines_leave_room_for_a_late_user() {
    let limits = sixteen();
    let users: Vec<User> = (0..32).map(|number| user(&format!("u{number}"), &[])).collect();
    let flood = (0..300).flat_map(|_| &users);
    let mut waiting: Vec<_> = flood.map(|user| Box::pin(limits.enter(user, Request::ReadOnly))).collect();
    let mut served = Vec::new();
    waiting.retain_mut(|one| match one.now_or_never() {
        Some(answer) => {
            served.extend(answer.ok());
            false
        }
        None => true,
    });
    assert_eq!(served.len() + waiting.len(), 32 * (3_208 / 33));
    let late = user("late", &[]);
    assert!(limits.enter(&late, Request::ReadOnly).now_or_never().is_none(), "it waits");
}

#[test]
fn streams_and_connections_are_counted() {
    let settings = LimitSettings { max_long_running: 8, max_long_running_per_user: 4, ..Default::default() };
    let limits = limits(settings);
    let open = |name: &str, groups: &[&str]| {
        let user = user(name, groups);
        limits.enter(&user, Request::LongRunning).now_or_never().unwrap()
    };
    let mut joes: Vec<_> = (0..4).map(|_| open("joe", &[]).unwrap()).collect();
    assert!(open("joe", &[]).is_err());
    joes.pop();
    let _again = open("joe", &[]).unwrap();
    let _anns = [open("ann", &[]).unwrap(), open("ann", &[]).unwrap()];
    assert!(open("ann", &[]).is_err(), "the last quarter is not for users");
    assert!(open("system:node:n", &["system:nodes"]).is_ok());
}

fn addresses() -> [IpAddr; 2] {
    [Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST].map(Into::into)
}

#[test]
fn connections_of_known_clients_are_counted() {
    let connections = Arc::new(Connections::new(3, 2));
    let known = |address| {
        let seat = connections.take(address)?;
        assert!(seat.owner().is_known(&user("admin", &[MASTERS])));
        Some(seat)
    };
    let [one, other] = addresses();
    let first = known(one).unwrap();
    let _second = known(one).unwrap();
    assert!(known(one).is_none());
    let third = known(other).unwrap();
    assert!(known(other).is_none());
    drop(first);
    assert!(known(other).is_some());
    assert!(!third.evicted.is_cancelled(), "a known client never makes way");
}

/// A client without credentials cannot keep those out that have some.
#[test]
fn connections_of_unknown_clients_make_way() {
    let connections = Arc::new(Connections::new(8, 6));
    let [one, other] = addresses();
    let mut flood: Vec<_> = (0..4).map(|_| connections.take(one).unwrap()).collect();
    assert!(flood.iter().all(|seat| !seat.evicted.is_cancelled()), "their part is half of all");
    let known: Vec<_> = (0..4)
        .map(|_| {
            let seat = connections.take(other).unwrap();
            assert!(seat.owner().is_known(&user("admin", &[MASTERS])));
            flood.push(connections.take(one).unwrap());
            seat
        })
        .collect();
    assert!(known.iter().all(|seat| !seat.evicted.is_cancelled()));
    let open = flood.iter().filter(|seat| !seat.evicted.is_cancelled()).count();
    assert_eq!(open, 4, "the oldest ones have ended");
    assert!(flood[0].evicted.is_cancelled() && !flood[7].evicted.is_cancelled());
    drop((flood, known));
    assert!((0..4).all(|_| connections.take(one).is_some()), "each is counted once");

    // From the address of an attacker.
    let connections = Arc::new(Connections::new(100, 2));
    let flood = [connections.take(one).unwrap(), connections.take(one).unwrap()];
    let known = connections.take(one).unwrap();
    assert!(known.owner().is_known(&user("admin", &[MASTERS])));
    assert!(flood[0].evicted.is_cancelled() && !flood[1].evicted.is_cancelled());
    let _next = connections.take(one).unwrap();
    assert!(flood[1].evicted.is_cancelled() && !known.evicted.is_cancelled());
}

/// A pod has as many addresses as it likes, and no more connections than one user gets.
#[test]
fn a_user_cannot_take_all_connections() {
    let connections = Arc::new(Connections::new(64, 64));
    let address = |n: u8| IpAddr::from([127, 0, 0, n]);
    let open = |n: u8, user: &User| {
        let seat = connections.take(address(n)).unwrap();
        let known = seat.owner().is_known(user);
        (seat, known)
    };
    let users: Vec<_> = (0..7).map(|n| user(&format!("pod-{n}"), &[])).collect();
    let mut greedy: Vec<_> = (0..64).map(|n| open(n, &users[0])).collect();
    assert_eq!(greedy.iter().filter(|(_, known)| *known).count(), 8, "an eighth");
    let (last, known) = greedy.last().unwrap();
    assert!(!known && !last.owner().is_known(&users[0]), "asked again");
    let others: Vec<_> = users[1..].iter().flat_map(|user| (0..8).map(|n| open(n, user))).collect();
    let known = others.iter().filter(|(_, known)| *known).count();
    assert_eq!(known, 40, "workloads have three quarters");
    let node = user("system:node:n", &["system:nodes"]);
    let admin = user("admin", &[MASTERS]);
    let kept: Vec<_> = (0..16).map(|n| open(n, if n < 8 { &node } else { &admin })).collect();
    assert!(kept.iter().all(|(seat, known)| *known && !seat.evicted.is_cancelled()));
    assert!(connections.take(address(1)).is_none(), "all are known");

    greedy.retain(|(_, known)| !known);
    assert!(open(1, &users[6]).1, "what has ended no longer counts");
    drop((greedy, others, kept));
    assert_eq!((0..64).filter(|n| open(*n, &users[0]).1).count(), 64, "one at a time");
}

/// Pods share addresses with the kubelet.
#[test]
fn workloads_cannot_take_all_connections_of_an_address() {
    let connections = Arc::new(Connections::new(64, 8));
    let [one, _] = addresses();
    let open = |user: &User| {
        let seat = connections.take(one)?;
        seat.owner().is_known(user).then_some(seat)
    };
    let pods: Vec<_> =
        ["a", "b"].iter().flat_map(|name| (0..8).filter_map(|_| open(&user(name, &[])))).collect();
    assert_eq!(pods.len(), 6);
    assert!(open(&user("system:node:n", &["system:nodes"])).is_some());
}

#[test]
fn memory_is_given_back_when_half_of_many_connections_are_gone() {
    let connections = Arc::new(Connections::new(0, 0));
    let mut open: Vec<_> = (0..200).filter_map(|_| connections.take(Ipv4Addr::LOCALHOST.into())).collect();
    let at = |open: &mut Vec<ConnectionSeat>, left: usize| {
        open.truncate(left);
        connections.have_subsided()
    };
    let said: Vec<bool> = [150, 101, 100, 99, 51, 50, 40, 0].map(|left| at(&mut open, left)).to_vec();
    assert_eq!(said, [false, false, true, false, false, true, false, false]);
}

async fn ask(server: &Server, name: &str, method: Method, path: &str) -> (u16, HeaderMap, Body) {
    ask_over(server, None, name, method, path).await
}

/// The same over a connection that counts.
async fn ask_over(
    server: &Server,
    connection: Option<&ConnectionSeat>,
    name: &str,
    method: Method,
    path: &str,
) -> (u16, HeaderMap, Body) {
    let until = Timestamp::MAX;
    let holder = Holder { user: Arc::new(user(name, &[])), until };
    let identity = Identity::Certificate(Arc::new(holder));
    let peer = Peer { identity, address: None, closing: Default::default() };
    let mut request =
        http::Request::builder().method(method).uri(path).body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(peer);
    if let Some(connection) = connection {
        request.extensions_mut().insert(connection.owner());
    }
    let (head, body) = server.handle(request).await.into_parts();
    (head.status.as_u16(), head.headers, body)
}

/// As client-go expects it: a Status, and a header that says when to try again.
#[tokio::test]
async fn a_refusal_says_when_to_try_again() {
    let limits = LimitSettings { max_long_running_per_user: 1, ..LimitSettings::default() };
    let modes = vec![Mode::AlwaysAllow];
    let server = server_with(Settings { modes, limits, ..Settings::default() }).await;
    let watch = format!("{CONFIGMAPS}?watch=1");
    let (code, _, first) = ask(&server, "joe", Method::GET, &watch).await;
    assert_eq!(code, 200);
    for path in [watch.clone(), format!("{PODS}/x/log")] {
        let (code, headers, body) = ask(&server, "joe", Method::GET, &path).await;
        assert_eq!((code, headers["retry-after"].to_str().unwrap()), (429, "1"));
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(
            body,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
                "message": "Too many requests, please try again later.", "reason": "TooManyRequests",
                "details": {"retryAfterSeconds": 1}})
        );
    }
    assert_eq!(ask(&server, "ann", Method::GET, &watch).await.0, 200, "others are not concerned");
    assert_eq!(ask(&server, "joe", Method::GET, CONFIGMAPS).await.0, 200, "nor are other requests");
    let (_, _, page) = ask(&server, "ann", Method::GET, "/metrics").await;
    let page = String::from_utf8(page.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let line = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",priority_level=\"workload-low\",reason=\"concurrency-limit\"} 2";
    assert!(page.lines().any(|found| found == line), "{page}");
    drop(first);
    assert_eq!(ask(&server, "joe", Method::GET, &watch).await.0, 200, "its end makes room");
}

#[tokio::test]
async fn requests_over_a_connection_too_many_are_refused() {
    let limits = LimitSettings { max_connections: 8, ..LimitSettings::default() };
    let modes = vec![Mode::AlwaysAllow];
    let server = server_with(Settings { modes, limits, ..Settings::default() }).await;
    let seats = addresses().map(|address| server.limits().connections.take(address).unwrap());
    let get = |connection, name| ask_over(&server, Some(connection), name, Method::GET, CONFIGMAPS);
    assert_eq!(get(&seats[0], "joe").await.0, 200);
    let (code, headers, _) = get(&seats[1], "joe").await;
    assert_eq!((code, headers["retry-after"].to_str().unwrap()), (429, "1"), "an eighth of 8 is one");
    assert_eq!(get(&seats[1], "ann").await.0, 200, "others are not concerned");
    assert_eq!(get(&seats[0], "joe").await.0, 200, "nor is the connection that counts");
}
