//! The variables of a container, from its spec and from the objects that it names. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_api::{ConfigMap, Container, Meta, Node, Pod, Secret, downward, pod};
use bowline_host::containers::DEFAULT_PATH;
use bowline_machinery::Found;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector};

use super::{POD_IP, Problem, config};

/// Name and value.
pub type Variable = (String, String);

/// What the watches say of the objects that a pod's variables come from, by name.
#[derive(Clone, Default, PartialEq)]
pub struct Objects {
    pub maps: BTreeMap<String, Found<Arc<ConfigMap>>>,
    pub secrets: BTreeMap<String, Found<Arc<Secret>>>,
    pub node: Option<Arc<Node>>,
}

// By hand: what is in a secret must not reach a log.
impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "config maps {:?}, secrets {:?}", self.maps.keys(), self.secrets.keys())
    }
}

/// Why variables cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The watch of some object has not answered yet.
    Looking,
    Problem(Problem),
}

impl From<Problem> for Missing {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

type Entries = BTreeMap<String, String>;

/// Names of the config maps and secrets that the variables of a pod come from.
pub fn references(pod: &Pod) -> (Vec<&str>, Vec<&str>) {
    let (mut maps, mut secrets) = (Vec::new(), Vec::new());
    for container in pod::containers(pod) {
        for from in container.env_from.iter().flatten() {
            maps.extend(from.config_map_ref.as_ref().map(|map| map.name.as_str()));
            secrets.extend(from.secret_ref.as_ref().map(|secret| secret.name.as_str()));
        }
        for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            maps.extend(from.config_map_key_ref.as_ref().map(|map| map.name.as_str()));
            secrets.extend(from.secret_key_ref.as_ref().map(|secret| secret.name.as_str()));
        }
    }
    (maps, secrets)
}

/// Variables in order; each may use those before it. What the runtime adds is not for them to use.
pub fn environment(
    pod: &Pod,
    container: &Container,
    hostname: &str,
    objects: &Objects,
) -> Result<Vec<Variable>, Missing> {
    let mut env = Vec::new();
    for from in container.env_from.iter().flatten() {
        for (name, value) in imported(pod, from, objects)? {
            set(&mut env, name, value);
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, container, variable, &env, objects)? {
            set(&mut env, variable.name.clone(), value);
        }
    }
    let added = [("PATH", DEFAULT_PATH), ("HOSTNAME", hostname)];
    for (name, value) in added {
        if env.iter().all(|(known, _)| known != name) {
            env.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(env)
}

fn set(env: &mut Vec<Variable>, name: String, value: String) {
    env.retain(|(known, _)| *known != name);
    env.push((name, value));
}

/// Entries whose key is no name of a variable are left out, as upstream does.
fn imported(pod: &Pod, from: &EnvFromSource, objects: &Objects) -> Result<Entries, Missing> {
    let entries = match (&from.config_map_ref, &from.secret_ref) {
        (Some(map), _) => of_map(objects, &map.name, map.optional)?,
        (None, Some(secret)) => of_secret(objects, &secret.name, secret.optional)?,
        (None, None) => return Err(config(format!("envFrom of {} has no source", pod.name())).into()),
    };
    let prefix = from.prefix.as_deref().unwrap_or_default();
    let named = entries.unwrap_or_default().into_iter().map(|(key, value)| (format!("{prefix}{key}"), value));
    Ok(named.filter(|(name, _)| is_name(name)).collect())
}

/// Keys of what `envFrom` names that cannot be names of variables, with the kind and name of their object.
pub fn skipped(container: &Container, objects: &Objects) -> Vec<(String, Vec<String>)> {
    let sources = container.env_from.iter().flatten().filter_map(|from| {
        let (kind, name, entries) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(map), _) => ("configMap", &map.name, of_map(objects, &map.name, Some(true))),
            (None, Some(secret)) => ("secret", &secret.name, of_secret(objects, &secret.name, Some(true))),
            (None, None) => return None,
        };
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let keys = entries.ok()??.into_keys().filter(|key| !is_name(&format!("{prefix}{key}")));
        Some((format!("{kind} {name}"), keys.collect::<Vec<_>>()))
    });
    sources.filter(|(_, keys)| !keys.is_empty()).collect()
}

/// Any printable ASCII but `=`.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| (' '..='~').contains(&letter) && letter != '=')
}

fn of_map(objects: &Objects, name: &str, optional: Option<bool>) -> Result<Option<Entries>, Missing> {
    let read = |map: &ConfigMap| map.data.clone().unwrap_or_default();
    found(objects.maps.get(name), "configmap", name, optional, read)
}

fn of_secret(objects: &Objects, name: &str, optional: Option<bool>) -> Result<Option<Entries>, Missing> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let read = |secret: &Secret| -> Entries {
        secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(&value.0))).collect()
    };
    found(objects.secrets.get(name), "secret", name, optional, read)
}

/// `None`: the object is not there, and need not be.
fn found<K>(
    found: Option<&Found<Arc<K>>>,
    kind: &str,
    name: &str,
    optional: Option<bool>,
    read: impl Fn(&K) -> Entries,
) -> Result<Option<Entries>, Missing> {
    match found {
        None | Some(Found::Unknown) => Err(Missing::Looking),
        Some(Found::Present(object)) => Ok(Some(read(object))),
        Some(Found::Absent) if optional == Some(true) => Ok(None),
        Some(Found::Absent) => Err(config(format!("{kind} {name:?} not found")).into()),
    }
}

/// `None`: what it comes from is not there, and need not be.
fn value(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    env: &[Variable],
    objects: &Objects,
) -> Result<Option<String>, Missing> {
    let given = variable.value.as_deref().unwrap_or_default();
    match &variable.value_from {
        Some(from) if given.is_empty() => referenced(pod, container, variable, from, objects),
        _ => Ok(Some(expand(given, env))),
    }
}

fn referenced(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    from: &EnvVarSource,
    objects: &Objects,
) -> Result<Option<String>, Missing> {
    let entry =
        |kind: &str, name: &str, key: &str, optional: Option<bool>, entries: Option<Entries>| match entries
            .and_then(|mut entries| entries.remove(key))
        {
            Some(value) => Ok(Some(value)),
            None if optional == Some(true) => Ok(None),
            None => {
                let text = format!("couldn't find key {key} in {kind} {}/{name}", pod.namespace());
                Err(Missing::Problem(config(text)))
            }
        };
    if let Some(field) = &from.field_ref {
        return Ok(Some(field_value(pod, field)?));
    }
    if let Some(resource) = &from.resource_field_ref {
        let mut resource = resource.clone();
        resource.container_name = resource.container_name.filter(|name| !name.is_empty());
        resource.container_name.get_or_insert_with(|| container.name.clone());
        let shown = downward::resource(pod, &resource, objects.node.as_deref());
        return Ok(Some(shown.map_err(config)?));
    }
    if let Some(map) = &from.config_map_key_ref {
        let entries = of_map(objects, &map.name, map.optional)?;
        return entry("ConfigMap", &map.name, &map.key, map.optional, entries);
    }
    if let Some(secret) = &from.secret_key_ref {
        let entries = of_secret(objects, &secret.name, secret.optional)?;
        return entry("Secret", &secret.name, &secret.key, secret.optional, entries);
    }
    Err(config(format!("env {:?}: valueFrom has no source that is supported here", variable.name)).into())
}

pub fn field_value(pod: &Pod, field: &ObjectFieldSelector) -> Result<String, Problem> {
    let spec = pod.spec.as_ref();
    if let Some(value) = downward::metadata_field(pod, &field.field_path) {
        return Ok(value);
    }
    Ok(match field.field_path.as_str() {
        "spec.nodeName" => pod::node_name(pod).to_owned(),
        "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default(),
        "status.podIP" | "status.hostIP" | "status.podIPs" | "status.hostIPs" => POD_IP.to_owned(),
        other => return Err(config(format!("unsupported fieldPath: {other}"))),
    })
}

/// Replaces `$(NAME)`; `$$(NAME)` stands for itself, and so does a name that is not known.
pub fn expand(text: &str, env: &[Variable]) -> String {
    expand_with(text, env, |_| ())
}

/// [`expand`], but a name that is not known is an error.
pub fn expand_strictly(text: &str, env: &[Variable]) -> Result<String, String> {
    let mut unknown = None;
    let expanded = expand_with(text, env, |name| {
        unknown.get_or_insert_with(|| name.to_owned());
    });
    unknown.map_or(Ok(expanded), |name| Err(format!("missing value for {name:?}")))
}

fn expand_with(text: &str, env: &[Variable], mut unknown: impl FnMut(&str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(escaped) = tail.strip_prefix('$') {
            out.push('$');
            rest = escaped;
            continue;
        }
        let name = tail.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let known = name.and_then(|(name, after)| {
            env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| (value, after))
        });
        match known {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                if let Some((name, _)) = name {
                    unknown(name);
                }
                out.push('$');
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    out
}
