//! The binder, the protections and the scheduler against the API server in memory, on paused time.

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_api::{Event, Meta, PersistentVolume, PersistentVolumeClaim, Pod, build, pod, volume};
use serde_json::json;
use tokio::time::Instant;
use world::{Cut, DRIVER, World};

/// Far less than upstream's 15 s resync: whatever comes true within it was pushed.
const AT_ONCE: Duration = Duration::from_millis(200);

fn static_volume(name: &str, class: &str) -> PersistentVolume {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "storageClassName": class,
    });
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn bound(world: &World, claim: &PersistentVolumeClaim) -> bool {
    world.get(claim).await.is_some_and(|c| volume::claim_phase(&c) == volume::BOUND)
}

async fn phase(world: &World, of: &PersistentVolume) -> String {
    world.get(of).await.map(|v| volume::volume_phase(&v).to_owned()).unwrap_or_default()
}

async fn node_of(world: &World, name: &str) -> String {
    world::pod(world, name).await.map(|p| pod::node_name(&p).to_owned()).unwrap_or_default()
}

async fn reasons(world: &World) -> Vec<String> {
    world.list::<Event>().await.into_iter().filter_map(|e| e.reason).collect()
}

/// BIND-1 over everything there is.
async fn check_pairs(world: &World) {
    let claims = world.list::<PersistentVolumeClaim>().await;
    let mut taken = BTreeSet::new();
    for claim in claims.iter().filter(|c| volume::bound(c)) {
        assert!(taken.insert(volume::claim_volume(claim).to_owned()), "BIND-1: {} shared", claim.key());
    }
}

#[tokio::test(start_paused = true)]
async fn an_immediate_claim_goes_through_upstreams_writes() {
    let world = World::new().await;
    let mut process = world.start(None);
    world.create(&build::class("fast", DRIVER).build()).await;
    let claim = world.create(&build::claim("data").class("fast").build()).await;
    world.until("the claim is bound", async || bound(&world, &claim).await).await;

    let volume = format!("persistentvolume pvc-{}", claim.uid());
    let by_binder: Vec<String> = process
        .journal()
        .into_iter()
        .filter_map(|e| e.strip_prefix("persistentvolume-controller ").map(String::from))
        .collect();
    assert_eq!(
        by_binder,
        [
            "update persistentvolumeclaim default/data".to_owned(),
            format!("update status {volume}"),
            "update persistentvolumeclaim default/data".into(),
            "update status persistentvolumeclaim default/data".into(),
        ]
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(process.journal(), Vec::<String>::new(), "settled");
    let told = reasons(&world).await;
    assert_eq!(told.iter().filter(|r| *r == "ExternalProvisioning").count(), 1, "{told:?}");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_a_class_or_a_default_that_comes_later_is_taken_at_once() {
    let world = World::new().await;
    let process = world.start(None);
    let by_volume = world.create(&build::claim("by-volume").class("static").build()).await;
    let by_class = world.create(&build::claim("by-class").class("fast").build()).await;
    let by_default = world.create(&build::claim("by-default").build()).await;
    let mut by_name = build::claim("by-name").class("other").build();
    by_name.spec.as_mut().unwrap().volume_name = Some("named".into());
    let by_name = world.create(&by_name).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let told = reasons(&world).await;
    for reason in ["FailedBinding", "ProvisioningFailed"] {
        assert!(told.iter().any(|r| r == reason), "{reason} missing: {told:?}");
    }

    let begin = Instant::now();
    world.create(&static_volume("named", "other")).await;
    world.until("the named one is bound", async || bound(&world, &by_name).await).await;
    world.create(&static_volume("spare", "static")).await;
    world.until("a new volume is taken", async || bound(&world, &by_volume).await).await;
    world.create(&build::class("fast", DRIVER).default_class().build()).await;
    world.until("a new class is asked", async || bound(&world, &by_class).await).await;
    world.until("a new default is given", async || bound(&world, &by_default).await).await;
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    check_pairs(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_claims_and_many_volumes_pair_up_one_to_one() {
    let world = World::new().await;
    let process = world.start(None);
    for n in 0..100 {
        world.create(&static_volume(&format!("v{n:03}"), "")).await;
        world.create(&build::claim(&format!("c{n:03}")).class("").build()).await;
    }
    world
        .until("all are bound", async || {
            let claims = world.list::<PersistentVolumeClaim>().await;
            claims.iter().filter(|c| volume::claim_phase(c) == volume::BOUND).count() == 100
        })
        .await;
    check_pairs(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_re_created_claim_does_not_get_the_old_ones_volume() {
    let world = World::new().await;
    let process = world.start(None);
    let kept = world.create(&static_volume("kept", "")).await;
    let claim = build::claim("data").class("").build();
    let first = world.create(&claim).await;
    world.until("bound", async || bound(&world, &first).await).await;
    world.delete(&first).await;
    let second = world.until_created(&claim).await;
    assert_ne!(first.uid(), second.uid());
    world.until("released", async || phase(&world, &kept).await == volume::RELEASED).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!bound(&world, &second).await, "9.1.7: a released volume is nobody's");
    assert_eq!(phase(&world, &kept).await, volume::RELEASED);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_finds_its_volume_again() {
    let world = World::new().await;
    let process = world.start(None);
    let volume = world.create(&static_volume("kept", "")).await;
    let claim = world.create(&build::claim("data").class("").build()).await;
    world.until("bound", async || bound(&world, &claim).await).await;
    world.remove_finalizers(&volume).await;
    world
        .until("lost", async || {
            world.get(&claim).await.is_some_and(|c| volume::claim_phase(&c) == volume::LOST)
        })
        .await;
    world.create(&static_volume("kept", "")).await;
    world.until("bound again (9.1.16)", async || bound(&world, &claim).await).await;
    assert_eq!(reasons(&world).await.iter().filter(|r| *r == "ClaimLost").count(), 1);
    process.end().await;
}

/// Claim, pod and node of a class that waits for its consumer.
async fn late_pod(world: &World) -> (PersistentVolumeClaim, Pod) {
    world.create(&build::class("late", DRIVER).wait_for_consumer().build()).await;
    world.add_node("n1").await;
    let claim = world.create(&build::claim("data").class("late").build()).await;
    let pod = world.create(&build::pod("web").mount("data", "/data").build()).await;
    (claim, pod)
}

#[tokio::test(start_paused = true)]
async fn the_first_consumer_gets_its_volume_on_its_node() {
    let world = World::new().await;
    let mut process = world.start(None);
    let begin = Instant::now();
    let (claim, _) = late_pod(&world).await;
    world.until("the pod has a node", async || node_of(&world, "web").await == "n1").await;
    assert!(bound(&world, &claim).await, "BIND-2: the pod went before its volume");
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    let by_scheduler: Vec<String> =
        process.journal().into_iter().filter(|e| e.starts_with("default-scheduler")).collect();
    assert_eq!(
        by_scheduler,
        [
            "default-scheduler update persistentvolumeclaim default/data",
            "default-scheduler binding pod default/web"
        ]
    );
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_place_says_why_and_is_woken_by_what_helps() {
    let world = World::new().await;
    let process = world.start(None);
    let pod = world.create(&build::pod("web").mount("data", "/data").build()).await;
    let message = async || {
        let pod = world::pod(&world, pod.name()).await?;
        pod::condition(&pod, pod::POD_SCHEDULED)?.message.clone()
    };
    world
        .until("no node", async || message().await.as_deref() == Some("no nodes available to schedule pods"))
        .await;
    world.add_node("n1").await;
    world
        .until("no claim", async || {
            message().await.is_some_and(|m| m.contains("persistentvolumeclaim \"data\" not found"))
        })
        .await;
    world.create(&build::claim("data").class("late").build()).await;
    world
        .until("no class", async || {
            message().await.is_some_and(|m| m.contains("pod has unbound immediate PersistentVolumeClaims"))
        })
        .await;
    world.create(&build::class("late", DRIVER).wait_for_consumer().build()).await;
    world.until("it has a node", async || node_of(&world, "web").await == "n1").await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_pod_waits_for_a_read_write_once_pod_claim() {
    let world = World::new().await;
    let process = world.start(None);
    world.add_node("n1").await;
    world.create(&build::class("late", DRIVER).wait_for_consumer().build()).await;
    world.create(&build::claim("data").class("late").access_mode(volume::READ_WRITE_ONCE_POD).build()).await;
    let names = ["a", "b"];
    for name in names {
        world.create(&build::pod(name).mount("data", "/data").build()).await;
    }
    let placed = async || {
        let mut placed = Vec::new();
        for name in names {
            if !node_of(&world, name).await.is_empty() {
                placed.push(name);
            }
        }
        placed
    };
    world.until("one is placed", async || !placed().await.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let first = placed().await;
    assert_eq!(first.len(), 1, "{first:?}");
    world.delete(&world::pod(&world, first[0]).await.unwrap()).await;
    let other = if first[0] == "a" { "b" } else { "a" };
    world.until("the other follows", async || node_of(&world, other).await == "n1").await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_used_claim_stays_until_its_pod_is_gone_and_then_nothing_is_left() {
    let world = World::new().await;
    let process = world.start(None);
    let (claim, pod) = late_pod(&world).await;
    world.until("the pod has a node", async || node_of(&world, "web").await == "n1").await;
    world.delete(&claim).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.get(&claim).await.is_some(), "a pod on a node uses it");
    world.delete(&pod).await;
    world.until("the claim is gone", async || world.get(&claim).await.is_none()).await;
    world.until("the volume is gone", async || world.list::<PersistentVolume>().await.is_empty()).await;
    process.end().await;
}

/// Goal: wherever the process dies, and whether its last write landed or not, its successor finishes the journey.
/// Method: count the writes of a calm run, then break the connection at each of them in turn.
#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_is_survived() {
    let calm = journey(None).await;
    assert!(calm >= 8, "a journey has at least eight writes, counted {calm}");
    for at in 0..calm {
        for landed in [false, true] {
            journey(Some(Cut { at, landed })).await;
        }
    }
}

/// Claim and pod come, run and go; returns how many writes it took the process without a cut.
async fn journey(cut: Option<Cut>) -> usize {
    let world = World::new().await;
    let mut process = world.start(cut);
    let (claim, pod) = late_pod(&world).await;
    if cut.is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let placed = async || node_of(&world, "web").await == "n1";
    if cut.is_some() && !placed().await {
        process.crash().await;
        process = world.start(None);
    }
    world.until(&format!("the pod has a node, {cut:?}"), placed).await;
    check_pairs(&world).await;
    assert_eq!(world.list::<PersistentVolume>().await.len(), 1, "{cut:?}");

    world.delete(&pod).await;
    world.delete(&claim).await;
    let empty =
        async || world.list::<PersistentVolume>().await.is_empty() && world.get(&claim).await.is_none();
    if cut.is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !empty().await {
            process.crash().await;
            process = world.start(None);
        }
    }
    world.until(&format!("nothing is left, {cut:?}"), empty).await;
    let writes = process.writes();
    process.crash().await;
    writes
}
