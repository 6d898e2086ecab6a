//! Which series a request belongs to. Every label has few values, whatever clients send.

use http::Method;

use crate::discovery;
use crate::http::path::{Path, ResourcePath};
use crate::registry::{KindInfo, Registry, Text};

const COMPONENT: &str = "apiserver";
/// Subresources that are streams of their own.
const CONNECT: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
/// Paths that are no resources and are counted apart.
const PATHS: [&str; 9] =
    ["/api", "/apis", "/healthz", "/livez", "/readyz", "/metrics", "/openapi/v2", "/openapi/v3", "/version"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Labels {
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    pub subresource: Text,
    pub verb: &'static str,
    pub scope: &'static str,
    pub dry_run: &'static str,
    pub component: &'static str,
}

/// What of a request counts.
pub struct Seen<'a> {
    pub method: &'a Method,
    pub path: &'a Path,
    /// Whether it has the parameter `watch`.
    pub watch: bool,
    pub dry_run: bool,
    /// Whether its body is an apply patch.
    pub apply: bool,
}

impl Labels {
    /// `None` for what is not counted.
    pub fn of(registry: &Registry, seen: &Seen<'_>) -> Option<Self> {
        match seen.path {
            Path::Resource(resource) => {
                let kind = registry.kind(&resource.group, &resource.version, &resource.plural)?;
                Some(Self::of_resource(kind.info(), resource, seen))
            }
            Path::CoreVersions => Self::of_path("api", seen.method),
            Path::Groups | Path::Group(_) | Path::Resources { .. } => Self::of_path("apis", seen.method),
            Path::Other(path) => Self::of_path(path, seen.method),
        }
    }

    fn of_resource(info: &KindInfo, resource: &ResourcePath, seen: &Seen<'_>) -> Self {
        // Whatever else a client wrote there does not become a label.
        let known = |asked: &&str| discovery::subresources(info).iter().any(|(name, ..)| name == asked);
        let subresource = resource.subresource.as_deref().filter(known);
        let subresource: Text = subresource.map(|name| name.to_owned().into()).unwrap_or_default();
        let named = resource.name.is_some();
        let verb = match *seen.method {
            _ if CONNECT.contains(&&*subresource) => "CONNECT",
            Method::GET if seen.watch && !named => "WATCH",
            Method::GET if named => "GET",
            Method::GET => "LIST",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH if seen.apply => "APPLY",
            Method::PATCH => "PATCH",
            Method::DELETE if named => "DELETE",
            Method::DELETE => "DELETECOLLECTION",
            _ => "other",
        };
        let scope = match (named, &resource.namespace) {
            (true, _) => "resource",
            (false, Some(_)) => "namespace",
            (false, None) => "cluster",
        };
        Self {
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.names.plural.clone(),
            subresource,
            verb,
            scope,
            dry_run: if seen.dry_run { "All" } else { "" },
            component: COMPONENT,
        }
    }

    fn of_path(path: &str, method: &Method) -> Option<Self> {
        let known = PATHS.iter().find(|known| {
            let rest = path.strip_prefix(&known[1..]);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        let verb = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            _ => "other",
        };
        Some(Self { subresource: (*known).into(), verb, ..Self::default() })
    }

    /// Those that outlast their request.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb, "WATCH" | "CONNECT")
    }

    /// Those whose answers are measured.
    pub fn is_read(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }
}
