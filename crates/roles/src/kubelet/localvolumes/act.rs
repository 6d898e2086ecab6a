//! One effect per action.

use std::io;
use std::path::Path;
use std::time::Duration;

use bowline_api::{Meta, ServiceAccount};
use bowline_host::disk::{GroupChange, GroupGrant};
use bowline_host::kernel::KernelError;
use bowline_machinery::effect::EffectError;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};

use super::decide::{decide, set_up_failed};
use super::model::{Action, Observed, Presence, State, Step, Want};
use super::plan::TokenSource;
use super::role::Manager;
use super::tokens::Token;
use super::view::directory;
use super::writer;
use crate::kubelet::{Reported, fs_group};

/// Anybody may use a volume's directory; the modes of its files say what they may do.
const DIRECTORY_MODE: u32 = 0o777;
/// What stands above volumes.
const PARENT_MODE: u32 = 0o750;
const FAILED_MOUNT: &str = "FailedMount";
const FAILED_UNMOUNT: &str = "FailedUnmount";

impl Manager {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        let path = directory(&self.kubelet_dir, &seen.uid, seen.state.plugin, &seen.name);
        let host = &self.ports.host;
        match action {
            Action::RequestToken(wanted) => return self.request_token(&wanted, &seen).await,
            Action::MakeDirectory => {
                // An error does not say that nothing was made.
                self.update(&seen, |state| state.directory = Presence::Uncertain);
                self.on_disk("make", &path, self.make(&seen.uid, &path)).await?;
                self.update(&seen, |state| state.directory = Presence::Present);
            }
            Action::MountMemory(size) => {
                self.update(&seen, |state| state.mount = Presence::Uncertain);
                self.on_kernel("mount memory", &path, self.mount(&path, size)).await?;
                self.update(&seen, |state| state.mount = Presence::Present);
            }
            Action::GiveToGroup(gid) => {
                let Some((pod, plan)) = &seen.asked else { return Ok(()) };
                // The top is changed last, so what an earlier process gave away whole is not walked again.
                let change = GroupChange::OnRootMismatch;
                let grant = GroupGrant { gid, change, read_only: plan.sources.is_some() };
                let given = fs_group::give(&self.ports, &self.recorder, &self.tenants, pod, &path, grant);
                self.on_disk("give to group", &path, given).await?;
                self.update(&seen, |state| state.group = Some(gid));
            }
            Action::Write(payload) => {
                let group = seen.asked.as_ref().and_then(|(_, plan)| plan.group);
                self.on_disk("write", &path, writer::write(host, &path, &payload, group)).await?;
                self.update(&seen, |state| {
                    state.written = Some(payload);
                    state.told = None;
                });
            }
            Action::Report(text) => {
                if let Some((pod, _)) = &seen.asked {
                    self.recorder.warning(pod.as_ref(), FAILED_MOUNT, text.as_str());
                }
                self.update(&seen, |state| {
                    state.told = Some(Reported::after(state.told.take(), text, seen.now));
                });
            }
            Action::Unmount => {
                self.on_kernel("unmount", &path, host.kernel.unmount(&path)).await?;
                self.update(&seen, |state| {
                    state.mount = Presence::Absent;
                    state.written = None;
                    state.group = None;
                });
            }
            Action::Remove => {
                let removed = self.on_disk("remove", &path, host.disk.remove_tree(&path)).await;
                self.update(&seen, |state| match &removed {
                    Ok(()) => state.directory = Presence::Absent,
                    Err(_) => state.removal_failed = true,
                });
                return removed;
            }
            Action::Forget => {
                self.memory.forget(&seen.uid, &seen.name);
                self.alarms.forget(&super::observe::key(&seen.uid, &seen.name));
            }
        }
        Ok(())
    }

    /// The renewal of a token that is still good is tried again in silence.
    pub(super) fn tell_failed(&self, key: &str, error: &EffectError) {
        let Some(seen) = self.seen(key) else { return };
        let Some((pod, _)) = &seen.asked else { return };
        if seen.want != Want::Ready {
            let path = directory(&self.kubelet_dir, &seen.uid, seen.state.plugin, &seen.name);
            self.recorder.warning(
                pod.as_ref(),
                FAILED_UNMOUNT,
                tear_down_failed(&seen.name, &error.message, &path),
            );
            return;
        }
        let next = decide(&seen);
        if matches!(&next, Step::Do(Action::RequestToken(wanted)) if seen.has_good(wanted)) {
            return;
        }
        self.recorder.warning(pod.as_ref(), FAILED_MOUNT, set_up_failed(&seen.name, &error.message));
    }
}

fn tear_down_failed(volume: &str, why: &str, path: &Path) -> String {
    let path = path.display();
    format!(
        "UnmountVolume.TearDown failed for volume {volume:?} : {why}; `findmnt -R {path}` and `lsattr -d {path}` show what keeps it"
    )
}

impl Manager {
    fn update(&self, seen: &Observed, change: impl FnOnce(&mut State)) {
        self.memory.update(&seen.uid, &seen.name, change);
    }

    /// That the pod's directory is ours is known before it is made.
    async fn make(&self, uid: &str, path: &Path) -> io::Result<()> {
        let disk = &self.ports.host.disk;
        self.records.add(uid).await?;
        self.ports.host.failpoints.hit("kubelet.make.pod-recorded");
        if let Some(parent) = path.parent() {
            disk.create_dir_all(parent, PARENT_MODE).await?;
            self.ports.host.failpoints.hit("kubelet.make.parent-made");
        }
        disk.create_dir_all(path, DIRECTORY_MODE).await
    }

    /// A filesystem that an earlier process mounted there is as good.
    async fn mount(&self, path: &Path, size: Option<u64>) -> Result<(), KernelError> {
        let kernel = &self.ports.host.kernel;
        match kernel.mount_at(path).await? {
            Some(_) => Ok(()),
            None => kernel.mount_memory(path, size).await,
        }
    }

    /// A token of the pod's account that ends with the pod. An answer that is lost costs a token that nobody has.
    async fn request_token(&self, wanted: &TokenSource, seen: &Observed) -> Result<(), EffectError> {
        let Some((pod, _)) = &seen.asked else { return Ok(()) };
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let spec = TokenRequestSpec {
            audiences: wanted.audience.clone().map(|audience| vec![audience]),
            expiration_seconds: Some(wanted.seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(pod.name().to_owned()),
                uid: Some(pod.uid().to_owned()),
            }),
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let asked = self.effects.ask::<ServiceAccount, TokenRequest>(
            "token",
            pod.namespace(),
            account.unwrap_or_default(),
            &request,
        );
        let failed = |error: EffectError| EffectError {
            message: format!("failed to fetch token: {}", error.message),
            ..error
        };
        let answer = asked.await.map_err(failed)?;
        let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(wanted.seconds);
        let status = answer.status.unwrap_or_default();
        let Some(text) = status.token else {
            return Err(EffectError::unknown("failed to fetch token: the answer holds none"));
        };
        // Counted from before the request: the API server begins to count later.
        let life = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let token = Token::new(text, seen.now, life);
        self.update(seen, |state| drop(state.tokens.insert(wanted.path.clone(), token)));
        Ok(())
    }

    async fn on_disk(
        &self,
        what: &str,
        path: &Path,
        change: impl Future<Output = io::Result<()>>,
    ) -> Result<(), EffectError> {
        let shown = path.display();
        let failed = |e: io::Error| EffectError::unknown(format!("{what} `{shown}`: {e}"));
        self.effects.run(what, &format!("volume {shown}"), async { change.await.map_err(failed) }).await
    }

    async fn on_kernel(
        &self,
        what: &str,
        path: &Path,
        change: impl Future<Output = Result<(), KernelError>>,
    ) -> Result<(), EffectError> {
        let failed = |e: KernelError| EffectError::unknown(e.to_string());
        let volume = format!("volume {}", path.display());
        self.effects.run(what, &volume, async { change.await.map_err(failed) }).await
    }
}
