//! Variables of containers, and where their values come from.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec, ResourceFieldSelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::containers;
use crate::field::Invalid;
use crate::kinds::check::{self, names, paths};

const SEVERAL: &str = "may not have more than one field specified at a time";
const NO_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
/// Fields of the pod that a variable may show.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that are known and can only be shown in other ways, if at all.
const ELSEWHERE: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const BYTE_UNITS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub fn errors(at: &str, one: &Container) -> Vec<Invalid> {
    let variables = one.env.iter().flatten().enumerate();
    let mut errors: Vec<Invalid> = variables
        .flat_map(|(index, variable)| variable_errors(&format!("{at}.env[{index}]"), variable))
        .collect();
    for (index, source) in one.env_from.iter().flatten().enumerate() {
        errors.extend(whole_source_errors(&format!("{at}.envFrom"), index, source));
    }
    errors
}

fn variable_errors(at: &str, variable: &EnvVar) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> = match variable.name.as_str() {
        "" => vec![Invalid::required(format!("{at}.name"), "")],
        name => variable_name(&format!("{at}.name"), name).into_iter().collect(),
    };
    if let Some(source) = &variable.value_from {
        let given = !variable.value.as_deref().unwrap_or_default().is_empty();
        errors.extend(source_errors(&format!("{at}.valueFrom"), source, given));
    }
    errors
}

fn variable_name(at: &str, name: &str) -> Option<Invalid> {
    let fine = name.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=');
    (!fine).then(|| Invalid::invalid(at, name, NO_NAME))
}

/// `given`: the variable has a value of its own already.
fn source_errors(at: &str, source: &EnvVarSource, given: bool) -> Vec<Invalid> {
    let field = |name: &str| format!("{at}.{name}");
    let sources = [
        source.field_ref.as_ref().map(|field_ref| field_errors(&field("fieldRef"), field_ref, &FIELDS)),
        source.resource_field_ref.as_ref().map(|r| resource_errors(&field("resourceFieldRef"), r, false)),
        source
            .config_map_key_ref
            .as_ref()
            .map(|key| key_errors(&field("configMapKeyRef"), &key.name, &key.key)),
        source.secret_key_ref.as_ref().map(|key| key_errors(&field("secretKeyRef"), &key.name, &key.key)),
        source.file_key_ref.as_ref().map(|file| {
            let at = field("fileKeyRef");
            let mut errors = match file.key.as_str() {
                "" => vec![Invalid::required(format!("{at}.key"), "")],
                key => variable_name(&format!("{at}.key"), key).into_iter().collect(),
            };
            errors.extend(names::required_label(&format!("{at}.volumeName"), &file.volume_name));
            errors.extend(paths::required(&format!("{at}.path"), &file.path));
            errors
        }),
    ];
    let set: Vec<Vec<Invalid>> = sources.into_iter().flatten().collect();
    let text = match set.len() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if given => "may not be specified when `value` is not empty",
        1 => "",
        _ => SEVERAL,
    };
    let mut errors: Vec<Invalid> = set.into_iter().flatten().collect();
    if !text.is_empty() {
        errors.push(Invalid::invalid(at, "", text));
    }
    errors
}

fn key_errors(at: &str, name: &str, key: &str) -> Vec<Invalid> {
    let mut errors = names::subdomain(&format!("{at}.name"), name);
    errors.extend(match key {
        "" => vec![Invalid::required(format!("{at}.key"), "")],
        key => names::config_key(&format!("{at}.key"), key),
    });
    errors
}

/// A field of the pod itself; of labels and annotations a single one, with its key in brackets.
pub fn field_errors(at: &str, selector: &ObjectFieldSelector, known: &[&str]) -> Vec<Invalid> {
    let at_path = format!("{at}.fieldPath");
    let path = selector.field_path.as_str();
    let unknown = |why: String| {
        vec![Invalid::invalid(at_path.as_str(), path, format!("error converting fieldPath: {why}"))]
    };
    let version = selector.api_version.as_deref().unwrap_or_default();
    if path.is_empty() {
        return vec![Invalid::required(at_path, "")];
    }
    if version != "v1" {
        return unknown(format!("unsupported pod version: {version}"));
    }
    match path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        Some(("metadata.annotations", key)) => names::qualified(at, &key.to_lowercase()),
        Some(("metadata.labels", key)) => names::qualified(at, key),
        Some(_) => unknown(format!("field label does not support subscript: {path}")),
        None if FIELDS.contains(&path) || ELSEWHERE.contains(&path) => {
            check::one_of(&at_path, path, known).into_iter().collect()
        }
        None => unknown(format!("field label not supported: {path}")),
    }
}

/// An amount of a container. In a volume the container has to be named.
pub fn resource_errors(at: &str, selector: &ResourceFieldSelector, in_volume: bool) -> Vec<Invalid> {
    let resource = selector.resource.as_str();
    let unnamed = selector.container_name.as_deref().unwrap_or_default().is_empty();
    let pages = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    let wrong = match resource {
        _ if in_volume && unnamed => Some(Invalid::required(format!("{at}.containerName"), "")),
        "" => Some(Invalid::required(format!("{at}.resource"), "")),
        _ if pages => None,
        _ => check::one_of(&format!("{at}.resource"), resource, &RESOURCES),
    };
    wrong.into_iter().chain(divisor_error(at, resource, selector.divisor.as_ref())).collect()
}

fn divisor_error(at: &str, resource: &str, divisor: Option<&Quantity>) -> Option<Invalid> {
    let divisor = divisor.map(|divisor| divisor.0.as_str()).filter(|divisor| *divisor != "0")?;
    let (units, shown, what): (&[&str], &str, &str) = match resource.split_once('.')?.1 {
        "cpu" => (&["1m", "1"], "1m and 1", "cpu resource"),
        "memory" => (&BYTE_UNITS, "", "memory resource"),
        "ephemeral-storage" => (&BYTE_UNITS, "", "local ephemeral storage resource"),
        name if name.starts_with("hugepages-") => (&BYTE_UNITS, "", "hugepages resource"),
        _ => return None,
    };
    if units.contains(&divisor) {
        return None;
    }
    let shown = if shown.is_empty() { units.join(", ") } else { shown.to_owned() };
    let text = format!("only divisor's values {shown} are supported with the {what}");
    Some(Invalid::invalid(format!("{at}.divisor"), resource, text))
}

/// All keys of a map or secret at once. Upstream leaves the index out of two of the paths.
fn whole_source_errors(list: &str, index: usize, source: &EnvFromSource) -> Vec<Invalid> {
    let at = format!("{list}[{index}]");
    let prefix = source.prefix.as_deref().filter(|prefix| !prefix.is_empty());
    let mut errors: Vec<Invalid> =
        prefix.and_then(|prefix| variable_name(&format!("{at}.prefix"), prefix)).into_iter().collect();
    let sources = [
        ("configMapRef", source.config_map_ref.as_ref().map(|map| map.name.as_str())),
        ("secretRef", source.secret_ref.as_ref().map(|secret| secret.name.as_str())),
    ];
    let set: Vec<(&str, &str)> =
        sources.into_iter().filter_map(|(field, name)| Some((field, name?))).collect();
    for (field, name) in &set {
        errors.extend(match *name {
            "" => vec![Invalid::required(format!("{at}.{field}.name"), "")],
            name => names::subdomain_prefix(&format!("{at}.{field}.name"), name),
        });
    }
    match set.len() {
        0 => errors.push(Invalid::invalid(list, "", "must specify one of: `configMapRef` or `secretRef`")),
        1 => {}
        _ => errors.push(Invalid::invalid(list, "", SEVERAL)),
    }
    errors
}

/// Files with variables can only be in volumes that start empty.
pub fn file_volumes(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    for (path, one) in containers::all(at, spec) {
        for (index, variable) in one.env.iter().flatten().enumerate() {
            let Some(file) = variable.value_from.as_ref().and_then(|source| source.file_key_ref.as_ref())
            else {
                continue;
            };
            let (at, name) =
                (format!("{path}.env[{index}].valueFrom.fileKeyRef.volumeName"), file.volume_name.as_str());
            match volumes.iter().find(|volume| volume.name == name) {
                None => errors.push(check::not_found(at, name)),
                Some(volume) if volume.empty_dir.is_none() => {
                    errors.push(Invalid::invalid(at, name, "referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    }
    errors
}
