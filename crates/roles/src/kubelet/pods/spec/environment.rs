//! The variables of a container, from its spec and from the objects that it names. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_api::{ConfigMap, Container, Meta, Node, Pod, Secret, downward, pod};
use bowline_host::containers::DEFAULT_PATH;
use bowline_machinery::Found;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector};

use super::{POD_IP, Problem, config};

/// The longest argument or variable that the kernel takes (`MAX_ARG_STRLEN`), and the most of all of them together.
const STRING_MAX: usize = 128 << 10;
const TOTAL_MAX: usize = 6 << 20;

/// Name and value.
pub type Variable = (String, String);

/// Variables by name, bounded by what a program can be started with: values that use others grow exponentially.
#[derive(Default)]
pub struct Environment {
    variables: Vec<Variable>,
    places: BTreeMap<String, usize>,
    bytes: usize,
}

impl Environment {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|place| self.variables[*place].1.as_str())
    }

    /// A later value wins.
    pub fn set(&mut self, name: &str, value: String) -> Result<(), Problem> {
        if value.contains('\0') {
            return Err(config(format!("variable {name:?} contains a NUL byte")));
        }
        if name.len() + value.len() + 2 > STRING_MAX {
            return Err(too_long(&format!("variable {name:?}")));
        }
        self.bytes += name.len() + value.len();
        if self.bytes > TOTAL_MAX {
            return Err(config(format!("the variables are longer than {TOTAL_MAX} bytes together")));
        }
        match self.places.get(name) {
            Some(place) => self.variables[*place].1 = value,
            None => {
                self.places.insert(name.to_owned(), self.variables.len());
                self.variables.push((name.to_owned(), value));
            }
        }
        Ok(())
    }

    pub fn into_variables(self) -> Vec<Variable> {
        self.variables
    }
}

fn too_long(what: &str) -> Problem {
    config(format!("{what} is longer than {STRING_MAX} bytes, with which no program can be started"))
}

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
) -> Result<Environment, Missing> {
    let mut env = Environment::default();
    for from in container.env_from.iter().flatten() {
        import(&mut env, pod, from, objects)?;
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, container, variable, &env, objects)? {
            env.set(&variable.name, value)?;
        }
    }
    for (name, value) in [("PATH", DEFAULT_PATH), ("HOSTNAME", hostname)] {
        if env.get(name).is_none() {
            env.set(name, value.to_owned())?;
        }
    }
    Ok(env)
}

/// Command and arguments with variables filled in.
pub fn arguments(container: &Container, env: &Environment) -> Result<Vec<String>, Problem> {
    let (mut expanded, mut bytes) = (Vec::new(), 0);
    for word in container.command.iter().chain(&container.args).flatten() {
        let word = expand(word, env).map_err(|TooLong| too_long("an argument"))?;
        bytes += word.len();
        if bytes > TOTAL_MAX {
            return Err(config(format!("the arguments are longer than {TOTAL_MAX} bytes together")));
        }
        expanded.push(word);
    }
    Ok(expanded)
}

/// Entries whose key is no name of a variable are left out, as upstream does.
fn import(env: &mut Environment, pod: &Pod, from: &EnvFromSource, objects: &Objects) -> Result<(), Missing> {
    let prefix = from.prefix.as_deref().unwrap_or_default();
    let named = |key: &str| Some(format!("{prefix}{key}")).filter(|name| is_name(name));
    match (&from.config_map_ref, &from.secret_ref) {
        (Some(map), _) => {
            let found = config_map(objects, &map.name, map.optional)?;
            for (key, value) in found.and_then(|found| found.data.as_ref()).into_iter().flatten() {
                if let Some(name) = named(key) {
                    env.set(&name, value.clone())?;
                }
            }
        }
        (None, Some(secret)) => {
            let found = secret_object(objects, &secret.name, secret.optional)?;
            for (key, value) in found.and_then(|found| found.data.as_ref()).into_iter().flatten() {
                if let Some(name) = named(key) {
                    env.set(&name, text(&secret.name, key, value)?)?;
                }
            }
        }
        (None, None) => return Err(config(format!("envFrom of {} has no source", pod.name())).into()),
    }
    Ok(())
}

/// Keys of what `envFrom` names that cannot be names of variables, with the kind and name of their object.
pub fn skipped(container: &Container, objects: &Objects) -> Vec<(String, Vec<String>)> {
    let sources = container.env_from.iter().flatten().filter_map(|from| {
        let (kind, name, keys) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(map), _) => {
                let found = config_map(objects, &map.name, Some(true)).ok()??;
                ("configMap", &map.name, found.data.iter().flatten().map(|(key, _)| key).collect::<Vec<_>>())
            }
            (None, Some(secret)) => {
                let found = secret_object(objects, &secret.name, Some(true)).ok()??;
                ("secret", &secret.name, found.data.iter().flatten().map(|(key, _)| key).collect())
            }
            (None, None) => return None,
        };
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let keys = keys.into_iter().filter(|key| !is_name(&format!("{prefix}{key}"))).cloned();
        Some((format!("{kind} {name}"), keys.collect::<Vec<_>>()))
    });
    sources.filter(|(_, keys)| !keys.is_empty()).collect()
}

/// Any printable ASCII but `=`.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| (' '..='~').contains(&letter) && letter != '=')
}

fn config_map<'a>(
    objects: &'a Objects,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a ConfigMap>, Missing> {
    found(objects.maps.get(name), "configmap", name, optional)
}

fn secret_object<'a>(
    objects: &'a Objects,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a Secret>, Missing> {
    found(objects.secrets.get(name), "secret", name, optional)
}

/// `None`: the object is not there, and need not be.
fn found<'a, K>(
    found: Option<&'a Found<Arc<K>>>,
    kind: &str,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a K>, Missing> {
    match found {
        None | Some(Found::Unknown) => Err(Missing::Looking),
        Some(Found::Present(object)) => Ok(Some(object)),
        Some(Found::Absent) if optional == Some(true) => Ok(None),
        Some(Found::Absent) => Err(config(format!("{kind} {name:?} not found")).into()),
    }
}

/// An entry of a secret as a variable has it. Other bytes are refused, as by upstream's runtimes, and never altered.
fn text(secret: &str, key: &str, value: &ByteString) -> Result<String, Problem> {
    let wrong = |_| config(format!("key {key} in secret {secret:?} is not UTF-8 and cannot be a variable"));
    String::from_utf8(value.0.clone()).map_err(wrong)
}

/// `None`: what it comes from is not there, and need not be.
fn value(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    env: &Environment,
    objects: &Objects,
) -> Result<Option<String>, Missing> {
    let given = variable.value.as_deref().unwrap_or_default();
    match &variable.value_from {
        Some(from) if given.is_empty() => referenced(pod, container, variable, from, objects),
        _ => {
            let wrong = |TooLong| too_long(&format!("variable {:?}", variable.name));
            Ok(Some(expand(given, env).map_err(wrong)?))
        }
    }
}

fn referenced(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    from: &EnvVarSource,
    objects: &Objects,
) -> Result<Option<String>, Missing> {
    let absent = |kind: &str, name: &str, key: &str, optional: Option<bool>| match optional {
        Some(true) => Ok(None),
        _ => {
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
        let found = config_map(objects, &map.name, map.optional)?;
        return match found.and_then(|found| found.data.as_ref()?.get(&map.key)) {
            Some(value) => Ok(Some(value.clone())),
            None => absent("ConfigMap", &map.name, &map.key, map.optional),
        };
    }
    if let Some(secret) = &from.secret_key_ref {
        let found = secret_object(objects, &secret.name, secret.optional)?;
        return match found.and_then(|found| found.data.as_ref()?.get(&secret.key)) {
            Some(value) => Ok(Some(text(&secret.name, &secret.key, value)?)),
            None => absent("Secret", &secret.name, &secret.key, secret.optional),
        };
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

/// More than [`STRING_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// Replaces `$(NAME)`; `$$(NAME)` stands for itself, and so does a name that is not known.
pub fn expand(text: &str, env: &Environment) -> Result<String, TooLong> {
    expand_with(text, env, |_| ())
}

/// [`expand`], but a name that is not known is an error.
pub fn expand_strictly(text: &str, env: &Environment) -> Result<String, String> {
    let mut unknown = None;
    let expanded = expand_with(text, env, |name| {
        unknown.get_or_insert_with(|| name.to_owned());
    });
    match (unknown, expanded) {
        (Some(name), _) => Err(format!("missing value for {name:?}")),
        (None, expanded) => expanded.map_err(|TooLong| format!("longer than {STRING_MAX} bytes")),
    }
}

fn expand_with(text: &str, env: &Environment, mut unknown: impl FnMut(&str)) -> Result<String, TooLong> {
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
        let known = name.and_then(|(name, after)| Some((env.get(name)?, after)));
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
        if out.len() > STRING_MAX {
            return Err(TooLong);
        }
    }
    out.push_str(rest);
    if out.len() > STRING_MAX { Err(TooLong) } else { Ok(out) }
}
