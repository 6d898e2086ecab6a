//! Pods find nodes, with their volumes.

use super::*;

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
async fn a_burst_of_pods_is_spread_before_any_of_them_is_bound() {
    let world = World::new().await;
    world.add_node("n1").await;
    world.add_node("n2").await;
    world.create(&build::class("late", DRIVER).wait_for_consumer().build()).await;
    for n in 0..20 {
        world.create(&build::claim(&format!("c{n:02}")).class("late").build()).await;
        world.create(&build::pod(&format!("p{n:02}")).mount(&format!("c{n:02}"), "/data").build()).await;
    }
    let process = world.start(None);
    let on =
        async |node: &str| world.list::<Pod>().await.iter().filter(|p| pod::node_name(p) == node).count();
    world.until("all are placed", async || on("n1").await + on("n2").await == 20).await;
    assert_eq!((on("n1").await, on("n2").await), (10, 10));
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_given_back_is_not_chosen_again_while_there_is_another() {
    let world = World::new().await;
    world.refuse_node("n1");
    let process = world.start(None);
    let begin = Instant::now();
    let (claim, _) = late_pod(&world).await;
    world.until("given back", async || reasons(&world).await.contains(&"FailedScheduling".to_owned())).await;
    world.add_node("n2").await;
    world.until("placed on the other", async || node_of(&world, "web").await == "n2").await;
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(bound(&world, &claim).await);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_another_node_the_choice_is_repeated_calmly() {
    let world = World::new().await;
    world.refuse_node("n1");
    let process = world.start(None);
    late_pod(&world).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let attempts = process.writes();
    assert!((5..=20).contains(&attempts), "about one attempt a second, counted {attempts} writes in ten");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_chosen_node_that_disappears_is_named() {
    let world = World::new().await;
    world.stop_provisioner();
    let process = world.start(None);
    let (_, web) = late_pod(&world).await;
    tokio::time::sleep(AT_ONCE).await;
    let node: bowline_api::Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
    world.add_node("n2").await;
    world.delete(&node).await;
    world
        .until("it says so", async || {
            let pod = world.get(&web).await;
            let condition = pod.as_ref().and_then(|p| pod::condition(p, pod::POD_SCHEDULED));
            let message = condition.and_then(|c| c.message.as_deref()).unwrap_or_default();
            message.contains("waits for node \"n1\", which does not exist")
        })
        .await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_volume_is_taken_on_the_node_that_reaches_it() {
    let world = World::new().await;
    let process = world.start(None);
    world.add_node("n1").await;
    world.add_node("n2").await;
    let class = build::class("late", "kubernetes.io/no-provisioner").wait_for_consumer().build();
    world.create(&class).await;
    let claim = world.create(&build::claim("data").class("late").build()).await;
    world.create(&build::pod("web").mount("data", "/data").build()).await;
    tokio::time::sleep(AT_ONCE).await;
    assert_eq!(node_of(&world, "web").await, "", "no volume yet");
    let mut volume = static_volume("disk", "late");
    volume.spec.as_mut().unwrap().node_affinity = serde_json::from_value(json!({
        "required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": bowline_api::keys::HOSTNAME_LABEL, "operator": "In", "values": ["n2"]},
        ]}]},
    }))
    .unwrap();
    world.create(&volume).await;
    world.until("placed", async || node_of(&world, "web").await == "n2").await;
    assert!(bound(&world, &claim).await);
    process.end().await;
}

/// B14: the binding landed, reading the pod back failed, and the watch has not told of it yet.
#[tokio::test(start_paused = true)]
async fn no_pod_is_decided_before_the_last_binding_was_read_back() {
    let world = World::new().await;
    world.add_node("n1").await;
    world.create(&build::class("late", DRIVER).wait_for_consumer().build()).await;
    world.create(&build::claim("data").class("late").access_mode(volume::READ_WRITE_ONCE_POD).build()).await;
    for name in ["a", "b"] {
        world.create(&build::pod(name).mount("data", "/data").build()).await;
    }
    let process = world.start_deaf_to_pods();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let mut placed = Vec::new();
    for name in ["a", "b"] {
        placed.push(!node_of(&world, name).await.is_empty());
    }
    assert_eq!(placed.iter().filter(|placed| **placed).count(), 1, "ReadWriteOncePod: {placed:?}");
    process.end().await;
}
