//! Our programs alone, and beside upstream's.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use crate::setup::{By, Lead, Setup};
use crate::support::upstream::client_of;

#[tokio::test(flavor = "multi_thread")]
async fn our_programs_have_enough_rights() {
    let setup = Setup::new().await;
    let _driver = setup.driver().await;
    let mut controllers = setup.core(By::Us, "kube-controller-manager", Lead::Shortly, 1);
    let mut scheduler = setup.core(By::Us, "kube-scheduler", Lead::Shortly, 1);
    let mut provisioner = setup.sidecar(By::Us, "csi-provisioner", 1).await;
    let mut attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
    let (mut registrar, _node) = setup.node().await;
    setup.journey().await;
    for program in [&mut controllers, &mut scheduler, &mut provisioner, &mut attacher, &mut registrar] {
        assert!(program.end().success(), "{}", program.name);
        assert!(!program.log().contains("orbidden"), "{}:\n{}", program.name, program.log());
    }
    setup.no_refusals(&[]);

    // The record can tell: who asks for more is found in it.
    let scheduler = setup.server.user("system:kube-scheduler", "system:kube-scheduler");
    let secrets: Api<Secret> = Api::default_namespaced(client_of(&scheduler).await);
    assert!(secrets.list(&Default::default()).await.is_err());
    assert_eq!(setup.server.refusals(), ["system:kube-scheduler list secrets"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_sidecars_work_with_upstreams_controllers_and_scheduler() {
    let setup = Setup::new().await;
    let _driver = setup.driver().await;
    let _controllers = setup.core(By::Upstream, "kube-controller-manager", Lead::Alone, 1);
    let _scheduler = setup.core(By::Upstream, "kube-scheduler", Lead::Alone, 1);
    let _provisioner = setup.sidecar(By::Us, "csi-provisioner", 1).await;
    let _attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
    let (_registrar, _node) = setup.node().await;
    setup.journey().await;
    setup.no_refusals(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_controllers_and_scheduler_work_with_upstreams_provisioner() {
    let setup = Setup::new().await;
    let _driver = setup.driver().await;
    let _controllers = setup.core(By::Us, "kube-controller-manager", Lead::Alone, 1);
    let _scheduler = setup.core(By::Us, "kube-scheduler", Lead::Alone, 1);
    let _provisioner = setup.sidecar(By::Upstream, "csi-provisioner", 1).await;
    let _attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
    let (_registrar, _node) = setup.node().await;
    setup.journey().await;
    setup.no_refusals(&[]);
}
