//! Claims and volumes find each other, and part.

use super::*;

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
    let numbers = 0..100;
    for n in numbers.clone() {
        world.create(&build::claim(&format!("c{n:03}")).class("").build()).await;
    }
    tokio::time::sleep(AT_ONCE).await;
    for n in numbers.clone() {
        world.create(&static_volume(&format!("v{n:03}"), "")).await;
    }
    world
        .until("all are bound", async || {
            let claims = world.list::<PersistentVolumeClaim>().await;
            claims.iter().filter(|c| volume::claim_phase(c) == volume::BOUND).count() == numbers.len()
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
