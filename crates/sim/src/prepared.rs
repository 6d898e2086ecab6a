//! What every cluster starts with, made once by the API server itself and shared by all histories of this process.

use std::sync::LazyLock;

use bowline_api::{CSIDriver, Namespace, ServiceAccount, StorageClass, build};
use bowline_apiserver::store::Loaded;
use bowline_apiserver::{Registry, Server, Store, kinds};
use bowline_drivers::local;
use bowline_host::fake;
use bowline_machinery::client::in_process;
use bowline_machinery::{EffectError, Journal, Ports};
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio_util::sync::CancellationToken;

pub const CLASS_LATE: &str = "late";
pub const CLASS_AT_ONCE: &str = "at-once";
pub const CLASS_RETAIN: &str = "retain";

/// The kinds and the admission plugins. None of them keeps anything that a history changes.
pub static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = Registry::new();
    kinds::register::register(&mut registry);
    kinds::register::register_admission_of(&mut registry, &kinds::plugins::Plugins::default());
    registry
});

/// The objects of a cluster in which nothing has happened yet.
pub static CONTENTS: LazyLock<Loaded> = LazyLock::new(contents);

#[expect(clippy::expect_used, reason = "without the first objects there is no history")]
fn contents() -> Loaded {
    // A thread of its own, since a history's runtime may be running on this one.
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(first_objects())
    })
    .join()
    .expect("the first objects")
}

#[expect(clippy::expect_used, reason = "without the first objects there is no history")]
async fn first_objects() -> Loaded {
    let (host, _) = fake::host(0);
    let (clock, random) = (host.clock.clone(), host.random.clone());
    let server = Server::new(Store::memory(), REGISTRY.clone(), clock, random);
    let client = in_process(server.clone());
    let ports = Ports::new(client, host, Journal::default(), CancellationToken::new());
    create(&ports).await.expect("the first objects");
    server.store().contents()
}

/// Roles of users are left out, since requests from inside are trusted.
async fn create(ports: &Ports) -> Result<(), EffectError> {
    let person = ports.effects("kubectl");
    for name in ["default", "kube-system", "kube-node-lease"] {
        person.create(&Namespace { metadata: named("", name), ..Default::default() }).await?;
    }
    person.create(&ServiceAccount { metadata: named("default", "default"), ..Default::default() }).await?;
    let spec = CSIDriverSpec { attach_required: Some(true), ..Default::default() };
    person.create(&CSIDriver { metadata: named("", local::NAME), spec }).await?;
    let late = build::class(CLASS_LATE, local::NAME).wait_for_consumer();
    let retain = build::class(CLASS_RETAIN, local::NAME).reclaim("Retain");
    for class in [late, build::class(CLASS_AT_ONCE, local::NAME), retain] {
        person.create::<StorageClass>(&class.build()).await?;
    }
    Ok(())
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    ObjectMeta { name: Some(name.into()), namespace, ..Default::default() }
}
