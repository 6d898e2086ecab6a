//! What a request is: the names by which faults are planned and counted.

use http::{Method, Request};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Write,
    Read,
    Watch,
}

/// A request in the words of the journal: `patch-status persistentvolumeclaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub sort: Sort,
    pub name: String,
    /// `namespace/name`, as far as the request says.
    pub object: String,
}

/// What a request to the API server would do.
pub fn of_request<B>(request: &Request<B>) -> Effect {
    let path = request.uri().path().trim_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let rest = match parts.first() {
        Some(&"api") => parts.get(2..).unwrap_or_default(),
        _ => parts.get(3..).unwrap_or_default(),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let kind = singular(rest.first().copied().unwrap_or("discovery"));
    let name = rest.get(1).copied().unwrap_or_default();
    let part = rest.get(2).copied();
    let watching =
        request.uri().query().is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"));
    let (sort, verb) = match (request.method(), part) {
        (&Method::GET, _) if watching => (Sort::Watch, "watch".to_owned()),
        (&Method::GET, _) if name.is_empty() => (Sort::Read, "list".to_owned()),
        (&Method::GET, _) => (Sort::Read, "get".to_owned()),
        (&Method::POST, Some(part)) => (Sort::Write, part.to_owned()),
        (&Method::POST, None) => (Sort::Write, "create".to_owned()),
        (&Method::PUT, part) => (Sort::Write, on("update", part)),
        (&Method::PATCH, part) => (Sort::Write, on("patch", part)),
        (_, part) => (Sort::Write, on("delete", part)),
    };
    Effect { sort, name: format!("{verb} {kind}"), object: format!("{namespace}/{name}") }
}

fn on(verb: &str, part: Option<&str>) -> String {
    part.map_or(verb.to_owned(), |part| format!("{verb}-{part}"))
}

fn singular(resource: &str) -> String {
    match resource.strip_suffix("sses") {
        Some(stem) => format!("{stem}ss"),
        None => match resource.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => resource.strip_suffix('s').unwrap_or(resource).to_owned(),
        },
    }
}

/// A failpoint around an effect, as the effect and whether it is behind it: `kubelet.patch-status.node.after`.
///
/// A gap between two effects of the driver is known by its own name.
pub fn of_point(point: &str) -> Option<(String, bool)> {
    if point.starts_with("local.") {
        return Some((point.to_owned(), false));
    }
    let (rest, after) = match (point.strip_suffix(".before"), point.strip_suffix(".after")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        (None, None) => return None,
    };
    let (rest, kind) = rest.rsplit_once('.')?;
    let action = rest.rsplit_once('.').map_or(rest, |(_, action)| action);
    // A call to a driver has the name of the call alone.
    let name =
        if action.starts_with(char::is_uppercase) { action.to_owned() } else { format!("{action} {kind}") };
    Some((name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_failpoint_have_one_name() {
        let table = [
            ("PATCH", "/api/v1/nodes/n/status", "patch-status node"),
            ("POST", "/api/v1/namespaces/default/pods/p/binding", "binding pod"),
            ("POST", "/apis/storage.k8s.io/v1/volumeattachments", "create volumeattachment"),
            ("DELETE", "/api/v1/namespaces/default/pods/p", "delete pod"),
            ("GET", "/apis/storage.k8s.io/v1/storageclasses?watch=true", "watch storageclass"),
            ("GET", "/api/v1/namespaces/default", "get namespace"),
        ];
        for (method, path, name) in table {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            assert_eq!(of_request(&request).name, name, "{method} {path}");
        }
        let point = |text| of_point(text).unwrap();
        assert_eq!(point("kubelet.patch-status.node.after"), ("patch-status node".to_owned(), true));
        assert_eq!(
            point("external-provisioner.CreateVolume.persistentvolumeclaim.before"),
            ("CreateVolume".to_owned(), false)
        );
        assert_eq!(point("local.node-stage.after-mkfs"), ("local.node-stage.after-mkfs".to_owned(), false));
    }
}
