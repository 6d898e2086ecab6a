//! A sidecar is replaced by the other project's while its driver works on a call: the call has reached the driver, its answer
//! is held back, the old program ends, the new one takes the lease and has to find out. In both directions, for each
//! operation; nothing is lost and nothing is done twice.

use serde_json::Value;

use super::cluster::SidecarCluster;
use super::objects::{CLAIM, VOLUME};
use super::script::{LARGE, has_capacity, is_bound, is_modified};
use crate::setup::By;
use crate::support::program::Program;

/// The sidecars that run now, and whose they are.
pub struct Running<'a> {
    cluster: &'a SidecarCluster,
    by: By,
    programs: Vec<(&'static str, Program)>,
    started: usize,
}

impl<'a> Running<'a> {
    pub async fn start(cluster: &'a SidecarCluster, by: By, names: &[&'static str]) -> Self {
        let mut running = Self { cluster, by, programs: Vec::new(), started: 0 };
        for name in names {
            let program = running.launch(name).await;
            running.programs.push((name, program));
        }
        running
    }

    async fn launch(&mut self, name: &str) -> Program {
        self.started += 1;
        self.cluster.sidecar(self.by, name, &format!("{name}-{}", self.started)).await
    }

    /// `begin` makes a request whose call has this text. When the call is under way, all programs are replaced.
    async fn roll_at(&mut self, text: &str, what: &str, begin: impl Future<Output = ()>) {
        self.cluster.setup.gate.hold_at(text);
        begin.await;
        self.replace(what).await;
    }

    async fn replace(&mut self, what: &str) {
        self.cluster.setup.gate.until_held(what).await;
        self.by = match self.by {
            By::Us => By::Upstream,
            By::Upstream => By::Us,
        };
        for (_, program) in &self.programs {
            program.signal("TERM");
        }
        for (_, program) in &mut self.programs {
            program.ended();
        }
        // The answers are for programs that are gone; their successors would take a silent driver for a broken one.
        self.cluster.setup.gate.release();
        for at in 0..self.programs.len() {
            self.programs[at].1 = self.launch(self.programs[at].0).await;
        }
    }

    fn program(&self, name: &str) -> &Program {
        let found = self.programs.iter().find(|(known, _)| *known == name);
        &found.expect("it runs").1
    }

    /// The call has the name of a claim that is not there yet: the provisioner sees it only when the gate knows it.
    pub async fn provision(&mut self, name: &str) {
        let objects = &self.cluster.objects;
        self.program("csi-provisioner").signal("STOP");
        self.cluster.block_claim(name).await;
        let claim = objects.until(CLAIM, name, "there", Value::is_object).await;
        let uid = claim["metadata"]["uid"].as_str().expect("a UID").to_owned();
        self.cluster.setup.gate.hold_at(&uid);
        self.program("csi-provisioner").signal("CONT");
        self.replace("CreateVolume").await;
        self.cluster.objects.until(CLAIM, name, "Bound", is_bound).await;
    }

    pub async fn expand(&mut self, name: &str) {
        let handle = self.cluster.handle(name).await;
        self.roll_at(&handle, "ControllerExpandVolume", self.cluster.grow(name)).await;
        self.cluster.objects.until(CLAIM, name, "expanded", |claim| has_capacity(claim, LARGE)).await;
    }

    pub async fn modify(&mut self, name: &str) {
        let handle = self.cluster.handle(name).await;
        self.roll_at(&handle, "ControllerModifyVolume", self.cluster.want_class(name, "far")).await;
        self.cluster.objects.until(CLAIM, name, "modified", |claim| is_modified(claim, "far")).await;
    }

    pub async fn clone_volume(&mut self, name: &str, source: &str) {
        let handle = self.cluster.handle(source).await;
        let fill = self.cluster.fill_block(name, "", "PersistentVolumeClaim", source);
        self.roll_at(&handle, "CreateVolume from a volume", fill).await;
        self.cluster.objects.until(CLAIM, name, "Bound", is_bound).await;
    }

    pub async fn delete_volume(&mut self, name: &str) {
        let claim = self.cluster.objects.until(CLAIM, name, "Bound", is_bound).await;
        let volume = claim["spec"]["volumeName"].as_str().expect("a volume").to_owned();
        let handle = self.cluster.handle(name).await;
        self.roll_at(&handle, "DeleteVolume", self.cluster.objects.delete(CLAIM, name)).await;
        self.cluster.objects.gone(VOLUME, &volume).await;
    }
}
