//! StatefulSet: pods with names and volumes of their own.

use bowline_api::Meta;
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume};
use serde_json::Value;

use super::{Counts, collisions, template};
use crate::field::Invalid;
use crate::kinds::check::{self, go, names, same};
use crate::kinds::persistentvolumeclaim::{self, PersistentVolumeClaimRules};
use crate::kinds::pod::spec;
use crate::kinds::{Column, Names, Rules, age, column};
use crate::registry::Scale;

const ROLLING: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
const RETENTION: [&str; 2] = ["Retain", "Delete"];
const FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Ready", "How many of the wanted pods are ready."),
    column::AGE,
    column::wide(column::text("Containers", "Names of the containers.")),
    column::wide(column::text("Images", "Images of the containers.")),
];

pub struct StatefulSetRules;

impl Rules for StatefulSetRules {
    type Object = StatefulSet;
    const NAMES: Names =
        Names { plural: "statefulsets", singular: "statefulset", short: &["sts"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;

    fn scale() -> Option<Scale> {
        Some(super::replicas())
    }

    fn default_fields(set: &mut StatefulSet) {
        let spec = set.spec.get_or_insert_default();
        let text = |field: &mut Option<String>, default: &str| {
            if field.as_deref().unwrap_or_default().is_empty() {
                *field = Some(default.into());
            }
        };
        text(&mut spec.pod_management_policy, "OrderedReady");
        default_strategy(spec.update_strategy.get_or_insert_default());
        let policy = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
        text(&mut policy.when_deleted, RETENTION[0]);
        text(&mut policy.when_scaled, RETENTION[0]);
        spec.replicas.get_or_insert(1);
        spec.revision_history_limit.get_or_insert(10);
        template::fill(&mut spec.template);
        spec.volume_claim_templates.iter_mut().flatten().for_each(PersistentVolumeClaimRules::default_fields);
    }

    fn prepare_create(set: &mut StatefulSet, _now: jiff::Timestamp) {
        set.status = None;
    }

    fn prepare_update(new: &mut StatefulSet, old: &StatefulSet) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut StatefulSet, old: &StatefulSet, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(set: &StatefulSet) -> Vec<Invalid> {
        spec_errors(&set.spec.clone().unwrap_or_default(), false)
    }

    fn validate_new(set: &StatefulSet) -> Vec<Invalid> {
        spec_errors(&set.spec.clone().unwrap_or_default(), true)
    }

    fn validate_update(new: &StatefulSet, old: &StatefulSet) -> Vec<Invalid> {
        let (mut new, old) = (new.spec.clone().unwrap_or_default(), old.spec.clone().unwrap_or_default());
        new.replicas = old.replicas;
        new.template = old.template.clone();
        new.update_strategy = old.update_strategy.clone();
        new.min_ready_seconds = old.min_ready_seconds;
        new.ordinals = old.ordinals.clone();
        new.revision_history_limit = old.revision_history_limit;
        new.persistent_volume_claim_retention_policy = old.persistent_volume_claim_retention_policy.clone();
        (!same::alike("apps.v1.StatefulSetSpec", &new, &old))
            .then(|| Invalid::forbidden("spec", FIXED))
            .into_iter()
            .collect()
    }

    fn validate_status(new: &StatefulSet, old: &StatefulSet) -> Vec<Invalid> {
        let status = new.status.clone().unwrap_or_default();
        let counts = Counts(&[
            ("replicas", Some(status.replicas.into())),
            ("readyReplicas", status.ready_replicas.map(Into::into)),
            ("currentReplicas", status.current_replicas.map(Into::into)),
            ("updatedReplicas", status.updated_replicas.map(Into::into)),
            ("availableReplicas", status.available_replicas.map(Into::into)),
            ("observedGeneration", status.observed_generation),
            ("collisionCount", status.collision_count.map(Into::into)),
        ]);
        let mut errors = counts.errors();
        for part in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
            errors.extend(counts.at_most(part, "replicas", "status.replicas"));
        }
        errors.extend(counts.at_most("availableReplicas", "readyReplicas", "status.readyReplicas"));
        let before = old.status.as_ref().and_then(|status| status.collision_count);
        errors.extend(collisions(status.collision_count, before));
        errors
    }

    /// Names of its pods are made of it, and become names of hosts.
    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::label_errors(name)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(set: &StatefulSet, now: jiff::Timestamp) -> Vec<Value> {
        let (spec, status) = (set.spec.clone().unwrap_or_default(), set.status.clone().unwrap_or_default());
        let [names, images] = template::shown(Some(&spec.template));
        let (ready, wanted) = (status.ready_replicas.unwrap_or(0), spec.replicas.unwrap_or(0));
        vec![
            set.name().into(),
            format!("{ready}/{wanted}").into(),
            age::age(&set.metadata, now).into(),
            names.into(),
            images.into(),
        ]
    }
}

fn default_strategy(strategy: &mut StatefulSetUpdateStrategy) {
    if strategy.type_.as_deref().unwrap_or_default().is_empty() {
        strategy.type_ = Some(ROLLING.into());
        strategy.rolling_update.get_or_insert_default();
    }
    let rolling = strategy.rolling_update.as_mut().filter(|_| strategy.type_.as_deref() == Some(ROLLING));
    if let Some(rolling) = rolling {
        rolling.partition.get_or_insert(0);
        // Behind a gate that upstream keeps closed.
        rolling.max_unavailable = None;
    }
}

/// `new`: claims and the name of the service cannot change later, so they are only looked at once.
fn spec_errors(spec: &StatefulSetSpec, new: bool) -> Vec<Invalid> {
    let mut errors = Vec::new();
    errors.extend(match spec.pod_management_policy.as_deref().unwrap_or_default() {
        "" => Some(Invalid::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => None,
        other => {
            let text = "must be 'OrderedReady' or 'Parallel'";
            Some(Invalid::invalid("spec.podManagementPolicy", other, text))
        }
    });
    errors.extend(strategy_errors(&spec.update_strategy.clone().unwrap_or_default()));
    let policy = spec.persistent_volume_claim_retention_policy.as_ref();
    errors.extend(policy.map(retention_errors).unwrap_or_default());
    if new {
        for (index, claim) in spec.volume_claim_templates.iter().flatten().enumerate() {
            let at = format!("spec.volumeClaimTemplates[{index}].spec");
            errors.extend(persistentvolumeclaim::spec::errors(&at, &claim.spec.clone().unwrap_or_default()));
        }
    }
    let negative = |field: &str, count: Option<i32>| check::non_negative(field, count.unwrap_or(0).into());
    errors.extend(negative("spec.replicas", spec.replicas));
    errors.extend(negative("spec.minReadySeconds", spec.min_ready_seconds));
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
    errors.extend(negative("spec.ordinals.start", start));
    let service = spec.service_name.as_deref().filter(|name| new && !name.is_empty());
    errors.extend(service.into_iter().flat_map(|name| names::label("spec.serviceName", name)));
    errors.extend(template_errors(spec));
    errors
}

fn template_errors(spec: &StatefulSetSpec) -> Vec<Invalid> {
    let mut errors = template::selector_errors(&spec.selector);
    if !errors.is_empty() && !template::is_empty(&spec.selector) {
        errors.push(Invalid::invalid(template::SELECTOR, same::json(&spec.selector), ""));
    } else {
        let pods = completed(spec);
        errors.extend(template::mismatch(template::AT, &spec.selector, &pods));
        errors.extend(spec::template_errors(template::AT, &pods));
    }
    errors.extend(template::lasting_errors(template::AT, &spec.template, "StatefulSet"));
    errors
}

/// The template as its pods will be: with volumes of their own, and names that their controller gives them.
fn completed(spec: &StatefulSetSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone();
    let pods = template.spec.get_or_insert_default();
    pods.subdomain = None;
    pods.hostname = None;
    let claimed = spec.volume_claim_templates.iter().flatten().map(|claim| claim.name().to_owned());
    let claimed: Vec<String> = claimed.collect();
    let mut volumes: Vec<Volume> = claimed
        .iter()
        .map(|name| Volume {
            name: name.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: name.clone(),
                read_only: None,
            }),
            ..Default::default()
        })
        .collect();
    volumes
        .extend(pods.volumes.take().into_iter().flatten().filter(|volume| !claimed.contains(&volume.name)));
    pods.volumes = Some(volumes);
    template
}

fn retention_errors(policy: &StatefulSetPersistentVolumeClaimRetentionPolicy) -> Vec<Invalid> {
    let at = "spec.persistentVolumeClaimRetentionPolicy";
    let fields = [("whenDeleted", &policy.when_deleted), ("whenScaled", &policy.when_scaled)];
    let wrong = |(field, value): (&str, &Option<String>)| {
        check::one_of(&format!("{at}.{field}"), value.as_deref().unwrap_or_default(), &RETENTION)
    };
    fields.into_iter().filter_map(wrong).collect()
}

fn strategy_errors(strategy: &StatefulSetUpdateStrategy) -> Vec<Invalid> {
    let at = "spec.updateStrategy";
    match (strategy.type_.as_deref().unwrap_or_default(), &strategy.rolling_update) {
        ("", _) => vec![Invalid::required(at, "")],
        (ON_DELETE, Some(rolling)) => {
            let text = "only allowed for updateStrategy 'RollingUpdate'";
            let kind = "apps.v1.RollingUpdateStatefulSetStrategy";
            vec![go::invalid(&format!("{at}.rollingUpdate"), kind, rolling, text)]
        }
        (ROLLING, Some(rolling)) => {
            let partition = rolling.partition.unwrap_or(0).into();
            check::non_negative(&format!("{at}.rollingUpdate.partition"), partition).into_iter().collect()
        }
        (ON_DELETE | ROLLING, None) => Vec::new(),
        _ => {
            let text = "must be 'RollingUpdate' or 'OnDelete'";
            vec![go::invalid(at, "apps.v1.StatefulSetUpdateStrategy", strategy, text)]
        }
    }
}
