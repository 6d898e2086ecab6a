//! Paths as authorizers read them.

use http::Method;
use proptest::prelude::*;

use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::http::path::{self, Path};

/// verb, group/version, namespace, resource/subresource, name, fields
fn shown(asked: &Attributes) -> String {
    match asked {
        Attributes::Path { verb, path } => format!("{verb} {path}"),
        Attributes::Resource(ResourceAttributes {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            fields,
        }) => {
            let fields: Vec<String> =
                fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
            let all = [verb, group, version, namespace, resource, subresource, name, &fields.join(",")];
            all.map(String::as_str).join("|")
        }
    }
}

#[test]
fn requests() {
    let (get, post, put, patch, delete) =
        (Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE);
    let table = [
        (&get, "/", "", "get /"),
        (&get, "/api", "", "get /api"),
        (&get, "/api/v1", "", "get /api/v1"),
        (&get, "/apis/apps/v1", "", "get /apis/apps/v1"),
        (&post, "/version", "", "post /version"),
        (&Method::HEAD, "/livez/", "", "head /livez/"),
        (&get, "/api/v1/pods", "", "list||v1||pods|||"),
        (&Method::HEAD, "/api/v1/nodes/n", "", "get||v1||nodes||n|"),
        (&get, "/api/v1/pods", "watch=1", "watch||v1||pods|||"),
        (&get, "/api/v1/pods", "watch=false", "list||v1||pods|||"),
        (&get, "/api/v1/namespaces", "", "list||v1||namespaces|||"),
        (&get, "/api/v1/namespaces/a", "", "get||v1|a|namespaces||a|"),
        (&put, "/api/v1/namespaces/a/finalize", "", "update||v1|a|namespaces|finalize|a|"),
        (&get, "/api/v1/namespaces/a/pods/b/log", "", "get||v1|a|pods|log|b|"),
        (&post, "/api/v1/namespaces/a/pods/b/proxy/c/d", "", "create||v1|a|pods|proxy|b|"),
        (&post, "/api/v1/namespaces/a/bindings", "", "create||v1|a|bindings|||"),
        (&patch, "/apis/apps/v1/namespaces/a/deployments/b", "", "patch|apps|v1|a|deployments||b|"),
        (
            &delete,
            "/apis/storage.k8s.io/v1/storageclasses",
            "",
            "deletecollection|storage.k8s.io|v1||storageclasses|||",
        ),
        (&delete, "/api/v1/nodes/n", "", "delete||v1||nodes||n|"),
        (&get, "/api/v1/watch/namespaces/a/pods", "", "watch||v1|a|pods|||"),
        (&get, "/api/v1/persistentvolumes/b%20c", "", "get||v1||persistentvolumes||b c|"),
        (&get, "/api%2Fv1/secrets", "", "list||v1||secrets|||"),
        (
            &post,
            "/api/v1/namespaces/a/serviceaccounts/b%2Ftoken",
            "",
            "create||v1|a|serviceaccounts|token|b|",
        ),
        (
            &get,
            "/api/v1/namespaces/a/secrets",
            "fieldSelector=metadata.name%3Dx",
            "list||v1|a|secrets||x|metadata.name=x",
        ),
        (&get, "/api/v1/secrets", "fieldSelector=metadata.name%21%3Dx", "list||v1||secrets|||"),
        (&get, "/api/v1/secrets", "fieldSelector=metadata.name%3D..", "list||v1||secrets|||metadata.name=.."),
        (
            &get,
            "/api/v1/pods",
            "fieldSelector=spec.nodeName%3D%3Dn,status.phase%21%3DFailed",
            "list||v1||pods|||spec.nodeName=n",
        ),
    ];
    for (method, path, query, want) in table {
        assert_eq!(shown(&Attributes::of(method, path, query)), want, "{method} {path}?{query}");
    }
}

/// What the gate lets pass is what is then served.
fn check_same_reading(path: &str) -> Result<(), String> {
    let Path::Resource(served) = path::parse(path) else { return Ok(()) };
    let Attributes::Resource(asked) = Attributes::of(&Method::POST, path, "") else {
        return Err(format!("{path} is served and was asked for as no resource"));
    };
    let in_namespace = served.plural != "namespaces";
    let served_namespace = served.namespace.clone().unwrap_or_default();
    let asked_for =
        (asked.group, asked.version, asked.resource, asked.name, asked.subresource, asked.verb == "watch");
    let (name, subresource) = (served.name.unwrap_or_default(), served.subresource.unwrap_or_default());
    let is_served = (served.group, served.version, served.plural, name, subresource, served.watch);
    if asked_for != is_served || (in_namespace && asked.namespace != served_namespace) {
        return Err(format!("{path}: the gate reads {asked_for:?}, the dispatcher {is_served:?}"));
    }
    Ok(())
}

#[test]
fn the_gate_and_the_dispatcher_read_a_path_the_same() {
    const PARTS: [&str; 15] = [
        "api",
        "apis",
        "v1",
        "g",
        "namespaces",
        "pods",
        "a",
        "status",
        "finalize",
        "exec",
        "watch",
        "proxy",
        "",
        "%2F",
        "b%2Fc",
    ];
    let paths = proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..9);
    proptest!(|(begin in proptest::sample::select(&["/api/v1/", "/apis/g/v1/", "/api%2fv1%2f", "/", "//"][..]), parts in paths)| {
        let path = format!("{begin}{}", parts.join("/"));
        check_same_reading(&path).map_err(TestCaseError::fail)?;
    });
}

/// Every path of up to six segments, also empty ones, below a version: chance finds few of those.
#[test]
fn every_short_path_is_read_the_same_by_gate_and_dispatcher() {
    const PARTS: [&str; 8] = ["namespaces", "", "status", "finalize", "watch", "proxy", "a", "%2F"];
    for begin in ["/api/v1", "/apis/g/v1"] {
        let mut paths = vec![begin.to_owned()];
        for _ in 0..5 {
            paths = paths.iter().flat_map(|path| PARTS.map(|part| format!("{path}/{part}"))).collect();
            let faults: Vec<String> =
                paths.iter().filter_map(|path| check_same_reading(path).err()).take(3).collect();
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }
}
