//! One rule: what it allows, and what it covers of another.

use serde::{Deserialize, Deserializer, Serialize};

use crate::auth::attributes::Attributes;

/// Stands for every verb, group, resource or path.
const ALL: &str = "*";

/// `PolicyRule` of rbac.authorization.k8s.io/v1, in its order of fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    #[serde(deserialize_with = "or_none")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "or_none", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "or_none", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "or_none", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "or_none", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// A list that may be null.
pub fn or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

/// Whether a list names something, or everything.
fn names(list: &[String], wanted: &str) -> bool {
    has(list, ALL) || has(list, wanted)
}

impl Rule {
    /// All there is.
    pub fn everything() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        let resources = Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() };
        [resources, Self { verbs: all(), non_resource_urls: all(), ..Self::default() }]
    }

    pub fn allows(&self, asked: &Attributes) -> bool {
        if !names(&self.verbs, asked.verb()) {
            return false;
        }
        match asked {
            Attributes::Path { path, .. } => self.non_resource_urls.iter().any(|own| covers_path(own, path)),
            Attributes::Resource(asked) => {
                names(&self.api_groups, &asked.group)
                    && self.names_resource(&asked.resource, &asked.subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, &asked.name))
            }
        }
    }

    /// A resource by its name, a subresource by both names or as `*/subresource`.
    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| match own.split_once('/') {
            _ if own == ALL => true,
            None => subresource.is_empty() && own == resource,
            Some((of, sub)) => !subresource.is_empty() && sub == subresource && (of == ALL || of == resource),
        })
    }

    /// Rules with one verb, one resource or path, and at most one name each, which together say the same.
    pub fn broken_down(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let named: Vec<Vec<String>> = match self.resource_names.is_empty() {
            true => vec![Vec::new()],
            false => self.resource_names.iter().map(|name| vec![name.clone()]).collect(),
        };
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    parts.extend(named.iter().map(|names| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: names.clone(),
                        non_resource_urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &self.non_resource_urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether this rule allows everything that a broken down one does.
    pub fn covers(&self, part: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|item| names(own, item));
        let resource = |path: &String| {
            let any = path.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")));
            names(&self.resources, path) || any
        };
        let named = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| has(&self.resource_names, name)));
        let url = |url: &String| self.non_resource_urls.iter().any(|own| covers_path(own, url));
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(resource)
            && part.non_resource_urls.iter().all(url)
            && named
    }

    /// As upstream prints it to people.
    pub fn compact(&self) -> String {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = lists.iter().filter(|(_, list)| !list.is_empty());
        let parts: Vec<String> = shown.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// `["a" "b"]`, as Go prints a list of strings.
pub fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

/// The same path, or one that a trailing star leaves open.
fn covers_path(own: &str, path: &str) -> bool {
    own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}
