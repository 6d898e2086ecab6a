//! Taking the kubelet directory, also one that an older version of Bowline left without an id.
//!
//! Nothing in that directory says whose it is, so the pods in it have to be known here: from the objects, or, for a pod
//! whose object is gone, from the record of its container.

use anyhow::{Context, Result};
use bowline_api::{Meta, Pod, pod};
use bowline_host::Host;
use bowline_machinery::Client;
use bowline_roles::kubelet::{KnownPods, Owned, Owner, OwnerFlags};
use kube::Api;
use kube::api::ListParams;

use super::Config;
use crate::installation::Installation;

/// Takes the kubelet directory for this installation, before anything in it is touched.
pub async fn take_kubelet_dir(
    config: &Config,
    host: &Host,
    client: &Client,
    installation: &mut Installation,
) -> Result<Owned> {
    let known = match installation.older() {
        true => Some(known_pods(host, client).await?),
        false => None,
    };
    let (id, node_name, older) = (installation.id(), &config.node_name, known.as_ref());
    let owner = Owner { id, node_name, older, flags: OwnerFlags::UP };
    let owned = Owned::take(host, &config.kubelet_dir, owner).await?;
    // A process that dies before this finds the id, and does not ask for the pods again.
    installation.note_kubelet_dir()?;
    Ok(owned)
}

async fn known_pods(host: &Host, client: &Client) -> Result<KnownPods> {
    let containers = host.containers.list().await.context("list the containers of an older version")?;
    let uid = |id: &str| id.split('/').next().map(str::to_owned);
    let mut known: KnownPods =
        containers.iter().filter_map(|found| uid(&found.id)).map(|uid| (uid, None)).collect();
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await;
    for found in pods.context("list the pods of an older version")?.items {
        let node = Some(pod::node_name(&found)).filter(|node| !node.is_empty());
        known.insert(found.uid().to_owned(), node.map(str::to_owned));
    }
    Ok(known)
}
