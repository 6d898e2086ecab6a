//! Which rights a request to the kubelet needs: parts of its Node, as upstream divides them.

use bowline_machinery::serve::Attributes;
use http::Method;
use http::request::Parts;

/// Paths whose part of the node is not `proxy`. Where there are two parts, either right is enough.
const PARTS: [(&str, &[&str]); 10] = [
    ("/stats", &["stats"]),
    ("/metrics", &["metrics"]),
    ("/logs", &["log"]),
    ("/checkpoint", &["checkpoint"]),
    ("/statusz", &["statusz"]),
    ("/flagz", &["flagz"]),
    ("/healthz", &["healthz", "proxy"]),
    ("/configz", &["configz", "proxy"]),
    ("/pods", &["pods", "proxy"]),
    ("/runningpods", &["pods", "proxy"]),
];

/// What to ask the API server about a request; one right of them is enough.
pub fn attributes(node_name: &str, request: &Parts) -> Vec<Attributes> {
    let attributes = |subresource: &&str| Attributes::Node {
        verb: verb(&request.method).to_owned(),
        subresource: (*subresource).to_owned(),
        name: node_name.to_owned(),
    };
    parts(request.uri.path()).iter().map(attributes).collect()
}

pub(super) fn parts(path: &str) -> &'static [&'static str] {
    let below = |part: &str| {
        let rest = path.strip_prefix(part);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PARTS.iter().find(|(part, _)| below(part)).map_or(&["proxy"], |(_, parts)| parts)
}

/// Methods without a verb of the API need a right to all verbs.
pub(super) fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn paths_are_parts_of_the_node() {
        let asked = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            let asked = attributes("n-1", &request.into_parts().0);
            let text = asked.into_iter().map(|asked| match asked {
                Attributes::Node { verb, subresource, name } => format!("{verb} {name}/{subresource}"),
                Attributes::Path { path, .. } => path,
            });
            text.collect::<Vec<_>>().join(", ")
        };
        let table = [
            ("GET", "/metrics", "get n-1/metrics"),
            ("GET", "/metrics/cadvisor", "get n-1/metrics"),
            ("GET", "/metricsx", "get n-1/proxy"),
            ("GET", "/stats/summary", "get n-1/stats"),
            ("GET", "/logs/messages", "get n-1/log"),
            ("POST", "/checkpoint/ns/pod/c", "create n-1/checkpoint"),
            ("GET", "/healthz", "get n-1/healthz, get n-1/proxy"),
            ("GET", "/healthz/ping", "get n-1/healthz, get n-1/proxy"),
            ("GET", "/pods", "get n-1/pods, get n-1/proxy"),
            ("GET", "/runningpods/", "get n-1/pods, get n-1/proxy"),
            ("GET", "/configz", "get n-1/configz, get n-1/proxy"),
            ("GET", "/containerLogs/ns/pod/c", "get n-1/proxy"),
            ("GET", "/exec/ns/pod/c", "get n-1/proxy"),
            ("POST", "/exec/ns/pod/c?command=id", "create n-1/proxy"),
            ("GET", "//metrics", "get n-1/proxy"),
            ("OPTIONS", "/exec/ns/pod/c", " n-1/proxy"),
        ];
        for (method, path, expected) in table {
            assert_eq!(asked(method, path), expected, "{method} {path}");
        }
    }
}
