//! Volumes that pods describe themselves, tokens for drivers, and publications that are repeated.

use std::time::Duration;

use bowline_api::{Meta, Pod, Secret, build, keys, name};
use bowline_machinery::effect::Part;
use serde_json::{Value, json};
use tonic::Code;

use super::driver::{Fault, NAME};
use super::world::World;

async fn world(seed: u64, spec: Value) -> World {
    let mut world = World::new(seed).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver_with(spec).await;
    world
}

/// A pod with a volume `own` that it describes itself.
fn pod_with(csi: Value) -> Pod {
    let mut pod = build::pod("p").shell("sleep 9").grace_seconds(1).build();
    let spec = pod.spec.as_mut().unwrap();
    let volume = serde_json::from_value(json!({"name": "own", "csi": csi})).unwrap();
    spec.volumes.get_or_insert_default().push(volume);
    let mount = serde_json::from_value(json!({"name": "own", "mountPath": "/own"})).unwrap();
    spec.containers[0].volume_mounts.get_or_insert_default().push(mount);
    pod
}

#[tokio::test(start_paused = true)]
async fn edge_9_3_25_a_pod_gets_the_volume_that_it_describes_and_takes_it_along() {
    let mut world = world(71, json!({"attachRequired": true, "volumeLifecycleModes": ["Ephemeral"]})).await;
    let secret = json!({"metadata": {"name": "key", "namespace": "default"}, "stringData": {"a": "b"}});
    world.effects().create::<Secret>(&serde_json::from_value(secret).unwrap()).await.unwrap();
    let csi = json!({
        "driver": NAME, "readOnly": true, "fsType": "ext4",
        "volumeAttributes": {"size": "1Mi"}, "nodePublishSecretRef": {"name": "key"},
    });
    let pod = world.pod(pod_with(csi)).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let handle = name::inline_handle(pod.uid(), "own");
    assert_eq!(world.driver.calls(), [format!("publish {handle}")], "neither attached nor staged");
    let request = &world.driver.publishes()[0];
    assert_eq!((request.staging_target_path.as_str(), request.readonly), ("", true));
    let context = &request.volume_context;
    let told = |key: &str| context.get(key).map(String::as_str);
    assert_eq!((told("size"), told(keys::POD_EPHEMERAL)), (Some("1Mi"), Some("true")));
    assert_eq!((told(keys::POD_UID), request.secrets.len()), (Some(pod.uid()), 1));
    let node = world.node().unwrap();
    assert!(bowline_api::node::volumes_in_use(&node).is_empty(), "it is nobody's to attach");

    // NODE-3: a restart finds it again, by the record beside the mount.
    world.stop_kubelet().await;
    world.start_kubelet().await;
    world.until("published again", |w| w.driver.calls().len() == 2).await;
    assert_eq!(world.running().len(), 1);
    world.stop_kubelet().await;
    world.delete(&pod, Some(0)).await;
    world.start_kubelet().await;
    world.until("unpublished", |w| w.driver.is_idle()).await;
    assert_eq!(world.driver.calls().last(), Some(&format!("unpublish {handle}")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
    assert_eq!(*world.refused.lock().unwrap(), [""; 0], "within a node's rights");
}

#[tokio::test(start_paused = true)]
async fn edge_9_3_25_a_driver_without_the_mode_gets_no_inline_volume() {
    let world = world(72, json!({})).await;
    world.pod(pod_with(json!({"driver": NAME}))).await;
    world.until("told", |w| !w.events("FailedMount").is_empty()).await;
    let text = format!(
        "MountVolume.SetUp failed for volume \"own\" : volume mode \"Ephemeral\" not supported by driver {NAME} (only supports [\"Persistent\"])"
    );
    assert_eq!(world.events("FailedMount"), [text]);
    assert!(world.driver.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn drivers_get_the_tokens_that_they_ask_for_where_they_ask_for_them() {
    for in_secrets in [false, true] {
        let tokens = json!([{"audience": ""}, {"audience": "vault", "expirationSeconds": 600}]);
        let spec = json!({"tokenRequests": tokens, "serviceAccountTokenInSecrets": in_secrets});
        let world = world(73, spec).await;
        world.bound_claim("data", false, "ReadWriteOnce").await;
        world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        let request = world.driver.publishes()[0].clone();
        let (here, there) = match in_secrets {
            true => (request.secrets, request.volume_context),
            false => (request.volume_context, request.secrets),
        };
        assert!(!there.contains_key(keys::POD_TOKENS));
        let tokens: Value = serde_json::from_str(&here[keys::POD_TOKENS]).unwrap();
        for audience in ["", "vault"] {
            let one = &tokens[audience];
            assert!(one["token"].as_str().is_some_and(|token| token.split('.').count() == 3), "{one}");
            assert!(one["expirationTimestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{one}");
        }
        assert_eq!(tokens.as_object().unwrap().len(), 2);
        assert_eq!(*world.refused.lock().unwrap(), [""; 0], "within a node's rights");
    }
}

#[tokio::test(start_paused = true)]
async fn edge_9_3_5_publications_are_repeated_and_a_failed_repeat_leaves_the_mount() {
    let world = world(74, json!({"requiresRepublish": true, "tokenRequests": [{"audience": "vault"}]})).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let mounts = world.fake.mounts().len();
    world.driver.plan("publish", Fault::Refuse(Code::Internal));
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(world.driver.calls().len(), 2, "not before a minute");
    world.until("repeated", |w| w.driver.publishes().len() == 2).await;
    let text =
        "MountVolume.SetUp failed for volume \"pv-data\" : rpc error: code = Internal desc = as planned";
    world.until("told", |w| w.events("FailedMount") == [text]).await;
    assert_eq!((world.phase("p").as_str(), world.fake.mounts().len()), ("Running", mounts));
    let stages = world.driver.calls().iter().filter(|call| call.starts_with("stage")).count();
    assert_eq!(stages, 1, "only NodePublishVolume is repeated");
    let tokens: Vec<String> =
        world.driver.publishes().iter().map(|p| p.volume_context[keys::POD_TOKENS].clone()).collect();
    assert_eq!(tokens[0], tokens[1], "a token that is good is used again");

    let before = world.driver.publishes().len();
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    world.effects().patch(Part::Main, &pod, touched).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.driver.publishes().len(), before + 1, "a change of the pod is told at once");
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
}
