//! Which resource a path means.

use super::query::decoded;

/// A path below `/api/v1` or `/apis/group/version`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// `None` for cluster-scoped resources and for lists over all namespaces.
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The older way of watching: `/api/v1/watch/…`.
    pub watch: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    Resource(ResourcePath),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/group`
    Group(String),
    /// `/api/v1`, `/apis/group/version`
    Resources {
        group: String,
        version: String,
    },
    /// Anything else, without the leading slash.
    Other(String),
}

/// Subresources of a namespace; any other third segment is a resource inside it.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

/// A path as it is divided into its parts: decoded first, because a slash is one however it is spelled. Whoever asks
/// what a path means has to begin here: one who may read `/api/*` must not get at `/api%2Fv1/secrets`.
pub fn plain(path: &str) -> String {
    decoded(path).trim_matches('/').to_owned()
}

/// A path below a group and version, divided as upstream's gate does. Gate and dispatcher both begin with this, so that
/// what is let pass is what is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divided<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    /// Before the resource: from the days when watches had paths of their own.
    pub verb: Option<&'a str>,
    /// Also for a namespace itself; empty if there is none.
    pub namespace: &'a str,
    /// Whether it is about something in that namespace, not about the namespace itself.
    pub inside: bool,
    /// The resource, a name, a subresource and what follows.
    pub rest: &'a [&'a str],
}

const VERBS: [&str; 2] = ["proxy", "watch"];

impl<'a> Divided<'a> {
    /// `None` for what is no resource. `all` are the segments of a [`plain`] path.
    pub fn of(all: &'a [&'a str]) -> Option<Self> {
        let (group, version, rest) = match all {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return None,
        };
        let (verb, rest) = match rest {
            [verb, inside @ ..] if VERBS.contains(verb) && !inside.is_empty() => (Some(*verb), inside),
            _ => (None, rest),
        };
        let (namespace, inside, rest) = match rest {
            ["namespaces", namespace, below @ ..] => match below.first() {
                Some(sub) if !OF_NAMESPACES.contains(sub) => (*namespace, true, below),
                _ => (*namespace, false, rest),
            },
            _ => ("", false, rest),
        };
        Some(Self { group, version, verb, namespace, inside, rest })
    }
}

pub fn parse(path: &str) -> Path {
    if path.starts_with("//") {
        return Path::Other(path.to_owned());
    }
    let whole = plain(path);
    let all: Vec<&str> = whole.split('/').collect();
    let other = || Path::Other(path.trim_matches('/').to_owned());
    match all[..] {
        ["api"] => Path::CoreVersions,
        ["apis"] => Path::Groups,
        ["apis", group] => Path::Group(group.into()),
        ["api", version] => Path::Resources { group: String::new(), version: version.into() },
        ["apis", group, version] => Path::Resources { group: group.into(), version: version.into() },
        _ => Divided::of(&all).and_then(resource).map_or_else(other, Path::Resource),
    }
}

fn resource(divided: Divided<'_>) -> Option<ResourcePath> {
    let Divided { group, version, verb, namespace, inside, rest } = divided;
    // The gate takes the other one for a verb, too. Nothing is served there.
    let watch = match verb {
        None => false,
        Some("watch") => true,
        Some(_) => return None,
    };
    let (plural, name, subresource) = match *rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name), None),
        [plural, name, sub] => (plural, Some(name), Some(sub)),
        _ => return None,
    };
    if plural.is_empty() {
        return None;
    }
    // Upstream reads an empty namespace as all of them.
    let namespace = Some(namespace).filter(|namespace| inside && !namespace.is_empty());
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Some(ResourcePath {
        group: group.into(),
        version: version.into(),
        namespace: owned(namespace),
        plural: plural.into(),
        name: owned(name),
        subresource: owned(subresource),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let r = |group: &str, namespace: Option<&str>, rest: &str| {
            let mut rest = rest.split('/').map(str::to_owned);
            Path::Resource(ResourcePath {
                group: group.into(),
                version: "v1".into(),
                namespace: namespace.map(str::to_owned),
                plural: rest.next().unwrap(),
                name: rest.next(),
                subresource: rest.next(),
                watch: false,
            })
        };
        let cases = [
            ("/api", Path::CoreVersions),
            ("/apis/", Path::Groups),
            ("/apis/storage.k8s.io", Path::Group("storage.k8s.io".into())),
            ("/api/v1", Path::Resources { group: "".into(), version: "v1".into() }),
            ("/api/v1/pods", r("", None, "pods")),
            ("/api/v1/namespaces", r("", None, "namespaces")),
            ("/api/v1/namespaces/a", r("", None, "namespaces/a")),
            ("/api/v1/namespaces/a/status", r("", None, "namespaces/a/status")),
            ("/api/v1/namespaces/a/pods", r("", Some("a"), "pods")),
            ("/api/v1/namespaces/a/pods/b", r("", Some("a"), "pods/b")),
            ("/api/v1/namespaces/a/pods/b/status", r("", Some("a"), "pods/b/status")),
            ("/api/v1/persistentvolumes/b%20c", r("", None, "persistentvolumes/b c")),
            ("/apis/storage.k8s.io/v1/storageclasses", r("storage.k8s.io", None, "storageclasses")),
            ("/api/v1/namespaces//pods", r("", None, "pods")),
            ("/api/v1/namespaces//status", r("", None, "namespaces//status")),
            ("/api/v1/namespaces/a/namespaces", r("", Some("a"), "namespaces")),
            ("/api/v1/namespaces/a/namespaces/a", r("", Some("a"), "namespaces/a")),
            ("/api/v1/pods/", r("", None, "pods")),
            ("//api/v1/pods", Path::Other("//api/v1/pods".into())),
            ("/api/v1/watch", r("", None, "watch")),
            ("/api%2Fv1/pods", r("", None, "pods")),
            ("/api/v1/pods%2F", r("", None, "pods")),
            ("/api/v1/namespaces/a/pods/b%2fexec", r("", Some("a"), "pods/b/exec")),
            ("/version", Path::Other("version".into())),
            ("/", Path::Other("".into())),
            ("/api/v1/a/b/c/d", Path::Other("api/v1/a/b/c/d".into())),
        ];
        for (path, want) in cases {
            assert_eq!(parse(path), want, "{path}");
        }
        let Path::Resource(old) = parse("/api/v1/watch/namespaces/a/pods/b") else { panic!("a resource") };
        assert_eq!((old.watch, old.plural, old.name), (true, "pods".into(), Some("b".into())));
    }
}
