use std::sync::Mutex;

use bowline_api::{ConfigMap, ObjectKey, Secret};
use http::request::Parts;
use serde_json::{Value, json};

use super::*;
use crate::cache::Cache;
use crate::client::Client;
use crate::effect::{Effects, Part};
use crate::fake_api::{self, Answer, Seen, json_answer, status, status_object, stream};
use crate::informers::Informers;
use crate::watched::{Found, Watched};

/// Longer than any pause of the code under test; on paused time it costs nothing.
const BOUND: Duration = Duration::from_secs(3600);

fn map(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name, "resourceVersion": version.to_string()}})
}

fn list(version: u64, items: &[Value]) -> Answer {
    page(version, items, "")
}

fn page(version: u64, items: &[Value], token: &str) -> Answer {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    json_answer(
        200,
        &json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items}),
    )
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(version: u64) -> Value {
    event(
        "BOOKMARK",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": version.to_string()}}),
    )
}

fn is_watch(parts: &Parts) -> bool {
    parts.uri.query().unwrap_or_default().contains("watch=true")
}

/// Answers in turn; the last one is followed by silence.
fn script(answers: Vec<Answer>) -> (Client, Seen) {
    let answers = Mutex::new(answers.into_iter());
    fake_api::client(move |_, _| answers.lock().unwrap().next())
}

fn informers(client: Client, seed: u64) -> Informers {
    Informers::new(client, bowline_host::fake::host(seed).0.random, CancellationToken::new())
}

/// Queries without the parts that vary.
fn queries(seen: &Seen) -> Vec<String> {
    let query = |line: &String| {
        let query = line.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let fixed = query.split('&').filter(|pair| !pair.starts_with("timeoutSeconds="));
        fixed.collect::<Vec<_>>().join("&")
    };
    seen.lock().unwrap().iter().map(query).collect()
}

async fn has(cache: &Cache<ConfigMap>, names: &[&str]) {
    let same = |cache: &Cache<ConfigMap>| {
        let list = cache.list();
        let found: Vec<&str> = list.iter().map(|object| object.name()).collect();
        (found == names).then_some(())
    };
    tokio::time::timeout(BOUND, cache.until(same)).await.unwrap_or_else(|_| panic!("never {names:?}"));
}

/// Virtual time passes while the reflector works; waits until it has sent this many requests.
async fn requests(seen: &Seen, count: usize) {
    let sent = || seen.lock().unwrap().len() >= count;
    let wait = async {
        while !sent() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(BOUND, wait).await.unwrap_or_else(|_| panic!("{:?}", seen.lock().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_relist_asks_for_nothing_older_than_what_was_seen() {
    let (events, watch) = stream();
    let (client, seen) =
        script(vec![list(5, &[map("a", 5)]), watch, list(12, &[map("a", 5), map("b", 9), map("c", 12)])]);
    let informers = informers(client, 1);
    informers.stand_by();
    let cache = informers.of::<ConfigMap>();
    events.send(event("ADDED", map("b", 9))).unwrap();
    events.send(bookmark(11)).unwrap();
    has(&cache, &["a", "b"]).await;
    events.send(event("ERROR", status_object(410, "Expired", "too old resource version"))).unwrap();
    has(&cache, &["a", "b", "c"]).await;
    requests(&seen, 4).await;
    assert_eq!(
        queries(&seen),
        [
            "limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan",
            "watch=true&allowWatchBookmarks=true&resourceVersion=5",
            "resourceVersion=11&resourceVersionMatch=NotOlderThan",
            "watch=true&allowWatchBookmarks=true&resourceVersion=12",
        ]
    );
}

/// The server behind an address changed to one that lags (B2): nothing is removed, and it is asked again.
#[tokio::test(start_paused = true)]
async fn a_lagging_server_removes_nothing() {
    let too_large = || status(504, "Timeout", "Timeout: Too large resource version: 9, current: 5");
    let (events, watch) = stream();
    let answers = vec![
        list(5, &[map("a", 5)]),
        watch,
        too_large(),
        // It even answers the question for the latest from its copy.
        list(5, &[map("a", 5)]),
        list(5, &[map("a", 5)]),
        list(10, &[map("b", 9), map("c", 10)]),
    ];
    let (client, seen) = script(answers);
    let cache = informers(client, 1).of::<ConfigMap>();
    events.send(event("ADDED", map("b", 9))).unwrap();
    events.send(event("DELETED", map("a", 9))).unwrap();
    has(&cache, &["b"]).await;
    let removed = Arc::new(Mutex::new(Vec::new()));
    let log = removed.clone();
    cache.on_change(move |change| {
        let gone = change.old.iter().filter(|_| change.new.is_none());
        log.lock().unwrap().extend(gone.map(|object| object.name().to_owned()));
    });
    events.send(event("ERROR", status_object(410, "Expired", "too old resource version"))).unwrap();
    has(&cache, &["b", "c"]).await;
    assert_eq!(*removed.lock().unwrap(), Vec::<String>::new());
    let asked = "resourceVersion=9&resourceVersionMatch=NotOlderThan";
    assert_eq!(queries(&seen)[2..6], [asked, "limit=500", "limit=500", "limit=500"]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_read_to_the_end_and_all_at_once_when_they_expire() {
    let expired = || status(410, "Expired", "The provided continue parameter is too old");
    let answers = vec![
        page(5, &[map("a", 1)], "one"),
        page(5, &[map("b", 2)], "two"),
        expired(),
        list(7, &[map("a", 1), map("b", 2), map("c", 7)]),
    ];
    let (client, seen) = script(answers);
    has(&informers(client, 1).of::<ConfigMap>(), &["a", "b", "c"]).await;
    requests(&seen, 5).await;
    assert_eq!(
        queries(&seen),
        [
            "limit=500",
            "limit=500&continue=one",
            "limit=500&continue=two",
            "",
            "watch=true&allowWatchBookmarks=true&resourceVersion=7",
        ]
    );
}

/// An index of a role panics at an object; the cache goes on when the object is mended.
#[tokio::test(start_paused = true)]
async fn a_panic_while_a_change_is_taken_in_costs_a_list() {
    let (events, watch) = stream();
    let mended = list(12, &[map("a", 5), map("b", 12)]);
    let (client, seen) = script(vec![list(5, &[map("a", 5)]), watch, mended]);
    let cache = informers(client, 1).of::<ConfigMap>();
    cache.index("odd", |object| match object.version() {
        9 => panic!("an object that the index does not expect"),
        _ => Vec::new(),
    });
    has(&cache, &["a"]).await;
    events.send(event("ADDED", map("b", 9))).unwrap();
    tokio::time::timeout(
        BOUND,
        cache.until(|cache| (cache.get(&ObjectKey::new("default", "b"))?.version() == 12).then_some(())),
    )
    .await
    .expect("listed again");
    assert_eq!(queries(&seen)[2], "resourceVersion=9&resourceVersionMatch=NotOlderThan");
}

/// When requests came, in milliseconds from the start.
async fn failing_watch(seed: u64) -> Vec<u128> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let (log, start) = (times.clone(), Instant::now());
    let (client, seen) = fake_api::client(move |_, _| {
        log.lock().unwrap().push(start.elapsed().as_millis());
        Some(status(500, "InternalError", "etcdserver: no leader"))
    });
    let _cache = informers(client, seed).of::<ConfigMap>();
    requests(&seen, 8).await;
    times.lock().unwrap().clone()
}

/// B20: a fixed half second made every watch of every process return at the same moment.
#[tokio::test(start_paused = true)]
async fn failing_watches_back_off_and_spread_and_repeat_from_a_seed() {
    let one = failing_watch(1).await;
    let gaps: Vec<u128> = one.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] >= 800 && gaps[0] <= 1600, "{gaps:?}");
    assert!(gaps[6] >= 15_000 && gaps[6] <= 30_000, "{gaps:?}");
    assert_ne!(one, failing_watch(2).await, "two machines do not come back at once");
    assert_eq!(one, failing_watch(1).await, "a simulation repeats");
}

/// The connection is open but nothing comes, not even the end of the watch: it is left, and goes on where it was.
#[tokio::test(start_paused = true)]
async fn a_watch_that_never_ends_is_left_and_resumed() {
    let (_silent, watch) = stream();
    let (events, second) = stream();
    let (client, seen) = script(vec![list(5, &[]), watch, second]);
    let cache = informers(client, 1).of::<ConfigMap>();
    let start = Instant::now();
    requests(&seen, 3).await;
    let lasted = start.elapsed();
    assert!(lasted >= WATCH_MIN && lasted <= WATCH_MIN * 2 + WATCH_GRACE * 2, "{lasted:?}");
    events.send(event("ADDED", map("a", 6))).unwrap();
    has(&cache, &["a"]).await;
    assert_eq!(queries(&seen)[2], "watch=true&allowWatchBookmarks=true&resourceVersion=5", "no second list");
}

#[tokio::test(start_paused = true)]
async fn a_restricted_kind_is_watched_with_its_selector_and_namespace() {
    let (client, seen) = fake_api::client(|parts, _| (!is_watch(parts)).then(|| list(5, &[])));
    let informers = informers(client, 1);
    let scope = Scope { namespace: Some("kube-system".into()), ..Scope::fields("metadata.name=root") };
    informers.restrict::<ConfigMap>(scope.clone()).unwrap();
    informers.of::<ConfigMap>().synced().await;
    requests(&seen, 2).await;
    let selector = "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Droot&";
    assert!(seen.lock().unwrap().iter().all(|line| line.contains(selector)), "{seen:?}");
    assert!(informers.restrict::<ConfigMap>(Scope::default()).is_err(), "its watch runs already");
    informers.restrict::<ConfigMap>(scope).unwrap();
}

/// A watch costs rights and memory: a role that only writes a kind needs neither.
#[tokio::test(start_paused = true)]
async fn a_write_starts_no_watch() {
    let (client, seen) = fake_api::client(|parts, body| match parts.method.as_str() {
        "DELETE" => Some(json_answer(200, &map("a", 7))),
        _ if is_watch(parts) => None,
        _ if body.is_null() => Some(list(5, &[])),
        _ => Some(json_answer(200, body)),
    });
    let informers = informers(client.clone(), 1);
    let host = bowline_host::fake::host(1).0;
    let effects = Effects::new("test", client, host, crate::Journal::default(), informers.clone());
    let object: ConfigMap = serde_json::from_value(map("a", 6)).unwrap();
    effects.create(&object).await.unwrap();
    effects.patch(Part::Main, &object, json!({"data": {}})).await.unwrap();
    effects.delete(&object, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(seen.lock().unwrap().len(), 3, "{seen:?}");
    assert!(informers.known::<ConfigMap>().is_none());
    let cache = informers.of::<ConfigMap>();
    cache.synced().await;
    effects.create(&object).await.unwrap();
    assert!(cache.get(&object.key()).is_some(), "a kind that is read has its writes noted");
}

#[tokio::test(start_paused = true)]
async fn a_single_object_is_not_set_back_by_a_lagging_list() {
    let secret = |version: u64| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "name": "key", "resourceVersion": version.to_string()}});
    let (events, watch) = stream();
    let (client, seen) = script(vec![list(5, &[]), watch, list(4, &[]), list(9, &[secret(9)])]);
    let watched =
        Watched::<Secret>::new(client, bowline_host::fake::host(1).0.random, CancellationToken::new());
    let key = ObjectKey::new("default", "key");
    let history = Arc::new(Mutex::new(Vec::new()));
    let (log, look, of) = (history.clone(), watched.clone(), key.clone());
    watched.on_change(move |_| {
        let found = look.get(&of);
        let version = if let Found::Present(object) = &found { object.version() } else { 0 };
        log.lock().unwrap().push(version);
    });
    watched.follow("pod", &[key].into());
    events.send(event("ADDED", secret(7))).unwrap();
    events.send(event("ERROR", status_object(410, "Expired", "too old resource version"))).unwrap();
    requests(&seen, 5).await;
    assert_eq!(*history.lock().unwrap(), [0, 7, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_again_is_told_of_once() {
    let down = || status(500, "InternalError", "etcdserver: no leader");
    let (events, watch) = stream();
    let (_silent, second) = stream();
    let answers = vec![list(5, &[]), watch, down(), down(), second];
    let (client, seen) = script(answers);
    let informers = informers(client, 1);
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    informers.on_recovery(move || {
        *count.lock().unwrap() += 1;
        true
    });
    let _cache = informers.of::<ConfigMap>();
    requests(&seen, 2).await;
    assert_eq!(*told.lock().unwrap(), 0, "nothing had failed");
    drop(events);
    requests(&seen, 4).await;
    assert_eq!(*told.lock().unwrap(), 0, "it fails");
    requests(&seen, 5).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*told.lock().unwrap(), 1);
}
