//! Waits until the kinds are served: a cluster without the definitions costs one question now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_machinery::{Client, Ports};
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;

/// First pause between two questions; the longest one is the caller's.
const PAUSE: Duration = Duration::from_millis(100);

/// Kinds that belong together: the path under which their group and version is served, and their plural names.
#[derive(Debug, Clone, Copy)]
pub(in crate::sidecars) struct Kinds {
    path: &'static str,
    plurals: &'static [&'static str],
}

pub(in crate::sidecars) const SNAPSHOTS: Kinds = Kinds {
    path: "/apis/snapshot.storage.k8s.io/v1",
    plurals: &["volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses"],
};

/// Returns once all of them are. Any user may ask, as discovery is open to all. No watch tells when a definition appears
/// unless one may read definitions, which upstream's roles do not grant; so it is asked again with a growing pause.
pub(in crate::sidecars) async fn served(ports: &Ports, role: &str, kinds: Kinds, pause_max: Duration) {
    let (mut pause, mut told) = (PAUSE, false);
    while !all_served(&ports.client, kinds).await {
        if !told {
            let group = kinds.path.trim_start_matches("/apis/");
            tracing::info!(
                role,
                group,
                "waiting: the API server does not serve these kinds; install their CustomResourceDefinitions to use snapshots"
            );
            told = true;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(pause_max);
    }
}

async fn all_served(client: &Client, kinds: Kinds) -> bool {
    let Ok(request) = Request::get(kinds.path).body(Vec::new()) else { return false };
    // A server that cannot be reached serves nothing, either; the log has its own line about that.
    let Ok(list) = client.request::<APIResourceList>(request).await else { return false };
    let names: BTreeSet<&str> = list.resources.iter().map(|resource| resource.name.as_str()).collect();
    kinds.plurals.iter().all(|plural| names.contains(plural))
}
