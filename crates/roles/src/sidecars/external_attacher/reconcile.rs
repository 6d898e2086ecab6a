//! What the driver lists as published, beside what attachments say (upstream's VolumeAttachment reconciler).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::Meta;
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::EffectError;
use bowline_proto::csi::v1::list_volumes_response::Entry;
use bowline_proto::csi::v1::{ListVolumesRequest, ListVolumesResponse};

use super::decide::target_of;
use super::model::{Attachment, Key};
use super::role::Attacher;

/// Volume handle → the nodes that it is published to; `None` where the driver does not say.
pub(super) type Published = BTreeMap<String, Option<BTreeSet<String>>>;

/// Attachments that are worked on once more. Losing them costs one interval.
#[derive(Default)]
pub(super) struct Forced(Mutex<BTreeSet<String>>);

impl Forced {
    pub(super) fn get(&self, name: &str) -> bool {
        self.lock().contains(name)
    }
    fn set(&self, name: &str) {
        self.lock().insert(name.to_owned());
    }
    pub(super) fn clear(&self, name: &str) {
        self.lock().remove(name);
    }
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the pass that runs now has listed.
#[derive(Default)]
pub(super) struct Listed(AtomicBool);

impl Listed {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    pub(super) fn set(&self, listed: bool) {
        self.0.store(listed, Ordering::Relaxed);
    }
}

/// Whether an attachment says otherwise than the driver. A volume that the driver does not list is published nowhere.
pub(super) fn differs(seen: &Attachment, published: &Published) -> bool {
    let Ok(target) = target_of(&seen.source) else { return false };
    let Some(node) = seen.node_id.as_ref().or(seen.noted_node_id.as_ref()) else { return false };
    let listed = match published.get(&target.handle) {
        Some(None) => return false,
        Some(Some(nodes)) => nodes.contains(node),
        None => false,
    };
    listed != seen.attached
}

/// Entries without a volume say nothing.
pub(super) fn take(published: &mut Published, entries: Vec<Entry>) {
    for Entry { volume, status } in entries {
        let Some(volume) = volume else { continue };
        published.insert(volume.volume_id, status.map(|s| s.published_node_ids.into_iter().collect()));
    }
}

impl Attacher {
    /// Lists, and has every attachment that differs worked on again. Volumes without an attachment are left alone.
    pub(super) async fn list(&self) -> Result<(), EffectError> {
        let published = self.published().await?;
        for attachment in self.attachments.list() {
            let name = attachment.name();
            let Some(seen) = self.see_attachment(name).filter(|seen| differs(seen, &published)) else {
                continue;
            };
            tracing::warn!(
                attachment = name,
                node = seen.object.spec.node_name,
                attached = seen.attached,
                "the driver lists this volume otherwise than its attachment says, asking it again"
            );
            self.forced.set(name);
            self.queue.add(Key::Attachment(name.to_owned()));
        }
        self.listed.set(true);
        Ok(())
    }

    /// All pages, within one timeout.
    async fn published(&self) -> Result<Published, EffectError> {
        let begun = self.ports.host.uptime.uptime();
        let (mut published, mut token) = (Published::new(), String::new());
        loop {
            let left = self.timeout.saturating_sub(self.ports.host.uptime.uptime().saturating_sub(begun));
            let ListVolumesResponse { entries, next_token } = self.page(token.clone(), left).await?;
            take(&mut published, entries);
            match next_token {
                next if next.is_empty() => return Ok(published),
                next if next == token => {
                    return Err(EffectError::refused(
                        "the driver answers ListVolumes with the token that it was sent, so that its list has no end",
                    ));
                }
                next => token = next,
            }
        }
    }

    async fn page(&self, starting_token: String, left: Duration) -> Result<ListVolumesResponse, EffectError> {
        if left.is_zero() {
            let text = format!("ListVolumes has more pages than the driver can answer in {:?}", self.timeout);
            return Err(EffectError::unknown(text));
        }
        let request = ListVolumesRequest { max_entries: self.flags.max_entries, starting_token };
        let send = |request| async move { self.driver.controller().list_volumes(request).await };
        call(&self.effects, "ListVolumes", "driver", left, Classes::Default, request, send).await
    }
}
