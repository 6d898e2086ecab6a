//! One effect per action; how it ended goes into the memory.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use bowline_api::{Meta, Node, PersistentVolume, Pod, Secret, VolumeAttachment, name, node, volume};
use bowline_machinery::effect::{EffectError, Fate};
use bowline_machinery::secrets;
use k8s_openapi::api::core::v1::SecretReference;

use super::model::{Action, Mode, Observed, Presence, Staging, Target, Why};
use super::request::Source;
use super::role::Manager;
use crate::kubelet::pluginmanager::Registered;
use crate::kubelet::{PATIENCE, Reported, fs_group};

/// Limit of each call to a driver.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

impl Manager {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match action {
            Action::ListInUse => {
                self.in_use.insert(&seen.volume);
                Ok(())
            }
            Action::Report(target, text) => {
                self.tell(&seen, &target, &text);
                self.memory.update(&seen.volume, |v| {
                    if let Some(mount) = v.mounts.get_mut(&target) {
                        mount.reported = Some(Reported::after(mount.reported.take(), text, seen.now));
                    }
                });
                Ok(())
            }
            Action::ReportNode(text) => {
                self.tell_node("FailedUnmount", &text);
                self.memory.update(&seen.volume, |v| {
                    v.reported = Some(Reported::after(v.reported.take(), text, seen.now));
                });
                Ok(())
            }
            Action::Stage(target) => self.attempt(&seen, target, Call::Stage).await,
            Action::Publish(target) => self.attempt(&seen, target, Call::Publish).await,
            Action::Republish(target) => self.republish(&seen, &target).await,
            Action::Unpublish(target) => self.attempt(&seen, target, Call::Unpublish).await,
            Action::Unstage(staging) => self.unstage_or_tell(&seen, &staging).await,
            Action::CheckAttachLimit(target) => self.check_attach_limit(&seen, &target).await,
            Action::BeginExpand(target) => self.begin_expand(&seen, &target).await,
            Action::Expand(target, bytes) => self.expand(&seen, &target, bytes).await,
            Action::FinishExpand(target) => self.finish_expand(&seen, &target).await,
            Action::FailExpand(target) => self.fail_expand(&seen, &target).await,
            Action::Settle(target) => {
                self.settle(&seen, &target);
                Ok(())
            }
            Action::SettleReadOnly(target) => {
                self.settle_read_only(&seen, &target);
                Ok(())
            }
            Action::Forget => {
                self.memory.forget(&seen.volume);
                self.alarms.forget(&seen.volume);
                self.in_use.remove(&seen.volume);
                Ok(())
            }
        }
    }
}

/// A call to the driver for one pod.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Stage,
    Publish,
    Unpublish,
}

impl Manager {
    /// Counts failures, and tells the pod what went wrong with its mount.
    async fn attempt(&self, seen: &Observed, target: Target, call: Call) -> Result<(), EffectError> {
        let mode = seen.needs.get(&target).map_or(Mode::Filesystem, |n| n.mode);
        let begun = self.begins(seen, &target, call);
        let done = match (call, mode) {
            (Call::Stage, _) => self.stage(seen, &target, mode).await,
            (Call::Publish, Mode::Filesystem) => self.publish_filesystem(seen, &target).await,
            (Call::Publish, Mode::Block) => self.publish_device(seen, &target).await,
            (Call::Unpublish, Mode::Filesystem) => self.unpublish_filesystem(seen, &target).await,
            (Call::Unpublish, Mode::Block) => self.unpublish_device(seen, &target).await,
        };
        self.memory.attempted(&seen.volume, &target, done.is_ok());
        self.measure(seen, &target, (call, mode, begun), &done);
        if matches!(call, Call::Publish) && done.as_ref().is_err_and(stage_is_gone) {
            // The repeat of the stage makes it good.
            self.memory.set_stage(&seen.volume, &Staging::of(&target, mode), Presence::Uncertain);
        }
        let step = match (call, mode) {
            (Call::Stage, Mode::Filesystem) => "MountVolume.MountDevice",
            (Call::Publish, Mode::Filesystem) => "MountVolume.SetUp",
            (Call::Stage, Mode::Block) => "MapVolume.SetUpDevice",
            (Call::Publish, Mode::Block) => "MapVolume.MapPodDevice",
            (Call::Unpublish, Mode::Filesystem) => "UnmountVolume.TearDown",
            (Call::Unpublish, Mode::Block) => "UnmapVolume.TearDown",
        };
        match (done, call) {
            // What was given up because the pod has ended is no news for it.
            (Err(error), Call::Stage | Call::Publish) if !self.wants(&target.pod_uid) => Err(error),
            // Nothing failed: what the decision was made on has changed.
            (Err(error), _) if error.conflict() => Err(error),
            (Err(error), Call::Unpublish) => {
                Err(self.told(seen, &target, step, self.shown(&target, mode, error)))
            }
            (done, _) => done.map_err(|error| self.told(seen, &target, step, error)),
        }
    }

    /// Adds the command that shows what is still mounted for a pod.
    fn shown(&self, target: &Target, mode: Mode, error: EffectError) -> EffectError {
        let path = match mode {
            Mode::Filesystem => self.paths.mount(target),
            Mode::Block => self.paths.mapped(target),
        };
        EffectError { message: format!("{error}; {}", find_mount(&path)), ..error }
    }

    pub(super) fn told(
        &self,
        seen: &Observed,
        target: &Target,
        step: &str,
        error: EffectError,
    ) -> EffectError {
        let message = format!("{step} failed for volume \"{}\" : {error}", target.spec_name);
        self.tell(seen, target, &message);
        EffectError { message, ..error }
    }

    pub(super) fn tell(&self, seen: &Observed, target: &Target, text: &str) {
        let Some(pod) = seen.pods.get(&target.pod_uid) else { return };
        let mapping = text.starts_with("MapVolume") && !text.contains("NodeAffinity");
        let unmounting = text.starts_with("Unm");
        let reason = match (unmounting, mapping) {
            (true, _) => "FailedUnmount",
            (false, true) => "FailedMapVolume",
            (false, false) => "FailedMount",
        };
        self.recorder.warning(pod.as_ref(), reason, text);
    }

    /// What attaching left for the driver: `publish_context`. Asked of the API server before each call: the cache may be
    /// behind a detach that has begun (reference kube-core.md 9.3.1), and the volume may have been attached again since the
    /// last call, as another device.
    pub(super) async fn publish_context(
        &self,
        seen: &Observed,
    ) -> Result<BTreeMap<String, String>, EffectError> {
        if seen.inline || !volume::attach_required(seen.csi_driver.as_deref()) {
            return Ok(BTreeMap::new());
        }
        let live = self.effects.get_live::<Node>("", &self.node_name).await?;
        if !live.is_some_and(|n| node::volumes_attached(&n).contains(&seen.volume.as_str())) {
            return Err(EffectError::refused("Volume not attached according to node status"));
        }
        let attachment = name::attachment(&seen.handle, &seen.driver_name, &self.node_name);
        let live = self.effects.get_live::<VolumeAttachment>("", &attachment).await?;
        let live = live.filter(|attachment| volume::attached(attachment) && !attachment.deleting());
        match live.and_then(|a| a.status) {
            Some(status) => Ok(status.attachment_metadata.unwrap_or_default()),
            None => Err(EffectError::refused(format!("volume attachment {attachment} is not attached"))),
        }
    }

    /// A driver that can attach no more volumes here says so with ResourceExhausted. The scheduler learns the new number,
    /// and the pod is given up, so that another node gets its successor (reference kube-core.md 4.17).
    async fn check_attach_limit(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let name = name::attachment(&seen.handle, &seen.driver_name, &self.node_name);
        let attachment = self.effects.get_live::<VolumeAttachment>("", &name).await?;
        let error = attachment.and_then(|a| a.status).and_then(|status| status.attach_error);
        let exhausted =
            error.and_then(|error| error.error_code) == Some(tonic::Code::ResourceExhausted as i32);
        let volume = seen.needs.get(target).map(|need| need.volume.clone()).unwrap_or_default();
        let why = format!(
            "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[{volume}], unattached volumes=[{volume}], failed to process volumes=[]"
        );
        self.memory.update(&seen.volume, |v| {
            if let Some(mount) = v.mounts.get_mut(target) {
                mount.limit_checked = Some(seen.now);
                mount.attach_limit = exhausted.then_some(why);
            }
        });
        if exhausted {
            self.drivers.refresh(&seen.driver_name);
            self.memory.changed(&target.pod_uid);
        }
        Ok(())
    }

    /// Stages for all pods; a filesystem and a device differ only in their paths.
    async fn stage(&self, seen: &Observed, target: &Target, mode: Mode) -> Result<(), EffectError> {
        let staging = Staging::of(target, mode);
        let (pv, driver) = (source(seen, target)?, self.driver(seen).await?);
        let csi = volume::csi(pv).ok_or_else(|| EffectError::refused("the volume is no CSI volume"))?;
        let context = self.publish_context(seen).await?;
        let secrets = self.secrets("NodeStageSecretRef", csi.node_stage_secret_ref.as_ref()).await?;
        let before = seen.stages.get(&staging).copied().unwrap_or_default();
        let path = self.paths.staging(&seen.driver_name, &seen.handle, &staging);
        let (able, fs_group) = (driver.capabilities, fs_group::fs_group(pod(seen, target)?));
        let source = Source { pv, csi, context, secrets, able, fs_group };
        let request = source.stage(&path).map_err(EffectError::refused)?;

        self.record_stage(seen, &staging, &path).await?;
        self.memory.set_stage(&seen.volume, &staging, Presence::Uncertain);
        let send = |request| async move { driver.connection.node().node_stage_volume(request).await };
        let staged = self.call("NodeStageVolume", seen, request, send).await;
        if refused_cleanly(&staged, before) {
            self.clean_stage(seen, &staging).await?;
            self.memory.set_stage(&seen.volume, &staging, Presence::Absent);
        }
        staged?;
        self.memory.set_stage(&seen.volume, &staging, Presence::Present);
        Ok(())
    }

    /// No pod is there any more to be told of a failure: the node is.
    async fn unstage_or_tell(&self, seen: &Observed, staging: &Staging) -> Result<(), EffectError> {
        let begun = self.ports.host.uptime.uptime();
        let unstaged = self.unstage(seen, staging).await;
        self.measure_unstage(seen, staging, begun, &unstaged);
        if let Err(error) = &unstaged {
            let path = self.paths.staging(&seen.driver_name, &seen.handle, staging);
            let (step, volume) = match staging {
                Staging::Filesystem => ("UnmountDevice", seen.volume.as_str()),
                Staging::Block(spec_name) => ("UnmapDevice", spec_name.as_str()),
            };
            let text = format!("{step} failed for volume \"{volume}\" : {error}; {}", find_mount(&path));
            self.tell_node("FailedUnmount", &text);
        }
        unstaged
    }

    fn tell_node(&self, reason: &'static str, text: &str) {
        if let Some(node) = self.ports.informers.of::<Node>().named(&self.node_name) {
            self.recorder.warning(node.as_ref(), reason, text);
        }
    }

    async fn unstage(&self, seen: &Observed, staging: &Staging) -> Result<(), EffectError> {
        let driver = self.driver(seen).await?;
        self.unreferenced(seen, staging).await?;
        self.memory.set_stage(&seen.volume, staging, Presence::Uncertain);
        if driver.capabilities.stage_unstage {
            let path = self.paths.staging(&seen.driver_name, &seen.handle, staging);
            let request = bowline_proto::csi::v1::NodeUnstageVolumeRequest {
                volume_id: seen.handle.clone(),
                staging_target_path: path.display().to_string(),
            };
            let send = |request| async move { driver.connection.node().node_unstage_volume(request).await };
            self.call("NodeUnstageVolume", seen, request, send).await?;
        }
        self.clean_stage(seen, staging).await?;
        self.memory.set_stage(&seen.volume, staging, Presence::Absent);
        Ok(())
    }

    pub(super) async fn driver(&self, seen: &Observed) -> Result<Registered, EffectError> {
        let missing = || EffectError::unknown(Why::DriverMissing(seen.driver_name.clone()).to_string());
        let found = self.drivers.get(&seen.driver_name).ok_or_else(missing)?;
        self.drivers.current(&self.effects, found).await
    }

    pub(super) async fn secrets(
        &self,
        field: &str,
        reference: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>, EffectError> {
        let Some(reference) = reference else { return Ok(BTreeMap::new()) };
        let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let failed = |why: String| EffectError {
            fate: Fate::Unknown,
            code: 0,
            message: format!("kubernetes.io/csi: failed to get {field} {namespace}/{name}: {why}"),
        };
        let secret = self.effects.get_live::<Secret>(namespace, name).await;
        let secret = secret.map_err(|e| failed(e.message))?;
        let secret = secret.ok_or_else(|| failed(format!("secrets {name:?} not found")))?;
        secrets::entries(secret).map_err(|e| failed(e.message))
    }

    /// One call to the driver, with upstream's time limit and classes.
    pub(super) async fn call<Q, A, F, Fut>(
        &self,
        rpc: &'static str,
        seen: &Observed,
        request: Q,
        send: F,
    ) -> Result<A, EffectError>
    where
        Q: std::fmt::Debug,
        A: std::fmt::Debug,
        F: FnOnce(tonic::Request<Q>) -> Fut,
        Fut: Future<Output = Result<tonic::Response<A>, tonic::Status>>,
    {
        let classes = bowline_machinery::csi::Classes::Default;
        let object = format!("volume {}", seen.handle);
        let effects = self.effects.clone().measured_on_node(&self.ports.metrics, &seen.driver_name);
        let call = bowline_machinery::csi::call(&effects, rpc, &object, CALL_TIMEOUT, classes, request, send);
        let mut call = pin!(call);
        if let Ok(answer) = tokio::time::timeout(PATIENCE, &mut call).await {
            return answer;
        }
        self.tell_slow(rpc, seen);
        call.await
    }

    /// The driver has not answered for so long that a person may wonder: the pods of the volume are told, or the node if
    /// there is none.
    fn tell_slow(&self, rpc: &str, seen: &Observed) {
        let reason = if rpc.starts_with("NodeUn") { "FailedUnmount" } else { "FailedMount" };
        let text = format!(
            "driver {} has not answered {rpc} for volume \"{}\" for {PATIENCE:?}; waiting up to {CALL_TIMEOUT:?}",
            seen.driver_name, seen.handle
        );
        for pod in seen.pods.values() {
            self.recorder.warning(pod.as_ref(), reason, text.as_str());
        }
        if seen.pods.is_empty() {
            self.tell_node(reason, &text);
        }
    }

    /// A change of files, as an effect of its own: with crash points and an entry in the journal.
    pub(super) async fn on_disk(
        &self,
        what: &str,
        path: &Path,
        change: impl Future<Output = io::Result<()>>,
    ) -> Result<(), EffectError> {
        let shown = path.display();
        let failed = |e: io::Error| EffectError::refused(format!("{what} `{shown}`: {e}"));
        self.effects.run(what, &format!("path {shown}"), async { change.await.map_err(failed) }).await
    }
}

/// The command that shows what is mounted at a path and below.
fn find_mount(path: &Path) -> String {
    format!("`findmnt -R {}` shows it", path.display())
}

/// Somebody unmounted or detached the staged volume behind our back, and the driver says so.
fn stage_is_gone(error: &EffectError) -> bool {
    [tonic::Code::FailedPrecondition as i32, tonic::Code::NotFound as i32].contains(&error.code)
}

/// A refusal proves that nothing is there only if nothing was there before (the answer to an earlier call may have
/// been lost).
pub fn refused_cleanly<T>(result: &Result<T, EffectError>, before: Presence) -> bool {
    before == Presence::Absent && result.as_ref().is_err_and(|e| e.fate == Fate::Refused)
}

pub fn source<'a>(seen: &'a Observed, target: &Target) -> Result<&'a PersistentVolume, EffectError> {
    let gone = || EffectError::unknown(format!("volume {} is gone", target.spec_name));
    seen.sources.get(&target.spec_name).map(|pv| pv.as_ref()).ok_or_else(gone)
}

pub fn pod<'a>(seen: &'a Observed, target: &Target) -> Result<&'a Pod, EffectError> {
    let gone = || EffectError::unknown(format!("pod {} is gone", target.pod_uid));
    seen.pods.get(&target.pod_uid).map(|pod| pod.as_ref()).ok_or_else(gone)
}
