//! Volumes that are made of files: of secrets, maps, tokens, and what a pod knows about itself.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, ProjectedVolumeSource, ServiceAccountTokenProjection, VolumeProjection,
};

use super::environment;
use crate::field::Invalid;
use crate::kinds::check::{self, paths};

const BAD_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const CONFLICT: &str = "conflicting duplicate paths";
/// Fields of the pod that a file may show.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

pub fn mode_error(at: &str, mode: Option<i32>) -> Option<Invalid> {
    let wrong = mode.filter(|mode| !(0..=0o777).contains(mode))?;
    Some(Invalid::invalid(at, wrong, BAD_MODE))
}

/// Keys of a secret or map, and where they go.
pub fn errors(at: &str, mode: Option<i32>, items: Option<&[KeyToPath]>) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> = mode_error(&format!("{at}.defaultMode"), mode).into_iter().collect();
    errors.extend(item_errors(at, items));
    errors
}

fn item_errors(at: &str, items: Option<&[KeyToPath]>) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let at = format!("{at}.items[{index}]");
        errors.extend(check::required(&format!("{at}.key"), Some(&item.key)));
        errors.extend(check::required(&format!("{at}.path"), Some(&item.path)));
        errors.extend(paths::file(&format!("{at}.path"), &item.path));
        errors.extend(mode_error(&format!("{at}.mode"), item.mode));
    }
    errors
}

/// Upstream leaves the item out of these paths.
pub fn downward_errors(at: &str, file: &DownwardAPIVolumeFile) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> =
        check::required(&format!("{at}.path"), Some(&file.path)).into_iter().collect();
    errors.extend(paths::file(&format!("{at}.path"), &file.path));
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(field), other) => {
            errors.extend(environment::field_errors(&format!("{at}.fieldRef"), field, &FIELDS));
            if other.is_some() {
                let text = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Invalid::invalid(at, "resource", text));
            }
        }
        (None, Some(resource)) => {
            errors.extend(environment::resource_errors(&format!("{at}.resourceFieldRef"), resource, true));
        }
        (None, None) => {
            errors.push(Invalid::required(at, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    errors.extend(mode_error(&format!("{at}.mode"), file.mode));
    errors
}

pub fn projected_errors(at: &str, volume: &ProjectedVolumeSource) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> =
        mode_error(&format!("{at}.defaultMode"), volume.default_mode).into_iter().collect();
    let mut taken = BTreeSet::new();
    for (index, source) in volume.sources.iter().flatten().enumerate() {
        errors.extend(source_errors(at, &format!("{at}.sources[{index}]"), source, &mut taken));
    }
    errors
}

fn source_errors<'a>(
    volume: &str,
    at: &str,
    source: &'a VolumeProjection,
    taken: &mut BTreeSet<&'a str>,
) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let mut claim = |path: &'a str, shown: &str| {
        let conflict = !path.is_empty() && !taken.insert(path);
        conflict.then(|| Invalid::invalid(volume, shown, CONFLICT))
    };
    let keyed = [
        ("secret", source.secret.as_ref().map(|secret| (&secret.name, &secret.items))),
        ("configMap", source.config_map.as_ref().map(|map| (&map.name, &map.items))),
    ];
    for (field, named) in keyed {
        let Some((name, items)) = named else { continue };
        let at = format!("{at}.{field}");
        errors.extend(check::required(&format!("{at}.name"), Some(name)));
        errors.extend(item_errors(&at, items.as_deref()));
        errors.extend(items.iter().flatten().filter_map(|item| claim(&item.path, name)));
    }
    if let Some(downward) = &source.downward_api {
        for file in downward.items.iter().flatten() {
            errors.extend(downward_errors(&format!("{at}.downwardAPI"), file));
            errors.extend(claim(&file.path, &file.path));
        }
    }
    if let Some(token) = &source.service_account_token {
        errors.extend(token_errors(volume, &format!("{at}.serviceAccountToken"), token));
    }
    let kinds = [
        source.secret.is_some(),
        source.config_map.is_some(),
        source.downward_api.is_some(),
        source.service_account_token.is_some(),
        source.cluster_trust_bundle.is_some(),
        source.pod_certificate.is_some(),
    ];
    if kinds.into_iter().filter(|set| *set).count() > 1 {
        errors.push(Invalid::forbidden(at, "may not specify more than 1 volume type per source"));
    }
    errors
}

/// Upstream reports the path of a token at the volume.
fn token_errors(volume: &str, at: &str, token: &ServiceAccountTokenProjection) -> Vec<Invalid> {
    let field = format!("{at}.expirationSeconds");
    let lifetime = token.expiration_seconds.and_then(|seconds| check::token_lifetime(&field, seconds));
    let mut errors: Vec<Invalid> = lifetime.into_iter().collect();
    let field = format!("{volume}.path");
    errors.extend(match token.path.as_str() {
        "" => vec![Invalid::required(field, "")],
        path => paths::file(&field, path),
    });
    errors
}
