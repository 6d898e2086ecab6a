//! One effect per action.

use std::io;
use std::time::Duration;

use bowline_api::{Meta, Pod, pod};
use bowline_host::kernel::KernelError;
use bowline_machinery::Recorder;
use bowline_machinery::effect::{EffectError, Part};
use jiff::Timestamp;

use super::decide::next_kill;
use super::model::{Action, ContainerSpec, Exit, HookState, Observed, SIGKILL, State, Why};
use super::role::Pods;
use super::{spec, status};
use crate::indexes::pod_with_uid;
use crate::kubelet::{PATIENCE, Reported};

/// What a container prints is its user's business.
const LOG_DIR_MODE: u32 = 0o750;
/// What the status shows for a container of which nothing is known any more.
const LOST_CODE: i32 = 137;
/// Pause before a container is waited for again that could not be.
const WAIT_AGAIN: Duration = Duration::from_secs(1);

impl Pods {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        let uid = &seen.uid;
        match action {
            Action::Enter => self.tenants.enter(uid),
            Action::Leave => self.tenants.leave(uid),
            Action::Start { container, number, spec } => {
                return self.start(&seen, &container, number, &spec).await;
            }
            Action::Probe { container, number, kind } => self.probe(&seen, &container, number, kind),
            Action::RunHook { container, number, hook, deadline, text } => {
                if let (Some(pod), Some(text)) = (&seen.pod, text) {
                    self.recorder.normal(pod.as_ref(), "Killing", text);
                }
                self.run_hook(&seen, &container, number, hook, deadline);
            }
            Action::Evict { container, number } => {
                self.evict(&seen, &container, number).await;
            }
            Action::Signal { container, number, signal, text } => {
                return self.signal(&seen, &container, number, signal, text).await;
            }
            Action::RemoveLogs { container, before } => {
                // Those that stay go with the pod's directory.
                if let Err(error) = self.remove_logs(&seen, &container, before).await {
                    tracing::warn!(pod = uid, container, %error, "cannot remove logs of earlier runs");
                }
                self.runtime.logs_removed(uid, &container, before);
            }
            Action::Remove { container, number } => {
                return self.remove_record(&seen, &container, number).await;
            }
            Action::PatchStatus(patch) => {
                let Some(pod) = &seen.pod else { return Ok(()) };
                return self.patch_status(&seen, pod, patch).await;
            }
            Action::Report(text) => {
                if let Some(pod) = &seen.pod {
                    self.recorder.warning(pod.as_ref(), "FailedMount", text.as_str());
                }
                self.runtime.update(uid, |memory| {
                    memory.told = Some(Reported::after(memory.told.take(), text, seen.now));
                });
            }
            Action::CleanDirectory => {
                self.clean_directory(&seen).await?;
                self.runtime.update(uid, |memory| memory.directory = false);
            }
            Action::Delete => {
                let Some(pod) = &seen.pod else { return Ok(()) };
                return self.effects.delete::<Pod>(pod, Some(0)).await;
            }
            Action::Forget => {
                self.runtime.forget(uid);
                self.alarms.forget(uid);
                self.told.forget(uid);
                self.follow(uid, None);
            }
        }
        Ok(())
    }
}

impl Pods {
    /// Tells the pod what keeps it waiting once that has taken long, and again while it does; returns when that will be.
    pub(super) fn tell_when_overdue(&self, seen: &Observed, why: &Why) -> Option<Duration> {
        let (reason, text) = why.overdue()?;
        let (due, next) = self.runtime.update(&seen.uid, |memory| {
            let known = memory.waits.take().filter(|(known, ..)| *known == text);
            let (_, since, told) = known.unwrap_or_else(|| (text.clone(), seen.now, None));
            let first = since.saturating_add(PATIENCE);
            let due = Reported::due(told.as_ref(), &text, first) <= seen.now;
            let told = if due { Some(Reported::after(told, text.clone(), seen.now)) } else { told };
            let next = Reported::due(told.as_ref(), &text, first);
            memory.waits = Some((text.clone(), since, told));
            (due, next)
        });
        if let (Some(pod), true) = (&seen.pod, due) {
            self.recorder.warning(pod.as_ref(), reason, text);
        }
        Some(next)
    }

    /// With an API server that does not answer, a container gets no more time to end than it has.
    async fn patch_status(
        &self,
        seen: &Observed,
        pod: &Pod,
        patch: serde_json::Value,
    ) -> Result<(), EffectError> {
        self.tell_of_status(pod, &patch);
        let patch = self.effects.patch_strategic::<Pod>(Part::Status, pod, patch);
        let patched = match next_kill(seen, pod) {
            None => patch.await,
            Some(at) => {
                // Nor does it get the pause before the next try.
                self.alarms.set(&seen.uid, at, seen.now);
                let left = at.saturating_sub(seen.now);
                let late = |_| {
                    let pod = spec::pod_text(pod);
                    let text =
                        format!("patch status of pod {pod}: no answer before a container is to be killed");
                    Err(EffectError::unknown(text))
                };
                tokio::time::timeout(left, patch).await.unwrap_or_else(late)
            }
        };
        gone_is_fine(patched.map(drop))
    }

    /// Says in events what the status shows, because people look there first.
    fn tell_of_status(&self, pod: &Pod, patch: &serde_json::Value) {
        for (container, reason, message) in status::newly_refused(pod, patch) {
            let (event, text) = match reason {
                "InvalidImageName" => ("InspectFailed", message.to_owned()),
                "ErrImagePull" => {
                    ("Failed", format!("Failed to pull image of container {container}: {message}"))
                }
                _ => ("Failed", format!("Error: {message}")),
            };
            tracing::warn!(
                pod = spec::pod_text(pod),
                container,
                reason,
                why = message,
                "a container is refused"
            );
            self.recorder.warning(pod, event, text);
        }
        if patch["status"]["reason"] == status::DEADLINE_EXCEEDED {
            self.recorder.normal(pod, status::DEADLINE_EXCEEDED, status::DEADLINE_TEXT);
        }
        if patch["status"]["reason"] == status::ATTACH_LIMIT_EXCEEDED {
            let text = patch["status"]["message"].as_str().unwrap_or_default();
            self.recorder.warning(pod, status::ATTACH_LIMIT_EXCEEDED, text);
        }
    }

    /// A container that we cannot mark is ended all the same: on a disk that takes no more writes it would run for ever.
    /// What is lost is small. Should this process die before it has seen the end, the end counts as the workload's.
    async fn evict(&self, seen: &Observed, container: &str, number: u32) {
        let id = seen.id(container, number);
        let marked = self.on_container("evict", &id, self.ports.host.containers.mark_evicted(&id)).await;
        if let Err(error) = marked {
            tracing::warn!(container = id, %error, "cannot write down that the node agent ends a container");
        }
        self.runtime.evicted(&seen.uid, container, number);
    }

    async fn remove_logs(&self, seen: &Observed, container: &str, before: u32) -> Result<(), EffectError> {
        let Some(pod) = &seen.pod else { return Ok(()) };
        let log = spec::log(&self.config, pod, container, before);
        let Some(dir) = log.parent() else { return Ok(()) };
        let removed = async {
            let disk = &self.ports.host.disk;
            for file in disk.list(dir).await? {
                if spec::run_of_log(&file).is_some_and(|run| run < before) {
                    disk.remove_file(&dir.join(file)).await?;
                }
            }
            Ok(())
        };
        self.on_disk("remove logs", dir, removed).await
    }

    async fn start(
        &self,
        seen: &Observed,
        container: &str,
        number: u32,
        spec: &ContainerSpec,
    ) -> Result<(), EffectError> {
        if !self.records.knows(&seen.uid) {
            self.on_disk("record pod", &spec.log, self.records.add(&seen.uid)).await?;
        }
        if let Some(dir) = spec.log.parent() {
            self.on_disk("mkdir", dir, self.ports.host.disk.create_dir_all(dir, LOG_DIR_MODE)).await?;
        }
        let started = self.on_container("start", &spec.id, self.ports.host.containers.start(spec)).await;
        let tell = |type_: fn(&Recorder, &Pod, &'static str, String), reason, text: String| {
            if let Some(pod) = &seen.pod {
                type_(&self.recorder, pod, reason, text);
            }
        };
        let (normal, warning) = (Recorder::normal::<Pod>, Recorder::warning::<Pod>);
        match started {
            Ok(state) => {
                self.tell_of_skipped(seen, container);
                tell(normal, "Created", "Container created".into());
                match &state {
                    State::Running { .. } => tell(normal, "Started", "Container started".into()),
                    State::Exited { exit, .. } => match &exit.error {
                        Some(error) => {
                            let id = seen.id(container, number);
                            tracing::warn!(container = id, error, "a container did not start");
                            tell(warning, "Failed", format!("Error: {error}"));
                        }
                        None => tell(normal, "Started", "Container started".into()),
                    },
                }
                self.runtime.started(&seen.uid, container, number, state, self.now());
                self.wait(&seen.uid, container, number);
                Ok(())
            }
            Err(error) => {
                tell(warning, "Failed", format!("Error: {error}"));
                Err(error)
            }
        }
    }

    /// In upstream's words.
    fn tell_of_skipped(&self, seen: &Observed, container: &str) {
        let Some(pod) = &seen.pod else { return };
        let started = pod::containers(pod).filter(|one| one.name == container);
        for (source, keys) in started.flat_map(|one| spec::skipped(one, &seen.objects)) {
            let (kind, name) = source.split_once(' ').unwrap_or_default();
            let text = format!(
                "Keys [{}] from the EnvFrom {kind} {}/{name} were skipped since they are considered invalid environment variable names.",
                keys.join(", "),
                pod.namespace()
            );
            self.recorder.warning(pod.as_ref(), "InvalidEnvironmentVariableNames", text);
        }
    }

    async fn signal(
        &self,
        seen: &Observed,
        container: &str,
        number: u32,
        signal: i32,
        text: String,
    ) -> Result<(), EffectError> {
        let id = seen.id(container, number);
        let sent = self.on_container("signal", &id, self.ports.host.containers.signal(&id, signal)).await;
        if let (Err(error), Some(pod)) = (&sent, &seen.pod) {
            self.recorder.warning(pod.as_ref(), "FailedKillPod", format!("error killing pod: {error}"));
        }
        sent?;
        // Noted when it is sent, so that one that was not is sent again. Nobody decides about the pod in between.
        self.runtime.signalled(&seen.uid, container, number, signal, seen.now);
        // A container with a preStop hook was told of when that began.
        let mut runs = seen.attempts.get(container).into_iter().flatten();
        let hooked = runs.any(|run| run.number == number && run.pre_stop != HookState::NotRun);
        if signal != SIGKILL
            && !hooked
            && let Some(pod) = &seen.pod
        {
            self.recorder.normal(pod.as_ref(), "Killing", text);
        }
        Ok(())
    }

    /// The machine's uptime, and the time of day.
    pub(super) fn now(&self) -> (Duration, Timestamp) {
        (self.ports.host.uptime.uptime(), self.ports.host.clock.now())
    }

    /// Waits for the end of a container in the background, whoever started it.
    pub(super) fn wait(&self, uid: &str, container: &str, number: u32) {
        let (pods, uid, container) = (self.clone(), uid.to_owned(), container.to_owned());
        tokio::spawn(async move {
            let id = format!("{uid}/{container}/{number}");
            let exit = tokio::select! {
                biased;
                () = pods.ports.stop.cancelled() => return,
                exit = pods.end_of(&id) => exit,
            };
            if let Some(text) = pods.last_lines(&uid, &container, number, &exit).await {
                pods.runtime.wrote_last(&uid, &container, number, text);
            }
            if exit.oom_killed {
                pods.tell_of_memory(&uid, &container);
            }
            pods.runtime.exited(&uid, &container, number, exit, pods.now().0);
            pods.queue.add(uid);
        });
    }

    /// Upstream's kubelet says it in the status only, which the next run overwrites. The reason is that of its node problem
    /// detector.
    fn tell_of_memory(&self, uid: &str, container: &str) {
        let text = format!(
            "the kernel ended a process of container {container}, which had reached its memory limit"
        );
        tracing::warn!(pod = uid, container, "the kernel ended a process at the container's memory limit");
        if let Some(pod) = pod_with_uid(&self.pods, uid) {
            self.recorder.warning(pod.as_ref(), "OOMKilling", text);
        }
    }

    /// How a container ended. One that cannot be waited for is looked at: to take one that runs for ended is to
    /// start another beside it (NODE-3).
    pub(super) async fn end_of(&self, id: &str) -> Exit {
        let containers = &self.ports.host.containers;
        loop {
            let error = match containers.wait(id).await {
                Ok(exit) => return exit,
                Err(error) => error,
            };
            match containers.state(id).await {
                Ok(Some(State::Exited { exit, .. })) => return exit,
                Ok(None) => {
                    tracing::warn!(container = id, %error, "container is lost");
                    return lost(self.ports.host.clock.now());
                }
                Ok(Some(State::Running { .. })) | Err(_) => {
                    tracing::warn!(container = id, %error, "wait for a container, will try again");
                }
            }
            tokio::time::sleep(WAIT_AGAIN).await;
        }
    }

    pub(super) async fn on_container<T>(
        &self,
        what: &str,
        id: &str,
        effect: impl Future<Output = Result<T, KernelError>>,
    ) -> Result<T, EffectError> {
        let failed = |e: KernelError| EffectError::unknown(e.to_string());
        self.effects.run(what, &format!("container {id}"), async { effect.await.map_err(failed) }).await
    }

    pub(super) async fn on_disk(
        &self,
        what: &str,
        path: &std::path::Path,
        change: impl Future<Output = io::Result<()>>,
    ) -> Result<(), EffectError> {
        let shown = path.display();
        let failed = |e: io::Error| EffectError::refused(format!("{what} `{shown}`: {e}"));
        self.effects.run(what, &format!("path {shown}"), async { change.await.map_err(failed) }).await
    }
}

/// A container that nobody has a record of any more: the worst.
fn lost(now: Timestamp) -> Exit {
    Exit {
        code: LOST_CODE,
        signal: None,
        finished_at: now,
        error: Some("The container could not be located".into()),
        oom_killed: false,
        message: None,
    }
}

/// The watch will say that the pod is gone; until then there is nobody to tell.
fn gone_is_fine(result: Result<(), EffectError>) -> Result<(), EffectError> {
    match result {
        Err(error) if error.not_found() => Ok(()),
        other => other,
    }
}
