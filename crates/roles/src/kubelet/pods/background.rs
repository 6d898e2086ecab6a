//! Probes and hooks run beside the pod's worker: one that hangs must not keep the pod from being ended.

use std::time::Duration;

use bowline_api::{Container, Pod, pod};
use k8s_openapi::api::core::v1::LifecycleHandler;

use super::handlers;
use super::model::{Hook, HookState, Observed, Outcome, ProbeKind};
use super::perform::perform;
use super::probes;
use super::role::Pods;
use bowline_machinery::effect::EffectError;

impl Pods {
    /// Asks a probe; the answer changes what is known of the run and wakes the pod.
    pub(super) fn probe(&self, seen: &Observed, name: &str, number: u32, kind: ProbeKind) {
        let Some((pod, container)) = container(seen, name) else { return };
        let Some(probe) = kind.of(&container).cloned() else { return };
        self.runtime.asking(&seen.uid, name, number, kind);
        let (pods, id, uid) = (self.clone(), seen.id(name, number), seen.uid.clone());
        tokio::spawn(async move {
            let asked = pods.ports.host.uptime.uptime();
            let asking = async {
                match handlers::of_probe(&container, &probe) {
                    Ok(handler) => {
                        perform(&pods.ports.host, &id, &handler, Some(probes::timeout(&probe))).await
                    }
                    Err(why) => Outcome::Unknown(why),
                }
            };
            let outcome = tokio::select! {
                biased;
                () = pods.ports.stop.cancelled() => return,
                outcome = asking => outcome,
            };
            pods.tell_of_probe(&pod, kind, &outcome);
            pods.runtime.answered(&uid, &container.name, number, (kind, &probe), (&outcome, asked));
            pods.queue.add(uid);
        });
    }

    fn tell_of_probe(&self, pod: &Pod, kind: ProbeKind, outcome: &Outcome) {
        let (how, why) = match outcome {
            Outcome::Success => return,
            Outcome::Failure(why) => ("failed", why),
            Outcome::Unknown(why) => ("errored", why),
        };
        let word = kind.word();
        let word = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
        self.recorder.warning(pod, "Unhealthy", format!("{word} probe {how}: {why}"));
    }

    /// Runs a hook; how it went changes what is known of the run and wakes the pod.
    pub(super) fn run_hook(
        &self,
        seen: &Observed,
        name: &str,
        number: u32,
        hook: Hook,
        deadline: Option<Duration>,
    ) {
        let Some((pod, container)) = container(seen, name) else { return };
        let Some(wanted) = handler_of(&container, hook) else { return };
        self.runtime.hook(&seen.uid, name, number, hook, HookState::Running, seen.now);
        let limit = deadline.map(|at| at.saturating_sub(seen.now));
        let (pods, id, uid) = (self.clone(), seen.id(name, number), seen.uid.clone());
        tokio::spawn(async move {
            let run = async {
                let outcome = match handlers::of_hook(&container, &wanted) {
                    Ok(handler) => perform(&pods.ports.host, &id, &handler, limit).await,
                    Err(why) => Outcome::Unknown(why),
                };
                match outcome {
                    Outcome::Success => Ok(()),
                    Outcome::Failure(why) | Outcome::Unknown(why) => Err(EffectError::refused(why)),
                }
            };
            let what = if hook == Hook::PostStart { "postStart" } else { "preStop" };
            let target = format!("container {id}");
            let ran = tokio::select! {
                biased;
                () = pods.ports.stop.cancelled() => return,
                // Nobody waits for its answer then, and one that hangs would never end.
                _ = pods.end_of(&id) => return,
                ran = pods.effects.run(what, &target, run) => ran,
            };
            let state = if ran.is_ok() { HookState::Done } else { HookState::Failed };
            if let Err(error) = ran {
                let reason =
                    if hook == Hook::PostStart { "FailedPostStartHook" } else { "FailedPreStopHook" };
                pods.recorder.warning(pod.as_ref(), reason, format!("{what} hook failed: {error}"));
            }
            pods.runtime.hook(&uid, &container.name, number, hook, state, pods.ports.host.uptime.uptime());
            pods.queue.add(uid);
        });
    }
}

fn container(seen: &Observed, name: &str) -> Option<(std::sync::Arc<Pod>, Container)> {
    let pod = seen.pod.clone()?;
    let container = pod::containers(&pod).find(|one| one.name == name)?.clone();
    Some((pod, container))
}

fn handler_of(container: &Container, hook: Hook) -> Option<LifecycleHandler> {
    let lifecycle = container.lifecycle.clone()?;
    match hook {
        Hook::PostStart => lifecycle.post_start,
        Hook::PreStop => lifecycle.pre_stop,
    }
}
