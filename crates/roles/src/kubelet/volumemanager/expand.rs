//! Expanding volumes on this node: NodeExpandVolume, and what the claim's status says of it (reference kube-core.md 6.4).

use bowline_api::{Meta, PersistentVolumeClaim, expansion, volume};
use bowline_machinery::effect::{EffectError, Fate, Part};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tonic::Code;

use super::act::source;
use super::decide::smaller_than_volume;
use super::model::{ExpandFailure, Expanded, Mode, Observed, Presence, SizeSeen, Staging, Target};
use super::request::Source;
use super::role::Manager;

impl Manager {
    /// The driver has published the volume. Containers may use it at once if it has the size that it should have.
    pub(super) fn published(&self, seen: &Observed, target: &Target, mode: Mode) {
        let sized = seen.sizes.get(&target.spec_name).zip(seen.sources.get(&target.spec_name));
        let smaller = sized.is_some_and(|(size, pv)| smaller_than_volume(size, pv));
        let presence = if smaller { Presence::Unexpanded } else { Presence::Present };
        self.memory.update(&seen.volume, |v| v.size.in_use_error = false);
        self.memory.set_mount(&seen.volume, target, mode, presence);
    }

    pub(super) async fn begin_expand(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let claim = &size(seen, target)?.claim;
        let status =
            json!({"allocatedResourceStatuses": {volume::STORAGE: expansion::NODE_RESIZE_IN_PROGRESS}});
        self.write_status(claim, status, true).await.map_err(|error| {
            let step = "MountVolume.NodeExpandVolume failed to mark node expansion in progress";
            EffectError { message: format!("{step}: {error}"), ..error }
        })
    }

    /// One call. A final error is remembered until the claim's status shows it; after any other the call is repeated.
    pub(super) async fn expand(
        &self,
        seen: &Observed,
        target: &Target,
        bytes: i64,
    ) -> Result<(), EffectError> {
        let begun = self.ports.host.uptime.uptime();
        let expanded = self.call_expand(seen, target, bytes).await;
        if expanded.as_ref().is_err_and(EffectError::conflict) {
            return expanded;
        }
        self.sample(seen, "volume_fs_resize", begun, expanded.is_ok());
        let ended = |failure| Some(Expanded { bytes, failure });
        let Err(error) = expanded else {
            self.memory.update(&seen.volume, |v| {
                v.size.ended = ended(None);
                v.size.failures = 0;
            });
            self.tell_expanded(seen, target);
            return Ok(());
        };
        self.memory.update(&seen.volume, |v| v.size.failures = v.size.failures.saturating_add(1));
        self.tell_not_expanded(seen, target, &error);
        if error.fate == Fate::Unknown {
            return Err(error);
        }
        let claim = &size(seen, target)?.claim;
        if expansion::resize_status(claim) == expansion::NODE_RESIZE_IN_PROGRESS {
            let failure = self.failure(seen, claim, error);
            self.memory.update(&seen.volume, |v| v.size.ended = ended(Some(failure)));
            return Ok(());
        }
        if error.code == Code::FailedPrecondition as i32 {
            self.memory.update(&seen.volume, |v| v.size.in_use_error = true);
            return Ok(());
        }
        Err(error)
    }

    async fn call_expand(&self, seen: &Observed, target: &Target, bytes: i64) -> Result<(), EffectError> {
        let (pv, driver) = (source(seen, target)?, self.driver(seen).await?);
        let csi = volume::csi(pv).ok_or_else(|| EffectError::refused("the volume is no CSI volume"))?;
        let able = driver.capabilities;
        if !able.expand {
            let text = format!("NodeExpand is not supported by the CSI driver {}", seen.driver_name);
            return Err(EffectError::refused(text));
        }
        let secrets = self.secrets("NodeExpandSecretRef", csi.node_expand_secret_ref.as_ref()).await?;
        let mode = seen.needs.get(target).map_or(Mode::Filesystem, |need| need.mode);
        let path = match mode {
            Mode::Filesystem => self.paths.mount(target),
            Mode::Block => self.paths.published_device(target),
        };
        let staging = self.paths.staging(&seen.driver_name, &seen.handle, &Staging::of(target, mode));
        let staging = able.stage_unstage.then_some(staging.as_path());
        let source = Source { pv, csi, context: Default::default(), secrets, able, fs_group: None };
        let request = source.expand(staging, &path, bytes).map_err(EffectError::refused)?;
        let send = |request| async move { driver.connection.node().node_expand_volume(request).await };
        let answer = self.call("NodeExpandVolume", seen, request, send).await?;
        // RES-1: the claim is never promised more than the driver has confirmed; 0 means that it did not say.
        if (1..bytes).contains(&answer.capacity_bytes) {
            let text = format!(
                "driver {} answered NodeExpandVolume with {} bytes, {bytes} were required",
                seen.driver_name, answer.capacity_bytes
            );
            return Err(EffectError::refused(text));
        }
        Ok(())
    }

    /// After an earlier final error, a request that has changed since is what the controller should work on: with
    /// `infeasible` it may.
    fn failure(&self, seen: &Observed, claim: &PersistentVolumeClaim, error: EffectError) -> ExpandFailure {
        let failed = self.memory.get(&seen.volume).and_then(|v| v.size.failed_request);
        let changed = failed.is_some_and(|failed| volume::requested_bytes(claim) != Ok(failed));
        let codes = [Code::InvalidArgument, Code::OutOfRange, Code::NotFound];
        let infeasible = changed || codes.iter().any(|code| *code as i32 == error.code);
        ExpandFailure { code: error.code, message: error.message, infeasible }
    }

    /// RES-1: status follows what the driver has confirmed.
    pub(super) async fn finish_expand(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let claim = &size(seen, target)?.claim;
        let pv = source(seen, target)?;
        let of_volume = || pv.spec.as_ref()?.capacity.as_ref()?.get(volume::STORAGE);
        let Some(capacity) = expansion::allocated(claim).or_else(of_volume) else {
            return Err(EffectError::refused(format!("volume {} has no capacity", target.spec_name)));
        };
        let conditions = claim.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let ended = conditions.filter(|c| expansion::RESIZE_CONDITIONS.contains(&c.type_.as_str()));
        let ended: Vec<Value> = ended.map(|c| json!({"$patch": "delete", "type": c.type_})).collect();
        let mut status = json!({"capacity": {volume::STORAGE: capacity}});
        if !expansion::resize_status(claim).is_empty() {
            status["allocatedResourceStatuses"] = json!({volume::STORAGE: null});
        }
        if !ended.is_empty() {
            status["conditions"] = ended.into();
        }
        self.write_status(claim, status, true).await?;
        self.settle(seen, target);
        Ok(())
    }

    /// The claim says what went wrong, and whether the controller may try another size.
    pub(super) async fn fail_expand(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let SizeSeen { claim, ended, .. } = size(seen, target)?;
        let failure = ended.as_ref().and_then(|ended| ended.failure.clone());
        let Some(ExpandFailure { code, message, infeasible }) = failure else { return Ok(()) };
        let mut status = json!({});
        if infeasible {
            status["allocatedResourceStatuses"] = json!({volume::STORAGE: expansion::NODE_RESIZE_INFEASIBLE});
        }
        let mut conditions = claim.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let told = conditions.any(|c| c.type_ == expansion::NODE_RESIZE_ERROR && c.status == "True");
        if !told {
            status["conditions"] = json!([{
                "type": expansion::NODE_RESIZE_ERROR,
                "status": "True",
                "lastTransitionTime": Time(self.ports.host.clock.now()),
                "message": format!("failed to expand pvc with {message}"),
            }]);
        }
        // Without the version: whatever else has changed, this has happened.
        self.write_status(claim, status, false).await?;
        let in_use = code == Code::FailedPrecondition as i32;
        let request = volume::requested_bytes(claim).ok();
        self.memory.update(&seen.volume, |v| {
            (v.size.ended, v.size.failed_request) = (None, request);
            v.size.in_use_error |= in_use;
        });
        match infeasible || in_use {
            true => Ok(()),
            false => Err(EffectError { fate: Fate::Refused, code: 0, message }),
        }
    }

    /// The volume has its size, or is left as it is; containers may use it.
    pub(super) fn settle(&self, seen: &Observed, target: &Target) {
        let desired = seen.sources.get(&target.spec_name).and_then(|pv| volume::capacity_bytes(pv).ok());
        let blocked = seen.sizes.get(&target.spec_name).is_some_and(|size| size.in_use_error);
        self.memory.update(&seen.volume, |v| {
            if !blocked {
                v.size.known = v.size.known.max(desired.unwrap_or_default());
                v.size.failed_request = None;
            }
            v.size.ended = None;
            v.size.failures = 0;
        });
        if let Some(need) = seen.needs.get(target)
            && need.presence == Presence::Unexpanded
        {
            self.memory.set_mount(&seen.volume, target, need.mode, Presence::Present);
        }
    }

    pub(super) fn settle_read_only(&self, seen: &Observed, target: &Target) {
        let text = format!(
            "MountVolume.NodeExpandVolume failed for volume \"{}\" requested read-only file system",
            target.spec_name
        );
        self.tell_pod_and_claim(seen, target, "FileSystemResizeFailed", &text, true);
        self.settle(seen, target);
    }

    /// A strategic merge patch. On a conflict the claim is read again, so that the next decision sees it.
    async fn write_status(
        &self,
        claim: &PersistentVolumeClaim,
        status: Value,
        guarded: bool,
    ) -> Result<(), EffectError> {
        let mut patch = json!({"status": status});
        if guarded {
            patch["metadata"] =
                json!({"resourceVersion": claim.metadata.resource_version, "uid": claim.uid()});
        }
        let written = self.effects.patch_strategic(Part::Status, claim, patch).await;
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.conflict() => {
                let (namespace, name) = (claim.namespace(), claim.name());
                if let Some(live) = self.effects.get_live::<PersistentVolumeClaim>(namespace, name).await? {
                    self.claims.note(live);
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    fn tell_expanded(&self, seen: &Observed, target: &Target) {
        let (volume, node) = (&target.spec_name, &self.node_name);
        let text = format!("MountVolume.NodeExpandVolume succeeded for volume \"{volume}\" {node}");
        self.tell_pod_and_claim(seen, target, "FileSystemResizeSuccessful", &text, false);
    }

    /// While a pod waits for it, this is why its volume is not mounted.
    fn tell_not_expanded(&self, seen: &Observed, target: &Target, error: &EffectError) {
        let name = &target.spec_name;
        let Some(need) = seen.needs.get(target) else { return };
        let text = match (need.presence, need.mode) {
            (Presence::Unexpanded, Mode::Filesystem) => {
                format!("MountVolume.Setup failed while expanding volume for volume \"{name}\" : {error}")
            }
            (Presence::Unexpanded, Mode::Block) => format!(
                "MapVolume.MarkVolumeAsMounted failed while expanding volume for volume \"{name}\" : {error}"
            ),
            _ => {
                let text =
                    format!("NodeExpandVolume.NodeExpandVolume failed for volume \"{name}\" : {error}");
                if let Some(pod) = seen.pods.get(&target.pod_uid) {
                    self.recorder.warning(pod.as_ref(), "VolumeResizeFailed", text);
                }
                return;
            }
        };
        self.tell(seen, target, &text);
    }

    fn tell_pod_and_claim(
        &self,
        seen: &Observed,
        target: &Target,
        reason: &'static str,
        text: &str,
        warning: bool,
    ) {
        if let Some(pod) = seen.pods.get(&target.pod_uid) {
            match warning {
                true => self.recorder.warning(pod.as_ref(), reason, text),
                false => self.recorder.normal(pod.as_ref(), reason, text),
            }
        }
        if let Some(size) = seen.sizes.get(&target.spec_name) {
            match warning {
                true => self.recorder.warning(size.claim.as_ref(), reason, text),
                false => self.recorder.normal(size.claim.as_ref(), reason, text),
            }
        }
    }
}

fn size<'a>(seen: &'a Observed, target: &Target) -> Result<&'a SizeSeen, EffectError> {
    let gone = || EffectError::unknown(format!("the claim of volume {} is gone", target.spec_name));
    seen.sizes.get(&target.spec_name).ok_or_else(gone)
}
