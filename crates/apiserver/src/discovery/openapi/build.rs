//! Documents from the kinds of a registry.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use serde_json::Value;

use super::definitions::Definitions;
use super::operations::{self, Answer, Media, Operation, PathItem, Request, Shared, Subject};
use super::{gnostic, v2, v3};
use crate::protobuf;
use crate::registry::Kind;

/// Everything about some kinds, before it is written.
struct Gathered {
    definitions: Definitions,
    paths: Vec<PathItem>,
}

pub fn group_version(kinds: &[Arc<dyn Kind>]) -> Value {
    let Gathered { definitions, paths } = gather(kinds);
    v3::document(&paths, definitions.finish())
}

pub fn everything(kinds: &[Arc<dyn Kind>]) -> Value {
    let Gathered { definitions, paths } = gather(kinds);
    v2::document(&paths, definitions.finish())
}

/// The bytes of the v2 document in protobuf.
pub fn everything_binary(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    gnostic::document(&everything(kinds))
}

fn gather(kinds: &[Arc<dyn Kind>]) -> Gathered {
    let mut definitions = Definitions::new();
    let mut paths = Vec::new();
    let shared = Shared {
        status: definitions.add::<v1::Status>(),
        patch: definitions.add::<v1::Patch>(),
        delete_options: definitions.add::<v1::DeleteOptions>(),
    };
    definitions.mark(&shared.status, ["", "v1", "Status"]);
    let resources = definitions.add::<v1::APIResourceList>();
    definitions.mark(&resources, ["", "v1", "APIResourceList"]);
    definitions.mark(&shared.delete_options, ["", "v1", "DeleteOptions"]);
    let mut previous = None;
    for kind in kinds {
        let info = kind.info();
        let group_version = (&info.group, &info.version);
        if previous.replace(group_version) != Some(group_version) {
            definitions.mark(&shared.delete_options, [&info.group, &info.version, "DeleteOptions"]);
            paths.push(resource_list(&info.group, &info.version, &resources));
        }
        let schema = definitions.add_kind(kind.as_ref());
        let binary = protobuf::knows(&info.api_version, &info.kind);
        let subject = Subject { info, schema, binary, shared: &shared };
        paths.extend(operations::paths(&subject, &mut definitions));
    }
    Gathered { definitions, paths }
}

/// The path that lists the resources of a group and version.
fn resource_list(group: &str, version: &str, schema: &str) -> PathItem {
    let get = Operation {
        method: "get",
        action: "",
        id: format!("get{}APIResources", operations::prefix(group, version)),
        tag: operations::tag(group, version),
        description: "list the resources of this group and version".into(),
        parameters: Vec::new(),
        request: Request::Nothing,
        media: Media::Object { binary: true },
        answers: vec![(200, Answer::Schema(schema.to_owned()))],
        kind: None,
    };
    PathItem { path: format!("{}/", operations::root(group, version)), operations: vec![get] }
}
