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

    /// Rules with one verb, one resource or path, and at most one name each, which together say the same. They are
    /// made one by one, because a short rule may have very many: see [`Rule::size`].
    pub fn broken_down(&self) -> impl Iterator<Item = Self> {
        let resources = self.api_groups.iter().flat_map(move |group| {
            let of_group = self
                .resources
                .iter()
                .flat_map(|resource| self.verbs.iter().map(move |verb| (resource, verb)));
            of_group.flat_map(move |(resource, verb)| {
                self.named().map(move |names| Self {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: names.to_vec(),
                    non_resource_urls: Vec::new(),
                })
            })
        });
        let urls = self.non_resource_urls.iter().flat_map(|url| {
            self.verbs.iter().map(|verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            })
        });
        resources.chain(urls)
    }

    /// Each name alone; one empty list if any name will do.
    fn named(&self) -> impl Iterator<Item = &[String]> {
        let any = self.resource_names.is_empty().then_some(&[][..]);
        any.into_iter().chain(self.resource_names.chunks(1))
    }

    /// How many rules it breaks down into.
    pub fn size(&self) -> usize {
        let lists =
            [self.api_groups.len(), self.resources.len(), self.verbs.len(), self.resource_names.len().max(1)];
        let resources = lists.into_iter().fold(1, usize::saturating_mul);
        resources.saturating_add(self.non_resource_urls.len().saturating_mul(self.verbs.len()))
    }

    /// Whether this rule allows everything that another one does. Not every such rule is found: the parts of one may
    /// be covered by several others.
    pub fn covers_whole(&self, other: &Self) -> bool {
        // Names count for resources alone, so a rule of both kinds must be looked at in parts.
        (other.resources.is_empty() || other.non_resource_urls.is_empty()) && self.covers(other)
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
