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
pub const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

/// A path as it is divided into its parts: decoded first, because a slash is one however it is spelled. Whoever asks
/// what a path means has to begin here: one who may read `/api/*` must not get at `/api%2Fv1/secrets`.
pub fn plain(path: &str) -> String {
    decoded(path).trim_matches('/').to_owned()
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
        ["api", version, ref rest @ ..] => resource("", version, rest).map_or_else(other, Path::Resource),
        ["apis", group, version, ref rest @ ..] => {
            resource(group, version, rest).map_or_else(other, Path::Resource)
        }
        _ => other(),
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Option<ResourcePath> {
    let (watch, rest) = match rest {
        ["watch", watched @ ..] if !watched.is_empty() => (true, watched),
        // The gate takes this for a verb. Nothing is served there.
        ["proxy", _, ..] => return None,
        _ => (false, rest),
    };
    let (namespace, rest) = match rest {
        // Upstream reads an empty namespace as all of them.
        ["namespaces", "", inside @ ..] if !inside.is_empty() => (None, inside),
        ["namespaces", _] => (None, rest),
        ["namespaces", _, sub, ..] if OF_NAMESPACES.contains(sub) => (None, rest),
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (Some(*namespace), inside),
        _ => (None, rest),
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
