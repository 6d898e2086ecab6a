//! One journey of a volume over both machines, with every refusal on the way: where the fake kernel differs from
//! the real one, a simulation proves nothing.

use std::path::Path;

use bowline_host::containers::{Binding, ContainerSpec, Found, State};
use bowline_host::kernel::Content;
use bowline_host::{Host, fake};
use nix::libc;

use crate::world::{World, errno, until_free};

#[tokio::test]
async fn real_journey() {
    let world = World::new();
    journey(&world.host, &world.dir("journey"), async |device| until_free(device).await).await;
}

#[tokio::test(start_paused = true)]
async fn fake_journey() {
    let (host, fake) = fake::host(3);
    let dir = Path::new("/var/lib/journey");
    host.disk.create_dir_all(dir, 0o755).await.unwrap();
    journey(&host, dir, async |_| ()).await;
    assert!(fake.mounts().is_empty() && fake.loops().is_empty());
}

/// `until_free` waits for other tests' containers, which have a copy of all mounts while they are set up.
async fn journey(host: &Host, dir: &Path, until_free: impl AsyncFn(&Path)) {
    let (kernel, disk) = (&host.kernel, &host.disk);
    let [image, stage, publish] = ["image", "stage", "publish"].map(|name| dir.join(name));
    disk.create_dir_all(&stage, 0o750).await.unwrap();
    disk.create_dir_all(&publish, 0o750).await.unwrap();

    assert_eq!(errno(&kernel.loop_attach(&image, false).await.unwrap_err()), libc::ENOENT);
    assert_eq!(kernel.loop_of(&image).await.unwrap(), None);
    disk.create_sparse(&image, 64 << 20).await.unwrap();
    let device = kernel.loop_attach(&image, false).await.unwrap();
    assert_eq!(kernel.content(&device).await.unwrap(), Content::Empty);

    let mount = async |fs_type: &str| kernel.mount(&device, &stage, fs_type, &[]).await;
    assert_eq!(errno(&mount("ext4").await.unwrap_err()), libc::EINVAL, "an empty device");
    kernel.make_filesystem(&device, "ext4", &[]).await.unwrap();
    assert!(
        kernel.make_filesystem(&device, "ext4", &[]).await.unwrap_err().to_string().contains("holds data")
    );
    assert_eq!(errno(&mount("xfs").await.unwrap_err()), libc::EINVAL, "another filesystem");
    mount("ext4").await.unwrap();
    assert_eq!(errno(&mount("ext4").await.unwrap_err()), libc::EBUSY, "already there");
    let staged = kernel.mount_at(&stage).await.unwrap().unwrap();
    assert_eq!((staged.root.as_path(), staged.fs_type.as_str()), (Path::new("/"), "ext4"));
    assert_eq!(Path::new(&staged.source), device);

    kernel.bind(&stage, &publish, true).await.unwrap();
    let published = kernel.mount_at(&publish).await.unwrap().unwrap();
    assert_eq!((&published.device, &published.source), (&staged.device, &staged.source));
    assert!(published.read_only() && !staged.read_only());
    assert_eq!(disk.remove_dir(&publish).await.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    disk.write_atomic(&stage.join("file"), b"text", 0o600).await.unwrap();
    assert_eq!(disk.read(&publish.join("file")).await.unwrap(), b"text");
    let refused = disk.write_atomic(&publish.join("file"), b"", 0o600).await.unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));

    run_container(host, dir, &publish).await;

    kernel.unmount(&publish).await.unwrap();
    kernel.unmount(&publish).await.unwrap();
    assert_eq!(kernel.mount_at(&publish).await.unwrap(), None);
    disk.remove_dir(&publish).await.unwrap();
    assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY, "still staged");
    kernel.unmount(&stage).await.unwrap();
    until_free(&device).await;
    kernel.loop_detach(&device).await.unwrap();
    assert_eq!(kernel.loop_of(&image).await.unwrap(), None);
    assert!(disk.list(&stage).await.unwrap().is_empty());
    disk.remove_file(&image).await.unwrap();
}

async fn run_container(host: &Host, dir: &Path, volume: &Path) {
    let containers = &host.containers;
    let spec = ContainerSpec {
        id: "uid/main/0".into(),
        hostname: "pod".into(),
        argv: ["sleep", "1000"].map(Into::into).into(),
        env: Vec::new(),
        working_dir: None,
        mounts: vec![Binding::new(volume, "/data").read_only(true)],
        devices: Vec::new(),
        hidden: Vec::new(),
        security: Default::default(),
        resources: Default::default(),
        log: dir.join("log"),
        message_path: None,
    };
    let running = containers.start(&spec).await.unwrap();
    assert!(matches!(running, State::Running { .. }));
    assert_eq!(containers.start(&spec).await.unwrap(), running);
    let found = Found { id: spec.id.clone(), state: running, evicted: false, earlier_boot: false };
    assert_eq!(containers.list().await.unwrap(), std::slice::from_ref(&found));
    containers.mark_evicted(&spec.id).await.unwrap();
    assert_eq!(containers.list().await.unwrap(), [Found { evicted: true, ..found }]);
    assert_eq!(errno(&containers.remove(&spec.id).await.unwrap_err()), libc::EBUSY);
    containers.signal(&spec.id, libc::SIGTERM).await.unwrap();
    let exit = containers.wait(&spec.id).await.unwrap();
    assert_eq!((exit.code, exit.signal, &exit.error), (143, Some(15), &None));
    containers.signal(&spec.id, libc::SIGTERM).await.unwrap();
    let ended = containers.start(&spec).await.unwrap();
    assert!(matches!(&ended, State::Exited { exit: e, .. } if *e == exit), "it is not started again");
    containers.remove(&spec.id).await.unwrap();
    containers.remove(&spec.id).await.unwrap();
    assert_eq!(containers.state(&spec.id).await.unwrap(), None);

    let missing = Binding { source: dir.join("no volume"), ..spec.mounts[0].clone() };
    let failed = containers.start(&ContainerSpec { mounts: vec![missing], ..spec }).await.unwrap();
    let State::Exited { exit, .. } = failed else { panic!("it runs: {failed:?}") };
    assert_eq!(exit.code, 128);
    assert!(exit.error.unwrap().ends_with("no such file or directory"));
    containers.remove("uid/main/0").await.unwrap();
}
