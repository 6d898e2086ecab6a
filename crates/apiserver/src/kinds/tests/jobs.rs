use serde_json::json;

use super::workloads::template;
use super::*;
use crate::kinds::workload::cronjob::CronJobRules;
use crate::kinds::workload::job::JobRules;

fn job() -> Value {
    let template = patched(&template(), &json!({"metadata": null, "spec": {"restartPolicy": "Never"}}));
    json!({"metadata": {"name": "j", "uid": "u-1"}, "spec": {"template": template}})
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

#[test]
fn a_job_knows_its_pods() {
    let stored = created::<JobRules>(&job());
    let labels = json!({"batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "j", "controller-uid": "u-1", "job-name": "j"});
    assert_eq!(stored["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(stored["metadata"]["labels"], labels, "a job without labels has those of its pods");
    assert_eq!(
        stored["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}})
    );
    let of = |field: &str| stored["spec"][field].clone();
    assert_eq!([of("completions"), of("parallelism"), of("backoffLimit")], [json!(1), json!(1), json!(6)]);
    assert_eq!(
        [of("completionMode"), of("podReplacementPolicy")],
        [json!("NonIndexed"), json!("TerminatingOrFailed")]
    );
    let own = patched(&job(), &json!({"metadata": {"labels": {"x": "y"}}}));
    assert_eq!(created::<JobRules>(&own)["metadata"]["labels"], json!({"x": "y"}));
    let indexed = patched(
        &job(),
        &spec(json!({"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1})),
    );
    assert_eq!(created::<JobRules>(&indexed)["spec"]["backoffLimit"], i32::MAX);
}

#[test]
fn rules() {
    let rule = |rule: Value| spec(json!({"podFailurePolicy": {"rules": [rule]}}));
    let indexed =
        |more: Value| patched(&spec(json!({"completions": 3, "completionMode": "Indexed"})), &spec(more));
    let at = "spec.podFailurePolicy.rules[0]";
    check_create::<JobRules>(
        &job(),
        &[
            (
                "pods that never end",
                spec(json!({"template": {"spec": {"restartPolicy": null}}})),
                &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
            ),
            (
                "another's pods",
                spec(json!({"template": {"metadata": {"labels": {"job-name": "x"}}}})),
                &["spec.template.metadata.labels[job-name]: Invalid value: {…"],
            ),
            (
                "a selector of its own",
                spec(json!({"selector": {"matchLabels": {"x": "y"}}})),
                &["spec.selector: Invalid value: {…", "spec.template.metadata.labels: Invalid value: {…"],
            ),
            (
                "by hand, and none",
                spec(json!({"manualSelector": true})),
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                ],
            ),
            (
                "limits for indexes",
                spec(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1})),
                &[
                    "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                    "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
                ],
            ),
            (
                "failure, nothing said",
                rule(json!({"action": ""})),
                &[
                    &format!(
                        "{at}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
                    ),
                    &format!(
                        "{at}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
                    ),
                ],
            ),
            (
                "failure, exit codes",
                rule(
                    json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0, 3, 2, 2], "containerName": "x"}}),
                ),
                &[
                    &format!(
                        "{at}.onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template"
                    ),
                    &format!(
                        "{at}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"
                    ),
                    &format!("{at}.onExitCodes.values[3]: Duplicate value: 2"),
                    &format!("{at}.onExitCodes.values: Invalid value: [0,3,2,2]: must be ordered"),
                ],
            ),
            (
                "success of indexes",
                indexed(
                    json!({"successPolicy": {"rules": [{"succeededIndexes": "0-5"}, {"succeededIndexes": "0-1", "succeededCount": 3}]}}),
                ),
                &[
                    "spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"0-5\": error parsing succeededIndexes: too large index: \"5\"",
                    "spec.successPolicy.rules[1].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
                ],
            ),
        ],
    );
}

#[test]
fn changes() {
    let stored = created::<JobRules>(&job());
    let node = spec(json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}));
    check_update::<JobRules>(
        &stored,
        &[
            (
                "completions",
                spec(json!({"completions": 4})),
                &["spec.completions: Invalid value: 4: field is immutable"],
            ),
            ("template", node.clone(), &["spec.template: Invalid value: {…"]),
            ("speed", spec(json!({"parallelism": 4, "suspend": true})), &[]),
        ],
    );
    let probed = |delay: Value| {
        let probe = json!({"tcpSocket": {"port": 1}, "initialDelaySeconds": delay});
        patched(
            &job(),
            &spec(
                json!({"template": {"spec": {"containers": [{"name": "main", "image": "a:1", "livenessProbe": probe}]}}}),
            ),
        )
    };
    let again = created::<JobRules>(&probed(json!(0)));
    let own = json!({"template": {"metadata": again["spec"]["template"]["metadata"]}, "selector": again["spec"]["selector"]});
    let body = patched(&probed(json!(0)), &spec(own));
    assert_errors("an empty value spelt out", update_errors::<JobRules>(&body, &again), &[]);
    let waiting = patched(&stored, &spec(json!({"suspend": true})));
    let near = |affinity: Value| spec(json!({"template": {"spec": {"affinity": affinity}}}));
    check_update::<JobRules>(
        &waiting,
        &[
            ("placement, while nothing runs", node, &[]),
            ("nothing about nodes", near(json!({})), &[]),
            ("pods", near(json!({"podAffinity": {}})), &["spec.template.spec: Invalid value: {…"]),
        ],
    );
    let placed = patched(&waiting, &near(json!({"nodeAffinity": {}})));
    check_update::<JobRules>(&placed, &[("nodes no more", near(Value::Null), &[])]);
    let indexed =
        created::<JobRules>(&patched(&job(), &spec(json!({"completions": 3, "completionMode": "Indexed"}))));
    check_update::<JobRules>(
        &indexed,
        &[
            (
                "grows",
                spec(json!({"completions": 5})),
                &["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"],
            ),
            ("grows as a whole", spec(json!({"completions": 5, "parallelism": 5})), &[]),
        ],
    );
}

#[test]
fn ends() {
    let running =
        patched(&created::<JobRules>(&job()), &json!({"status": {"startTime": CREATED, "active": 1}}));
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let done = json!({"status": {"active": 0, "succeeded": 1, "completionTime": NOW, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
    check_status::<JobRules>(
        &running,
        &[
            ("done", done.clone(), &[]),
            (
                "done too soon",
                json!({"status": {"conditions": [condition("Complete")]}}),
                &[
                    "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                    "status.completionTime: Required value: completionTime is required for Complete jobs",
                    "status.active: Invalid value: 1: active>0 is invalid for finished job",
                ],
            ),
            (
                "more ready than there are",
                json!({"status": {"ready": 2}}),
                &["status.ready: Invalid value: 2: cannot set more ready pods than active"],
            ),
        ],
    );
    let finished = patched(&running, &done);
    let back = json!({"status": {"succeeded": 0}});
    check_status::<JobRules>(
        &finished,
        &[(
            "taken back",
            back,
            &["status.succeeded: Invalid value: 0: cannot decrease the succeeded counter"],
        )],
    );
    assert_eq!(
        header::<JobRules>(),
        "NAME | STATUS | COMPLETIONS | DURATION | AGE | [CONTAINERS] | [IMAGES] | [SELECTOR]"
    );
    let selector = "batch.kubernetes.io/controller-uid=u-1";
    assert_eq!(
        row::<JobRules>(&finished),
        format!("j | Complete | 1/1 | 10m | 10m | main | a:1 | {selector}")
    );
    assert_eq!(labels::<JobRules>(&finished), ["status.successful=1"]);
}

#[test]
fn by_the_clock() {
    let base = json!({"metadata": {"name": "c"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job()["spec"]}}});
    let stored = created::<CronJobRules>(&base)["spec"].clone();
    assert_eq!(
        (&stored["concurrencyPolicy"], &stored["successfulJobsHistoryLimit"]),
        (&json!("Allow"), &json!(3))
    );
    assert_eq!(
        stored["jobTemplate"]["spec"]["backoffLimit"],
        Value::Null,
        "the job's own defaults wait for the job"
    );
    let long = "a".repeat(53);
    check_create::<CronJobRules>(
        &base,
        &[
            (
                "when",
                spec(json!({"schedule": "x"})),
                &["spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]"],
            ),
            (
                "where",
                spec(json!({"schedule": "TZ=UTC 1 * * * *", "timeZone": "Nowhere/At-All"})),
                &[
                    "spec.schedule: Invalid value: \"TZ=UTC 1 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                    "spec.timeZone: Invalid value: \"Nowhere/At-All\": unknown time zone Nowhere/At-All",
                ],
            ),
            (
                "a selector",
                spec(json!({"jobTemplate": {"spec": {"selector": {}, "manualSelector": true}}})),
                &[
                    "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
                    "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
                ],
            ),
            ("a long name", json!({"metadata": {"name": long}}), &["metadata.name: Invalid value: …"]),
        ],
    );
    let zoned = patched(&base, &spec(json!({"schedule": "TZ=UTC 1 * * * *"})));
    assert_errors("what is there may stay", update_errors::<CronJobRules>(&zoned, &zoned), &[]);
    assert_eq!(
        row::<CronJobRules>(&base),
        "c | */5 * * * * | <none> | False | 0 | <none> | 10m | main | a:1 | <none>"
    );
}
