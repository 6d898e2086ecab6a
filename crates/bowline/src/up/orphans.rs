//! Volumes that no claim and no PersistentVolume speaks of.
//!
//! A claim that is deleted while its volume is being created can leave the volume behind. At start both sides are known:
//! the pool before any role runs, and the objects. A volume with the name that the provisioner derives from a claim, of
//! which neither claim nor PersistentVolume is there, is reported. It is removed only if it holds nothing at all: after the
//! loss of the store every volume looks like this, and those with data must stay for a person to decide about.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_api::{Meta, Node, PersistentVolume, PersistentVolumeClaim};
use bowline_drivers::inventory::{self, Stored};
use bowline_host::Host;
use bowline_machinery::csi::{self, Classes, Driver};
use bowline_machinery::{Client, Ports};
use bowline_proto::csi::v1::DeleteVolumeRequest;
use kube::Api;
use kube::api::ListParams;

use super::Config;

const COMPONENT: &str = "bowline";
const REASON: &str = "OrphanVolume";
/// How the provisioner names a volume: this and the claim's uid.
const PREFIX: &str = "pvc-";
const DELETE_TIMEOUT: Duration = Duration::from_secs(60);

/// A volume without owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    volume: Stored,
    /// Whether nothing is lost with it.
    remove: bool,
}

/// Compares the pool with the objects. The pool first: a volume that is not in it now is younger than this start.
pub async fn find(config: &Config, host: &Host, client: &Client) -> Result<Vec<Orphan>> {
    let stored = inventory::list(host, &config.pool()).await.context("read which volumes the pool holds")?;
    if stored.is_empty() {
        return Ok(Vec::new());
    }
    let volumes = Api::<PersistentVolume>::all(client.clone()).list(&ListParams::default()).await;
    let volumes = volumes.context("list PersistentVolumes")?;
    let claims = Api::<PersistentVolumeClaim>::all(client.clone()).list(&ListParams::default()).await;
    let claims = claims.context("list PersistentVolumeClaims")?;
    let handle = |volume: &PersistentVolume| {
        let source = volume.spec.as_ref()?.csi.as_ref()?;
        Some((source.driver.clone(), source.volume_handle.clone()))
    };
    let handles = volumes.items.iter().filter_map(handle).collect();
    let uids = claims.items.iter().filter_map(|claim| claim.meta().uid.clone()).collect();
    Ok(decide(stored, &handles, &uids))
}

/// Which volumes are orphans, and which of them may go.
fn decide(
    stored: Vec<Stored>,
    handles: &BTreeSet<(String, String)>,
    claims: &BTreeSet<String>,
) -> Vec<Orphan> {
    let is_orphan = |volume: &Stored| {
        let uid = volume.name.strip_prefix(PREFIX).filter(|uid| is_uid(uid) && volume.id == volume.name);
        let known = handles.contains(&(volume.driver.to_owned(), volume.id.clone()));
        uid.is_some_and(|uid| !known && !claims.contains(uid))
    };
    let orphans = stored.into_iter().filter(is_orphan);
    orphans.map(|volume| Orphan { remove: volume.unused, volume }).collect()
}

/// `8-4-4-4-12` hexadecimal digits.
fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// Reports every orphan and removes those that hold nothing. What fails is tried again at the next start.
pub async fn settle(config: &Config, ports: &Ports, orphans: Vec<Orphan>) {
    if orphans.is_empty() {
        return;
    }
    let node = match Api::<Node>::all(ports.client.clone()).get(&config.node_name).await {
        Ok(node) => Some(node),
        Err(error) => {
            tracing::warn!(%error, "orphan volumes are reported in the log only");
            None
        }
    };
    let recorder = ports.recorder(COMPONENT);
    for orphan in orphans {
        let outcome = match orphan.remove {
            true => match remove_if_still_orphan(config, ports, &orphan).await {
                Ok(()) => "it was empty and is removed".to_owned(),
                Err(why) => format!("it is empty and could not be removed: {why}; the next start tries again"),
            },
            false => "it holds data and stays; create a PersistentVolume for it, or delete it with a PersistentVolume \
                      of reclaim policy Delete"
                .to_owned(),
        };
        let Stored { driver, id, .. } = &orphan.volume;
        let message =
            format!("volume `{id}` of {driver} has neither a claim nor a PersistentVolume: {outcome}");
        tracing::warn!(driver, volume = id, "{message}");
        if let Some(node) = &node {
            recorder.warning(node, REASON, message);
        }
    }
}

/// The start may have taken long, and a person may have given the volume an owner meanwhile: both sides are looked at
/// again.
async fn remove_if_still_orphan(config: &Config, ports: &Ports, orphan: &Orphan) -> Result<(), String> {
    let now = find(config, &ports.host, &ports.client).await.map_err(|error| format!("{error:#}"))?;
    if !now.contains(orphan) {
        return Err("it is not an empty orphan any more".to_owned());
    }
    remove(config, ports, &orphan.volume).await
}

/// The driver has the last word: it refuses what is in use.
async fn remove(config: &Config, ports: &Ports, volume: &Stored) -> Result<(), String> {
    let driver = Driver::at(&ports.host, config.driver_socket(volume.driver));
    let request = DeleteVolumeRequest { volume_id: volume.id.clone(), ..Default::default() };
    let (effects, mut controller) = (ports.effects(COMPONENT), driver.controller());
    let sent = csi::call(
        &effects,
        "DeleteVolume",
        &volume.id,
        DELETE_TIMEOUT,
        Classes::Default,
        request,
        |request| async move { controller.delete_volume(request).await },
    );
    sent.await.map(drop).map_err(|error| error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "353aaccf-ef5f-4540-a144-9ffc3410a96d";
    const DRIVER: &str = "local.csi.bowline.dev";

    fn volume(name: &str, unused: bool) -> Stored {
        Stored { driver: DRIVER, id: name.to_owned(), name: name.to_owned(), unused }
    }

    #[test]
    fn which_volumes_are_orphans_and_which_go() {
        let ours = format!("pvc-{UID}");
        let handle = |driver: &str| BTreeSet::from([(driver.to_owned(), ours.clone())]);
        let (none, claim) = (BTreeSet::new(), BTreeSet::from([UID.to_owned()]));
        let hashed = Stored { id: "v-1".into(), ..volume(&ours, true) };
        let table = [
            ("empty, without owner", volume(&ours, true), BTreeSet::new(), &none, Some(true)),
            ("with data, without owner", volume(&ours, false), BTreeSet::new(), &none, Some(false)),
            ("its claim is there", volume(&ours, true), BTreeSet::new(), &claim, None),
            ("its PersistentVolume is there", volume(&ours, true), handle(DRIVER), &none, None),
            ("a PersistentVolume of another driver", volume(&ours, true), handle("other"), &none, Some(true)),
            ("made by hand", volume("data", true), BTreeSet::new(), &none, None),
            ("made by hand with the prefix", volume("pvc-1", true), BTreeSet::new(), &none, None),
            ("another id than its name", hashed, BTreeSet::new(), &none, None),
        ];
        for (name, stored, handles, claims, expected) in table {
            let found = decide(vec![stored], &handles, claims);
            assert_eq!(found.first().map(|orphan| orphan.remove), expected, "{name}");
        }
    }
}
