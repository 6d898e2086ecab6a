//! A pod, or the template of one, as the checks look at it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EphemeralContainer, Lifecycle, PodSecurityContext, PodSpec, Probe,
    SecurityContext,
};

pub struct Subject<'a> {
    pub annotations: &'a BTreeMap<String, String>,
    pub spec: &'a PodSpec,
    /// Init containers, containers and ephemeral ones, in this order.
    pub containers: Vec<Seen<'a>>,
}

/// What all kinds of containers have in common.
pub struct Seen<'a> {
    pub name: &'a str,
    pub context: Option<&'a SecurityContext>,
    pub ports: &'a [ContainerPort],
    pub probes: [Option<&'a Probe>; 3],
    pub lifecycle: Option<&'a Lifecycle>,
}

impl<'a> From<&'a Container> for Seen<'a> {
    fn from(one: &'a Container) -> Self {
        Self {
            name: &one.name,
            context: one.security_context.as_ref(),
            ports: one.ports.as_deref().unwrap_or_default(),
            probes: [&one.liveness_probe, &one.readiness_probe, &one.startup_probe].map(Option::as_ref),
            lifecycle: one.lifecycle.as_ref(),
        }
    }
}

impl<'a> From<&'a EphemeralContainer> for Seen<'a> {
    fn from(one: &'a EphemeralContainer) -> Self {
        Self {
            name: &one.name,
            context: one.security_context.as_ref(),
            ports: one.ports.as_deref().unwrap_or_default(),
            probes: [&one.liveness_probe, &one.readiness_probe, &one.startup_probe].map(Option::as_ref),
            lifecycle: one.lifecycle.as_ref(),
        }
    }
}

impl<'a> Subject<'a> {
    pub fn new(annotations: &'a BTreeMap<String, String>, spec: &'a PodSpec) -> Self {
        let init = spec.init_containers.iter().flatten().map(Seen::from);
        let ephemeral = spec.ephemeral_containers.iter().flatten().map(Seen::from);
        let containers = init.chain(spec.containers.iter().map(Seen::from)).chain(ephemeral).collect();
        Self { annotations, spec, containers }
    }

    pub fn context(&self) -> Option<&'a PodSecurityContext> {
        self.spec.security_context.as_ref()
    }

    /// Names of the containers for which this holds.
    pub fn named(&self, holds: impl Fn(&Seen<'a>) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|one| holds(one)).map(|one| one.name).collect()
    }

    /// The same by their security contexts; those without one are left out.
    pub fn named_by_context(&self, holds: impl Fn(&'a SecurityContext) -> bool) -> Vec<&'a str> {
        self.named(|one| one.context.is_some_and(&holds))
    }

    pub fn is_windows(&self) -> bool {
        self.spec.os.as_ref().is_some_and(|os| os.name == "windows")
    }

    /// In a user namespace of its own.
    pub fn has_own_users(&self) -> bool {
        self.spec.host_users == Some(false)
    }
}
