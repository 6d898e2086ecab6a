//! What drivers get of secrets.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bowline_api::{Event, Secret, StorageClass, build};
use bowline_drivers::local;
use bowline_sim::World;

/// A driver takes text. A key of other bytes must not reach it as a similar one: it would lock a volume for good.
#[test]
fn a_secret_that_is_not_text_reaches_no_driver() {
    let story = |world: Arc<World>| async move {
        let user = world.ports.effects("kubectl");
        let class = build::class("locked", local::NAME)
            .wait_for_consumer()
            .parameter("csi.storage.k8s.io/node-stage-secret-name", "key")
            .parameter("csi.storage.k8s.io/node-stage-secret-namespace", "default");
        user.create::<StorageClass>(&class.build()).await.expect("create class");
        let mut secret = Secret::default();
        secret.metadata.name = Some("key".into());
        secret.metadata.namespace = Some("default".into());
        secret.data.get_or_insert_default().entry("bytes".into()).or_default().0 = vec![b'x', 0xff];
        user.create(&secret).await.expect("create secret");
        user.create(&build::claim("data").class("locked").build()).await.expect("create claim");
        let pod = build::pod("p").shell("sleep 3600").mount("data", "/data").build();
        user.create(&pod).await.expect("create pod");

        let events = world.ports.informers.of::<Event>();
        let about =
            |event: &Arc<Event>| event.message.clone().filter(|text| text.contains("NodeStageSecretRef"));
        let told = events.until(|cache| cache.list().iter().find_map(about));
        let told = world.within(told, "the pod is told").await;
        let why =
            "failed to get NodeStageSecretRef default/key: secret default/key: value of `bytes` is not UTF-8";
        assert!(told.ends_with(why), "{told}");
    };
    bowline_sim::run(1, story).expect("a runtime");
}
