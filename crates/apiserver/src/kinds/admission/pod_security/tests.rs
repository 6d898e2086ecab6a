//! Every verdict beside upstream's own: `answers.jsonl` is what its code says (`make podsecurity`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bowline_api::Pod;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::evaluate::evaluate;
use super::policy::{Level, LevelVersion, Policy, Version};
use super::subject::Subject;
use super::violation::details;
use super::{PodSecurity, existing};
use crate::admission::{Admission, AdmissionNotes, AdmissionRequest, Lister, Operation};
use crate::auth::User;

/// One beyond the newest version in the answers stands for `latest`.
const LATEST: u64 = 37;

/// The lines that have this field.
fn answers(field: &str) -> Vec<Value> {
    let lines = include_str!("answers.jsonl").lines();
    let all = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found: Vec<Value> = all.filter(|answer| !answer[field].is_null()).collect();
    assert!(found.len() > 30, "answers about `{field}`");
    found
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    Option::deserialize(value).unwrap().unwrap_or_default()
}

#[test]
fn pods_violate_what_upstream_says_they_violate() {
    for answer in answers("pod") {
        let pod: Pod = serde_json::from_value(answer["pod"].clone()).unwrap();
        let (annotations, spec) = (pod.metadata.annotations.unwrap_or_default(), pod.spec.unwrap());
        let subject = Subject::new(&annotations, &spec);
        for (name, level) in [("baseline", Level::Baseline), ("restricted", Level::Restricted)] {
            let changes: BTreeMap<u64, String> = Deserialize::deserialize(&answer["says"][name]).unwrap();
            for minor in 0..=LATEST {
                let version = if minor == LATEST { Version::Latest } else { Version::Minor(minor) };
                let policy = LevelVersion { level, version };
                let (_, expected) = changes.range(..=minor).next_back().unwrap();
                let pod = &answer["pod"];
                assert_eq!(details(&evaluate(policy, &subject)), *expected, "{policy} {pod}");
            }
        }
        assert_eq!(evaluate(LevelVersion::PRIVILEGED, &subject), []);
    }
}

#[test]
fn labels_mean_what_upstream_reads_in_them() {
    for answer in answers("policy") {
        let (policy, errors) = Policy::of(&strings(&answer["labels"]));
        let modes = [policy.enforce, policy.audit, policy.warn].map(|mode| mode.to_string());
        assert_eq!(json!(modes), answer["policy"], "{answer}");
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let expected: Option<Vec<String>> = Deserialize::deserialize(&answer["errors"]).unwrap();
        assert_eq!(errors, expected.unwrap_or_default(), "{answer}");
    }
}

/// A cluster with one namespace.
struct Cluster<'a>(&'a Value);

impl Lister for Cluster<'_> {
    fn get(&self, _: &str, plural: &str, _: &str, _: &str) -> Option<Value> {
        assert_eq!(plural, "namespaces");
        Some(json!({"metadata": {"labels": self.0["labels"]}}))
    }
    fn list(&self, _: &str, _: &str) -> Vec<Value> {
        Vec::new()
    }
    fn texts(&self, _: &str, plural: &str, namespace: &str) -> Vec<Bytes> {
        assert_eq!((plural, namespace), ("pods", "x"));
        self.0["pods"].as_array().into_iter().flatten().map(|pod| pod.to_string().into()).collect()
    }
}

fn request<'a>(asked: &'a Value, notes: &'a AdmissionNotes) -> AdmissionRequest<'a> {
    static USER: LazyLock<User> = LazyLock::new(User::server);
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    AdmissionRequest {
        operation: if text("operation") == "CREATE" { Operation::Create } else { Operation::Update },
        group: text("group"),
        plural: text("resource"),
        kind: text("kind"),
        subresource: text("subresource"),
        namespace: if text("resource") == "namespaces" { "" } else { "n" },
        name: text("name"),
        old: Some(&asked["old"]).filter(|old| !old.is_null()),
        user: &USER,
        now: Timestamp::UNIX_EPOCH,
        notes,
    }
}

#[test]
fn requests_are_answered_as_upstream_answers_them() {
    for answer in answers("request") {
        let (asked, expected) = (&answer["request"], &answer["response"]);
        let notes = AdmissionNotes::default();
        let verdict = PodSecurity.validate(&request(asked, &notes), &asked["object"], &Cluster(asked));
        let refusal = verdict.err().map(|status| {
            let mut status = status.to_json();
            // The rest of upstream's answer is not yet a whole Status.
            status
                .as_object_mut()
                .unwrap()
                .retain(|field, _| !["kind", "apiVersion"].contains(&field.as_str()));
            status
        });
        assert_eq!(json!(refusal), expected["status"], "{asked}");
        assert_eq!(json!(refusal.is_none()), expected["allowed"], "{asked}");
        let warnings: Option<Vec<String>> = Deserialize::deserialize(&expected["warnings"]).unwrap();
        assert_eq!(notes.warnings(), warnings.unwrap_or_default(), "{asked}");
        let annotations = strings(&expected["auditAnnotations"]).into_iter();
        let annotations: BTreeMap<String, String> =
            annotations.map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), value)).collect();
        assert_eq!(notes.audit_annotations(), annotations, "{asked}");
    }
}

#[test]
fn a_large_namespace_is_checked_in_part() {
    let policy = LevelVersion { level: Level::Baseline, version: Version::Latest };
    let pod = |name: &str, padding: usize| {
        let metadata = json!({"name": name, "annotations": {"a": "x".repeat(padding)}});
        Bytes::from(json!({"metadata": metadata, "spec": {"hostPID": true, "containers": []}}).to_string())
    };
    let heading =
        r#"existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest""#;
    let partial = |checked: usize, all: usize| {
        format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
        )
    };
    let many = existing::warnings("n", policy, &vec![pod("p", 0); 3001]);
    assert_eq!(many, [&partial(3000, 3001), heading, "p (and 2999 other pods): host namespaces"]);
    let heavy = existing::warnings("n", policy, &vec![pod("p", 1 << 20); 100]);
    assert_eq!(heavy, [&partial(64, 100), heading, "p (and 63 other pods): host namespaces"]);
}
