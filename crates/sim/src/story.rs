//! What happens to a world: the demo's journey, there and back.

use std::sync::Arc;

use bowline_api::{
    Meta, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment, build, pod,
};
use bowline_drivers::local;

use crate::world::World;

#[expect(clippy::expect_used, reason = "a story that does not come true is a failed test")]
impl World {
    /// Creates a class, claims and pods that use them, and waits until all run.
    pub async fn apply(&self, names: &[&str]) {
        let user = self.ports.effects("kubectl");
        let class = build::class("late", local::NAME).wait_for_consumer().build();
        user.create::<StorageClass>(&class).await.expect("create class");
        for name in names {
            user.create(&build::claim(name).class("late").build()).await.expect("create claim");
            let pod = build::pod(name).shell("sleep 3600").mount(name, "/data").build();
            user.create(&pod).await.expect("create pod");
        }
        let pods = self.ports.informers.of::<Pod>();
        let running =
            |name: &&str| pods.list().iter().any(|p| p.name() == *name && pod::phase(p) == "Running");
        let all = pods.until(|_| names.iter().all(running).then_some(()));
        self.within(all, "all pods run").await;
    }

    /// Deletes all pods and claims and waits until volumes and attachments are gone.
    pub async fn delete_all(&self) {
        let user = self.ports.effects("kubectl");
        let informers = &self.ports.informers;
        for pod in informers.of::<Pod>().list() {
            user.delete(pod.as_ref(), None).await.expect("delete pod");
        }
        for claim in informers.of::<PersistentVolumeClaim>().list() {
            user.delete(claim.as_ref(), None).await.expect("delete claim");
        }
        let gone = async {
            informers.of::<Pod>().until(|c| c.list().is_empty().then_some(())).await;
            informers.of::<PersistentVolumeClaim>().until(|c| c.list().is_empty().then_some(())).await;
            informers.of::<PersistentVolume>().until(|c| c.list().is_empty().then_some(())).await;
            informers.of::<VolumeAttachment>().until(|c| c.list().is_empty().then_some(())).await;
        };
        self.within(gone, "everything is gone").await;
    }
}

/// Two journeys side by side, there and back.
pub async fn there_and_back(world: Arc<World>) {
    world.apply(&["a", "b"]).await;
    world.check();
    world.delete_all().await;
    world.check();
}
