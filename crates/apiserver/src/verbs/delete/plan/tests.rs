use serde_json::json;

use super::*;

const PLAIN: Character =
    Character { deletion: Deletion::Now, dependents: Dependents::Background, inhabited: false };

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn object(finalizers: &[&str]) -> Value {
    let mut object = json!({"metadata": {"name": "a", "generation": 1}});
    if !finalizers.is_empty() {
        object["metadata"]["finalizers"] = json!(finalizers);
    }
    object
}

/// Announced a minute ago with this much time from then.
fn announced(finalizers: &[&str], grace: i64) -> Value {
    let mut object = object(finalizers);
    let end = "2025-12-31T23:59:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(grace);
    object["metadata"]["deletionTimestamp"] = metadata::timestamp(end);
    object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    object
}

fn policy(propagation: Propagation) -> Options {
    Options { propagation: Some(propagation), ..Options::default() }
}

/// The finalizers of what is announced; `["-"]` if the object goes, `["="]` if nothing changes.
fn outcome(plan: &Plan) -> Vec<&str> {
    match plan {
        Plan::Remove => vec!["-"],
        Plan::Nothing => vec!["="],
        Plan::Announce(new) => metadata::finalizers(new),
    }
}

#[test]
fn policies() {
    use Propagation::*;
    let orphaning = Character { dependents: Dependents::Orphan, ..PLAIN };
    let childless = Character { dependents: Dependents::None, ..PLAIN };
    let none = Options::default;
    let cases = [
        (object(&[]), none(), PLAIN, vec!["-"]),
        (object(&[]), policy(Background), PLAIN, vec!["-"]),
        (object(&[]), policy(Foreground), PLAIN, vec!["foregroundDeletion"]),
        (object(&[]), policy(Orphan), PLAIN, vec!["orphan"]),
        (object(&["x/y"]), none(), PLAIN, vec!["x/y"]),
        (object(&["x/y"]), policy(Foreground), PLAIN, vec!["x/y", "foregroundDeletion"]),
        // What a finalizer asks for holds until somebody asks for something else.
        (object(&["orphan"]), none(), PLAIN, vec!["orphan"]),
        (object(&["orphan", "x/y"]), policy(Orphan), PLAIN, vec!["orphan", "x/y"]),
        (object(&["orphan"]), policy(Background), PLAIN, vec!["-"]),
        (announced(&["foregroundDeletion"], 0), none(), PLAIN, vec!["="]),
        (announced(&["foregroundDeletion"], 0), policy(Foreground), PLAIN, vec!["="]),
        (announced(&["foregroundDeletion"], 0), policy(Orphan), PLAIN, vec!["orphan"]),
        (announced(&["foregroundDeletion"], 0), policy(Background), PLAIN, vec!["-"]),
        (announced(&["orphan", "x/y"], 0), policy(Foreground), PLAIN, vec!["x/y", "foregroundDeletion"]),
        // The custom of the kind.
        (object(&[]), none(), orphaning, vec!["orphan"]),
        (object(&[]), policy(Background), orphaning, vec!["-"]),
        (object(&["foregroundDeletion"]), none(), orphaning, vec!["foregroundDeletion"]),
        (object(&[]), policy(Foreground), childless, vec!["-"]),
        (object(&["x/y"]), policy(Orphan), childless, vec!["x/y"]),
    ];
    for (old, options, kind, want) in cases {
        let plan = plan(&old, &options, kind, now());
        assert_eq!(outcome(&plan), want, "{old} {options:?} {kind:?}");
        if let Plan::Announce(new) = &plan {
            let first = !metadata::deleting(&old);
            assert_eq!(new["metadata"]["generation"], if first { 2 } else { 1 }, "{old}");
            assert_eq!(new["metadata"]["deletionGracePeriodSeconds"], 0);
        }
    }
}

#[test]
fn time() {
    let patient = Character { deletion: Deletion::Graceful(30), ..PLAIN };
    let wish = |seconds: i64| Options { grace_period_seconds: Some(seconds), ..Options::default() };
    let both = |seconds: i64, propagation| Options { propagation: Some(propagation), ..wish(seconds) };
    let end = |plan: Plan| match plan {
        Plan::Remove => ("-".to_owned(), -1, Vec::new()),
        Plan::Nothing => ("=".to_owned(), -1, Vec::new()),
        Plan::Announce(new) => (
            metadata::text(&new, "deletionTimestamp").to_owned(),
            new["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap(),
            metadata::finalizers(&new).into_iter().map(str::to_owned).collect(),
        ),
    };
    let held = vec!["foregroundDeletion".to_owned()];
    let cases = [
        (object(&[]), Options::default(), ("2026-01-01T00:00:30Z", 30, vec![])),
        (object(&[]), policy(Propagation::Foreground), ("2026-01-01T00:00:30Z", 30, held.clone())),
        (announced(&[], 60), Options::default(), ("=", -1, vec![])),
        (announced(&[], 60), wish(60), ("=", -1, vec![])),
        (announced(&[], 60), wish(90), ("=", -1, vec![])),
        (announced(&[], 60), wish(10), ("2025-12-31T23:59:10Z", 10, vec![])),
        (announced(&[], 60), wish(0), ("-", -1, vec![])),
        (announced(&["foregroundDeletion"], 60), wish(0), ("2025-12-31T23:59:00Z", 0, held.clone())),
        // A policy comes too late while the object is given time, unless it comes with less of it.
        (announced(&["foregroundDeletion"], 60), policy(Propagation::Background), ("=", -1, vec![])),
        (
            announced(&["foregroundDeletion"], 60),
            both(1, Propagation::Background),
            ("2025-12-31T23:59:01Z", 1, vec![]),
        ),
        (announced(&["foregroundDeletion"], 60), both(0, Propagation::Background), ("-", -1, vec![])),
        (announced(&["foregroundDeletion"], 0), policy(Propagation::Background), ("-", -1, vec![])),
    ];
    for (old, options, want) in cases {
        let found = end(plan(&old, &options, patient, now()));
        assert_eq!((found.0.as_str(), found.1, found.2), want, "{old} {options:?}");
    }
}

#[test]
fn a_namespace_ends_with_its_content() {
    let full = Character { inhabited: true, ..PLAIN };
    let Plan::Announce(new) = plan(&object(&[]), &policy(Propagation::Foreground), full, now()) else {
        panic!("an inhabited namespace is announced");
    };
    assert_eq!(metadata::finalizers(&new), ["foregroundDeletion"]);
    assert!(new["metadata"]["deletionGracePeriodSeconds"].is_null());
    for options in [Options::default(), policy(Propagation::Background), policy(Propagation::Orphan)] {
        assert_eq!(plan(&new, &options, full, now()), Plan::Nothing);
    }
}
