//! Decisions about one volume, what goes into it, and files that change as a whole.

mod payload;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::Pod;
use k8s_openapi::api::core::v1::Volume;
use serde_json::{Value, json};

use super::decide::decide;
use super::model::{Action, Observed, Presence, State, Step, Want, Why};
use super::payload::{File, Files, Payload};
use super::plan::{Medium, Plugin, TokenSource, of_pod, plan, problem};
use super::tokens::Token;
use crate::kubelet::Reported;

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn volume(source: Value) -> Volume {
    let mut volume = json!({"name": "v"});
    volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    serde_json::from_value(volume).unwrap()
}

fn token_volume() -> Volume {
    volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}))
}

fn files(content: &str) -> Arc<Payload> {
    let file = File { content: content.as_bytes().to_vec(), mode: 0o644 };
    Arc::new([("token".to_owned(), file)].into())
}

fn token(text: &str, renew_at: u64) -> Token {
    Token { text: text.into(), renew_at: at(renew_at), expires: at(renew_at + 500) }
}

/// A token volume that is all there.
fn seen() -> Observed {
    let plan = plan(&token_volume()).unwrap();
    let state = State {
        plugin: Plugin::Projected,
        directory: Presence::Present,
        mount: Presence::Present,
        written: Some(files("a")),
        group: None,
        tokens: [("token".to_owned(), token("a", 2000))].into(),
        told: None,
        removal_failed: false,
    };
    Observed {
        uid: "uid".into(),
        name: "v".into(),
        now: at(1000),
        want: Want::Ready,
        may_remove: true,
        asked: Some((Arc::new(Pod::default()), plan)),
        files: Files::Ready(files("a")),
        state,
    }
}

fn with(change: impl FnOnce(&mut Observed)) -> Observed {
    let mut seen = seen();
    change(&mut seen);
    seen
}

#[test]
fn a_volume_is_made_and_kept_up_to_date() {
    let wanted = TokenSource { audience: None, seconds: 3600, path: "token".into(), mode: 0o644 };
    let request = Step::Do(Action::RequestToken(wanted));
    let told = "MountVolume.SetUp failed for volume \"v\" : configmap \"c\" not found";
    let reported = |second| Reported { text: told.into(), at: at(second), times: 1 };
    let missing = Files::Impossible("configmap \"c\" not found".into());
    let absent = |seen: &mut Observed| seen.state = State::new(Plugin::Projected, Presence::Absent);
    let table = [
        ("a token first, while others are looked up", with(absent), request.clone()),
        ("the token is old", with(|s| s.now = at(2000)), request.clone()),
        (
            "and still good: all else comes first",
            with(|s| (s.now, s.files) = (at(2499), Files::Ready(files("b")))),
            Step::Do(Action::Write(files("b"))),
        ),
        (
            "and no longer: nothing is written with it",
            with(|s| (s.now, s.files) = (at(2500), Files::Ready(files("b")))),
            request,
        ),
        ("looking", with(|s| s.files = Files::Looking), Step::Wait(Why::Looking)),
        ("said", with(|s| s.files = missing.clone()), Step::Do(Action::Report(told.into()))),
        (
            "and said once",
            with(|s| (s.files, s.state.told) = (missing.clone(), Some(reported(995)))),
            Step::Wait(Why::Told(told.into(), at(1005))),
        ),
        (
            "said again",
            with(|s| (s.files, s.state.told) = (missing.clone(), Some(reported(990)))),
            Step::Do(Action::Report(told.into())),
        ),
        (
            "found after a crash: the directory again",
            with(|s| s.state.directory = Presence::Uncertain),
            Step::Do(Action::MakeDirectory),
        ),
        (
            "and what is mounted there",
            with(|s| s.state.mount = Presence::Uncertain),
            Step::Do(Action::MountMemory(None)),
        ),
        ("files", with(|s| s.state.written = None), Step::Do(Action::Write(files("a")))),
        ("other files", with(|s| s.files = Files::Ready(files("b"))), Step::Do(Action::Write(files("b")))),
        ("nothing until the token is old", seen(), Step::Wait(Why::Renewal(at(2000)))),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn a_volume_is_taken_down_when_nobody_uses_it() {
    let gone = |change: fn(&mut Observed)| {
        with(|s| {
            (s.want, s.asked) = (Want::Gone, None);
            change(s);
        })
    };
    let table = [
        ("in use", with(|s| s.want = Want::AsItIs), Step::Wait(Why::InUse)),
        ("unmounted", gone(|_| ()), Step::Do(Action::Unmount)),
        ("perhaps unmounted", gone(|s| s.state.mount = Presence::Uncertain), Step::Do(Action::Unmount)),
        ("containers may be there", gone(|s| s.may_remove = false), Step::Wait(Why::NotCounted)),
        ("removed", gone(|s| s.state.mount = Presence::Absent), Step::Do(Action::Remove)),
        (
            "not before containers are counted",
            gone(|s| (s.state.mount, s.may_remove) = (Presence::Absent, false)),
            Step::Wait(Why::NotCounted),
        ),
        (
            "forgotten",
            gone(|s| (s.state.mount, s.state.directory) = (Presence::Absent, Presence::Absent)),
            Step::Do(Action::Forget),
        ),
        ("an orderly stop unmounts", with(|s| s.want = Want::Unmounted), Step::Do(Action::Unmount)),
        (
            "and leaves what is on disk",
            with(|s| (s.want, s.state.mount) = (Want::Unmounted, Presence::Absent)),
            Step::Done,
        ),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn what_containers_may_use_they_may_go_on_using() {
    let plan = plan(&token_volume()).unwrap();
    let state = |change: fn(&mut State)| {
        let mut state = seen().state;
        change(&mut state);
        state.ready(&plan)
    };
    assert!(state(|_| ()));
    assert!(state(|s| s.tokens.clear()), "although it cannot be brought up to date");
    assert!(!state(|s| s.written = None));
    assert!(!state(|s| s.mount = Presence::Uncertain));
    assert!(!state(|s| s.directory = Presence::Absent));
}

/// What an ended container left in memory is no longer counted for it, so ten init containers would have ten times as much.
#[test]
fn a_volume_in_memory_is_no_larger_than_what_the_containers_may_take() {
    let limited = |limit: &str| json!({"name": "c", "resources": {"limits": {"memory": limit}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let free = json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let table = [
        (json!([limited("32Mi"), limited("32Mi")]), json!([limited("16Mi")]), None, Some(64 << 20)),
        (json!([limited("32Mi")]), json!([limited("48Mi"), limited("40Mi")]), None, Some(48 << 20)),
        (json!([limited("32Mi")]), json!([]), Some("1Mi"), Some(1 << 20)),
        (json!([limited("32Mi")]), json!([]), Some("1Gi"), Some(32 << 20)),
        (json!([limited("32Mi")]), json!([free]), Some("1Gi"), Some(1 << 30)),
        (json!([limited("32Mi"), free]), json!([]), None, None),
    ];
    for (containers, init, size, want) in table {
        let volume = json!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": size}});
        let spec = json!({"containers": containers, "initContainers": init, "volumes": [volume]});
        let pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let mediums: Vec<_> = of_pod(&pod).map(|(_, plan)| plan.medium).collect();
        assert_eq!(mediums, [Medium::Memory(want)], "{spec}");
    }
}

/// However often their containers are restarted.
#[test]
fn volumes_in_memory_are_together_no_larger_than_what_the_containers_may_take() {
    let mib = |sizes: &[u64]| sizes.iter().map(|size| Medium::Memory(Some(size << 20))).collect::<Vec<_>>();
    let table: [(&str, &[Option<&str>], Vec<Medium>); 7] = [
        ("64Mi", &[None, None], mib(&[32, 32])),
        ("64Mi", &[Some("8Mi"), None], mib(&[8, 56])),
        ("64Mi", &[Some("48Mi"), Some("8Mi")], mib(&[48, 8])),
        ("64Mi", &[Some("48Mi"), Some("48Mi")], mib(&[32, 32])),
        ("62Mi", &[None, Some("8Mi"), None, Some("40Mi")], mib(&[18, 8, 18, 18])),
        ("1", &[None, None], vec![Medium::Memory(Some(1)); 2]),
        ("0", &[None, None], vec![Medium::Memory(None); 2]),
    ];
    for (limit, sizes, want) in table {
        let volumes = sizes.iter().enumerate().map(|(number, size)| {
            json!({"name": format!("v{number}"), "emptyDir": {"medium": "Memory", "sizeLimit": size}})
        });
        let volumes: Vec<_> = volumes.chain([json!({"name": "s", "secret": {"secretName": "s"}})]).collect();
        let mounts: Vec<_> =
            volumes.iter().map(|volume| json!({"name": volume["name"], "mountPath": "/v"})).collect();
        let container =
            json!({"name": "c", "resources": {"limits": {"memory": limit}}, "volumeMounts": mounts});
        let pod =
            serde_json::from_value(json!({"spec": {"containers": [container], "volumes": volumes}})).unwrap();
        let mut mediums: Vec<_> = of_pod(&pod).map(|(_, plan)| plan.medium).collect();
        assert_eq!(
            mediums.pop(),
            Some(Medium::Memory(None)),
            "what the kubelet writes is not the workload's"
        );
        assert_eq!(mediums, want, "{limit} {sizes:?}");
    }
}

#[test]
fn each_plugin_has_its_place() {
    let table = [
        (json!({"emptyDir": {}}), Plugin::EmptyDir, Medium::Disk),
        (json!({"emptyDir": {"medium": "Memory"}}), Plugin::EmptyDir, Medium::Memory(None)),
        (
            json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
            Plugin::EmptyDir,
            Medium::Memory(Some(1 << 20)),
        ),
        (json!({"emptyDir": {"sizeLimit": "1Mi"}}), Plugin::EmptyDir, Medium::Disk),
        (json!({"configMap": {"name": "c"}}), Plugin::ConfigMap, Medium::Disk),
        (json!({"secret": {"secretName": "s"}}), Plugin::Secret, Medium::Memory(None)),
        (json!({"downwardAPI": {}}), Plugin::DownwardApi, Medium::Memory(None)),
        (json!({"projected": {"sources": []}}), Plugin::Projected, Medium::Memory(None)),
    ];
    for (source, plugin, medium) in table {
        let plan = plan(&volume(source.clone())).unwrap();
        assert_eq!((plan.plugin, plan.medium), (plugin, medium), "{source}");
        assert_eq!(plan.sources.is_some(), plugin != Plugin::EmptyDir, "{source}");
    }
    assert_eq!(plan(&volume(json!({"persistentVolumeClaim": {"claimName": "c"}}))), None);
    let bundle = json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "p", "name": "b"}}]}});
    let text = "volume \"v\": clusterTrustBundle is not supported here yet";
    assert_eq!(problem(&volume(bundle)).as_deref(), Some(text));
    assert_eq!(problem(&token_volume()), None);
}

/// LOCAL-3.
#[test]
fn tokens_are_renewed_in_time() {
    let hour = 3600;
    let table = [
        ("at four fifths", hour, at(hour * 4 / 5)),
        ("the shortest", 600, at(480)),
        ("a week's after a day", 7 * 24 * hour, at(24 * hour)),
    ];
    for (name, seconds, expected) in table {
        let token = Token::new("t".into(), at(0), at(seconds));
        assert_eq!((token.renew_at, token.expires), (expected, at(seconds)), "{name}");
    }
}

#[test]
fn neither_tokens_nor_files_reach_a_log() {
    let shown = format!("{:?} {:?}", seen(), Action::Write(files("hidden")));
    assert!(!shown.contains("hidden") && !shown.contains("\"a\""), "{shown}");
    let tokens: BTreeMap<_, _> = [("p", token("hidden", 0))].into();
    assert!(!format!("{tokens:?}").contains("hidden"));
}
