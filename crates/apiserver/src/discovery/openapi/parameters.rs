//! Parameters of paths and queries, each described once.

/// Where a parameter stands, what it holds, what it means.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// In the path, which requires it; otherwise in the query.
    pub in_path: bool,
    pub type_: &'static str,
    pub description: &'static str,
}

pub const READ: &[&str] = &["pretty"];
pub const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "pretty"];
pub const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force", "pretty"];
pub const DELETE: &[&str] =
    &["dryRun", "gracePeriodSeconds", "orphanDependents", "pretty", "propagationPolicy"];
pub const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
pub const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "labelSelector",
    "limit",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
];
pub const LOG: &[&str] = &[
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "pretty",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
];
pub const EXEC: &[&str] = &["command", "container", "stderr", "stdin", "stdout", "tty"];

const fn query(name: &'static str, type_: &'static str, description: &'static str) -> Parameter {
    Parameter { name, in_path: false, type_, description }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, in_path: true, type_: "string", description }
}

/// By name.
const ALL: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean", "Lets the server send bookmarks, which tell how far a watch is."),
    query("command", "string", "The program to run and its arguments, one parameter each."),
    query("container", "string", "The container; not needed if the pod has only one."),
    query("continue", "string", "Where a list goes on: the token that came with the page before."),
    query("dryRun", "string", "`All` goes through every step of the request and stores nothing."),
    query("fieldManager", "string", "The name under which changes are recorded in managedFields."),
    query("fieldSelector", "string", "Limits the objects to those whose fields match."),
    query(
        "fieldValidation",
        "string",
        "What becomes of unknown and duplicate fields: `Ignore` drops them, `Warn` (the default) drops them and says so, `Strict` refuses the request.",
    ),
    query("follow", "boolean", "Goes on with the log as it grows."),
    query("force", "boolean", "Takes over fields that other managers applied. Only for apply patches."),
    query("gracePeriodSeconds", "integer", "How long the object may take to end; 0 ends it at once."),
    query("insecureSkipTLSVerifyBackend", "boolean", "Does not verify the certificate of the node."),
    query("labelSelector", "string", "Limits the objects to those whose labels match."),
    query("limit", "integer", "The most objects to return; the answer then says where to continue."),
    query("limitBytes", "integer", "The most bytes of log to return."),
    path("name", "The name of the object."),
    path("namespace", "The namespace of the objects."),
    query("orphanDependents", "boolean", "Deprecated: whether dependents stay. Use propagationPolicy."),
    query("pretty", "string", "`true` indents the answer."),
    query("previous", "boolean", "The log of the container that ended before this one."),
    query(
        "propagationPolicy",
        "string",
        "What becomes of dependents: `Orphan` keeps them, `Background` deletes them afterwards, `Foreground` deletes them first.",
    ),
    query("resourceVersion", "string", "The version that the answer must not be older than."),
    query("resourceVersionMatch", "string", "`Exact` or `NotOlderThan`: how resourceVersion is meant."),
    query("sendInitialEvents", "boolean", "Begins a watch with what is there, and a bookmark behind it."),
    query("sinceSeconds", "integer", "Only what was logged in the last so many seconds."),
    query("stderr", "boolean", "Returns standard error."),
    query("stdin", "boolean", "Sends standard input."),
    query("stdout", "boolean", "Returns standard output."),
    query("stream", "string", "Which stream of the log: `All`, `Stdout` or `Stderr`."),
    query("tailLines", "integer", "Only the last so many lines."),
    query("timeoutSeconds", "integer", "How long a watch lasts."),
    query("timestamps", "boolean", "Puts the time before each line."),
    query("tty", "boolean", "Gives the program a terminal."),
    query("watch", "boolean", "Returns changes as they happen instead of a list."),
];

pub fn named(name: &str) -> Option<&'static Parameter> {
    ALL.iter().find(|parameter| parameter.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_described_once() {
        for used in [READ, WRITE, PATCH, DELETE, LIST, DELETE_COLLECTION, LOG, EXEC].concat() {
            assert!(named(used).is_some(), "{used}");
        }
        assert!(ALL.is_sorted_by(|a, b| a.name < b.name));
    }
}
