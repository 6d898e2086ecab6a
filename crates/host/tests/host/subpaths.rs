//! Parts of a volume at a container's mountPath: found inside the volume or not at all.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bowline_host::containers::State;

use crate::containers::{binding, run};
use crate::world::World;

/// What a container sees at `/data`, or why it does not start.
async fn shown(world: &World, volume: &Path, sub_path: &str) -> String {
    let mut spec = world.script("uid/main/0", "if [ -d /data ]; then ls -A /data; else cat /data; fi");
    let mut volume = binding(volume, "/data", false);
    volume.sub_path = Some(sub_path.into());
    spec.mounts = vec![volume];
    let (exit, log) = run(world, &spec).await;
    exit.error.unwrap_or(log)
}

#[tokio::test]
async fn sub_paths_stay_inside_the_volume() {
    let world = World::new();
    let volume = world.dir("volume");
    std::fs::set_permissions(&volume, std::fs::Permissions::from_mode(0o2770)).unwrap();
    std::fs::create_dir_all(volume.join("dir/deeper")).unwrap();
    std::fs::write(volume.join("dir/file"), "text\n").unwrap();
    std::fs::write(world.path("secret"), "secret\n").unwrap();
    symlink("dir/deeper/..", volume.join("inside")).unwrap();
    symlink("nothing", volume.join("dangling")).unwrap();
    for (name, target) in
        [("up", ".."), ("secret", "../secret"), ("etc", "/etc"), ("proc", "/proc/self/root")]
    {
        symlink(target, volume.join(name)).unwrap();
    }
    for (path, want) in [
        ("dir", "deeper\nfile\n"),
        ("./dir//", "deeper\nfile\n"),
        ("dir/file", "text\n"),
        ("inside", "deeper\nfile\n"),
        ("inside/file", "text\n"),
        ("new/and/more", ""),
    ] {
        assert_eq!(shown(&world, &volume, path).await, want, "{path}");
    }
    for made in ["new", "new/and", "new/and/more"] {
        let mode = std::fs::metadata(volume.join(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o2770, "{made}");
    }
    let failed = |path: &str, why: &str| format!("open sub-path `{path}` of `{}`: {why}", volume.display());
    for path in ["up", "secret", "etc", "etc/passwd", "etc/new", "proc/etc", "up/new"] {
        let want = failed(path, "a link leads out of the volume");
        assert_eq!(shown(&world, &volume, path).await, want, "{path}");
    }
    let refused = shown(&world, &volume, "dangling/new").await;
    assert!(refused.starts_with("open sub-path `dangling/new`"), "{refused}");
    assert!(!volume.join("nothing").exists());
    assert_eq!(shown(&world, &volume, "dir/file/new").await, failed("dir/file/new", "not a directory"));
    for path in ["..", "dir/../..", "/etc"] {
        let want = format!("sub-path `{path}`: the path has to be relative and without `..`");
        assert_eq!(shown(&world, &volume, path).await, want);
    }
}

/// A workload swaps a directory and a link to the host while containers with that sub-path start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_path_that_changes_meanwhile_never_leads_out() {
    let world = World::new();
    let volume = world.dir("volume");
    std::fs::create_dir(volume.join("swap")).unwrap();
    symlink("/etc", volume.join("link")).unwrap();
    let mut seen = Vec::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let (a, b) = (volume.join("swap"), volume.join("link"));
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &a, rustix::fs::CWD, &b, flags).unwrap();
            }
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for _ in 0..30 {
                    seen.push(shown(&world, &volume, "swap/new").await);
                }
            });
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // Asserted only now: the other thread has to end first.
    for seen in seen {
        let held = seen.is_empty() || seen.starts_with("open sub-path");
        assert!(held && !seen.contains("passwd"), "{seen}");
    }
    assert!(!Path::new("/etc/new").exists());
    let state = world.host.containers.state("uid/main/0").await.unwrap();
    assert!(!matches!(state, Some(State::Running { .. })));
}
