//! What the driver lists, and what the cluster has. Only reads.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_api::{CSINode, Meta, PersistentVolume, VolumeAttachment, keys, volume};
use bowline_machinery::client::Client;
use bowline_machinery::csi::{Classes, Driver, call};
use bowline_machinery::{Effects, Identity};
use bowline_proto::csi::v1::{ListSnapshotsRequest, ListVolumesRequest};
use serde_json::Value;

use super::compare::{Attachment, Cluster, Listed, Owner};

/// Objects of one answer of the API server.
const PAGE: u32 = 500;
/// Where contents are, if the CRDs are installed.
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";

/// A driver that is asked for its lists.
pub struct Asked<'a> {
    pub driver: &'a Driver,
    pub identity: &'a Identity,
    pub effects: &'a Effects,
    pub timeout: Duration,
}

impl Asked<'_> {
    /// All pages of ListVolumes.
    pub async fn volumes(&self) -> Result<Vec<Listed>> {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let request = ListVolumesRequest { max_entries: 0, starting_token: token.clone() };
            let driver = self.driver;
            let send = |request| async move { driver.controller().list_volumes(request).await };
            let (effects, classes) = (self.effects, Classes::Default);
            let answer =
                call(effects, "ListVolumes", "volumes", self.timeout, classes, request, send).await?;
            for entry in answer.entries {
                let nodes = entry.status.map(|status| status.published_node_ids).unwrap_or_default();
                found.extend(entry.volume.map(|volume| Listed { id: volume.volume_id, nodes }));
            }
            token = next(&token, answer.next_token)?;
            if token.is_empty() {
                return Ok(found);
            }
        }
    }

    /// All pages of ListSnapshots.
    pub async fn snapshots(&self) -> Result<Vec<Listed>> {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let request = ListSnapshotsRequest { starting_token: token.clone(), ..Default::default() };
            let driver = self.driver;
            let send = |request| async move { driver.controller().list_snapshots(request).await };
            let (effects, classes) = (self.effects, Classes::Default);
            let answer =
                call(effects, "ListSnapshots", "snapshots", self.timeout, classes, request, send).await?;
            let ids = answer.entries.into_iter().filter_map(|entry| entry.snapshot);
            found.extend(ids.map(|snapshot| Listed { id: snapshot.snapshot_id, nodes: Vec::new() }));
            token = next(&token, answer.next_token)?;
            if token.is_empty() {
                return Ok(found);
            }
        }
    }
}

/// A driver that answers with the token that it was given would be asked for ever.
fn next(before: &str, token: String) -> Result<String> {
    if !token.is_empty() && token == before {
        bail!("the driver answered twice with the same next_token `{token}`");
    }
    Ok(token)
}

/// Volumes and attachments of a driver, from the store itself.
pub async fn volumes(client: &Client, driver: &str) -> Result<Cluster> {
    let all: Vec<PersistentVolume> =
        objects(client, "/api/v1/persistentvolumes").await?.context("persistentvolumes are not served")?;
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    let nodes: Vec<CSINode> = objects(client, nodes).await?.context("csinodes are not served")?;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachments: Vec<VolumeAttachment> =
        objects(client, attachments).await?.context("volumeattachments are not served")?;
    let owners: Vec<Owner> = all
        .iter()
        .filter_map(|object| volume::csi(object).map(|csi| (object, csi)))
        .filter(|(_, csi)| csi.driver == driver)
        .map(|(object, csi)| Owner {
            name: format!("persistentvolume/{}", object.name()),
            uid: object.uid().to_owned(),
            handle: csi.volume_handle.clone(),
        })
        .collect();
    let handles: BTreeMap<&str, &str> = all
        .iter()
        .filter_map(|object| Some((object.name(), volume::csi(object)?.volume_handle.as_str())))
        .collect();
    let ours = attachments.iter().filter(|attachment| attachment.spec.attacher == driver);
    let attachments = ours.map(|attachment| read_attachment(attachment, &handles, &nodes, driver)).collect();
    Ok(Cluster { owners, attachments })
}

fn read_attachment(
    attachment: &VolumeAttachment,
    handles: &BTreeMap<&str, &str>,
    nodes: &[CSINode],
    driver: &str,
) -> Attachment {
    let source = &attachment.spec.source;
    let inline =
        source.inline_volume_spec.as_ref().and_then(|spec| Some(spec.csi.as_ref()?.volume_handle.as_str()));
    let noted = attachment.annotation(keys::ATTACHMENT_VOLUME_HANDLE);
    let named = source.persistent_volume_name.as_deref().and_then(|name| handles.get(name).copied());
    let node = nodes.iter().find(|node| node.name() == attachment.spec.node_name);
    let known = node.and_then(|node| node.spec.drivers.iter().find(|one| one.name == driver));
    // What the driver was told at the attach counts more than what the node is called now.
    let told = attachment.annotation(keys::ATTACHMENT_NODE_ID).map(String::from);
    Attachment {
        name: attachment.name().to_owned(),
        uid: attachment.uid().to_owned(),
        handle: named.or(inline).or(noted).unwrap_or_default().to_owned(),
        node: attachment.spec.node_name.clone(),
        node_id: told.or_else(|| known.map(|one| one.node_id.clone())),
        attached: volume::attached(attachment),
    }
}

/// VolumeSnapshotContents of a driver; none where their CRDs are not installed.
pub async fn contents(client: &Client, driver: &str) -> Result<Cluster> {
    let all: Vec<Value> = objects(client, CONTENTS).await?.unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = all.iter().filter(|content| content["spec"]["driver"] == driver);
    let owners = ours.filter_map(|content| {
        let made = content["status"]["snapshotHandle"].as_str();
        let handle = made.or_else(|| content["spec"]["source"]["snapshotHandle"].as_str())?.to_owned();
        let name = format!("volumesnapshotcontent/{}", text(&content["metadata"]["name"]));
        Some(Owner { name, uid: text(&content["metadata"]["uid"]), handle })
    });
    Ok(Cluster { owners: owners.collect(), attachments: Vec::new() })
}

/// Every object of a kind, page by page; `None` where the kind is not served.
async fn objects<K: serde::de::DeserializeOwned>(client: &Client, path: &str) -> Result<Option<Vec<K>>> {
    let (mut items, mut token) = (Vec::new(), String::new());
    loop {
        let uri = match token.is_empty() {
            true => format!("{path}?limit={PAGE}"),
            false => format!("{path}?limit={PAGE}&continue={token}"),
        };
        let request = http::Request::get(&uri).body(Vec::new()).context("make a request")?;
        let mut list = match client.request::<Value>(request).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("list {path}")),
        };
        token = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        for item in list["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            items.push(serde_json::from_value(item).with_context(|| format!("read an object of {path}"))?);
        }
        if token.is_empty() {
            return Ok(Some(items));
        }
    }
}
