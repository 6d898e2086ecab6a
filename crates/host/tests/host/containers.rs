//! Containers on a real kernel: what they see, how they end, and that they outlive whoever started them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_host::containers::{Binding, ContainerSpec, Exit, Found, State};
use nix::libc;
use tokio::time::timeout;

use crate::world::{World, errno, shim};

pub fn binding(source: impl AsRef<Path>, target: &str, read_only: bool) -> Binding {
    Binding::new(source.as_ref(), target).read_only(read_only)
}

pub async fn wait(world: &World, id: &str) -> Exit {
    timeout(Duration::from_secs(60), world.host.containers.wait(id)).await.unwrap().unwrap()
}

pub async fn until_logged(world: &World, spec: &ContainerSpec, text: &str) {
    let logged = async {
        while !world.log(spec).contains(text) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), logged).await.unwrap();
}

/// Runs a container to its end; returns how it ended and what it said.
pub async fn run(world: &World, spec: &ContainerSpec) -> (Exit, String) {
    let _ = std::fs::remove_file(&spec.log);
    world.host.containers.start(spec).await.unwrap();
    let exit = wait(world, &spec.id).await;
    world.host.containers.remove(&spec.id).await.unwrap();
    (exit, world.log(spec))
}

#[tokio::test]
async fn exit_codes_and_records() {
    let world = World::new();
    let containers = &world.host.containers;
    for (script, code, signal) in
        [("exit 0", 0, None), ("exit 7", 7, None), ("kill -9 $$", 137, Some(9)), ("kill -6 $$", 134, Some(6))]
    {
        let spec = world.script("uid/main/0", script);
        let (exit, _) = run(&world, &spec).await;
        assert_eq!((exit.code, exit.signal, exit.error), (code, signal, None), "{script}");
    }
    assert_eq!(containers.state("uid/main/0").await.unwrap(), None);
    assert!(containers.list().await.unwrap().is_empty());
    assert_eq!(errno(&containers.wait("uid/main/0").await.unwrap_err()), libc::ENOENT);
    containers.remove("uid/main/0").await.unwrap();
    containers.signal("uid/main/0", libc::SIGTERM).await.unwrap();
    assert!(containers.state("../etc").await.is_err());

    // The same id again is the same container, running or ended.
    let spec = world.script("uid/main/1", "exec sleep 1000");
    let first = containers.start(&spec).await.unwrap();
    assert!(matches!(first, State::Running { pid, .. } if pid > 1));
    assert_eq!(containers.start(&spec).await.unwrap(), first);
    assert_eq!(
        containers.list().await.unwrap(),
        [Found { id: "uid/main/1".into(), state: first, evicted: false, earlier_boot: false }]
    );
    assert_eq!(errno(&containers.remove("uid/main/1").await.unwrap_err()), libc::EBUSY);
    containers.signal("uid/main/1", libc::SIGKILL).await.unwrap();
    let exit = wait(&world, "uid/main/1").await;
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    assert!(matches!(containers.start(&spec).await.unwrap(), State::Exited { exit: e, .. } if e == exit));
    containers.remove("uid/main/1").await.unwrap();
    assert!(std::fs::read_dir(world.path("state/containers")).unwrap().next().is_none());
}

#[tokio::test]
async fn sigterm_ends_programs_that_know_nothing_of_being_first() {
    let world = World::new();
    for argv in [&["sleep", "1000"][..], &["sh", "-c", "sleep 1000; true"]] {
        let mut spec = world.script("uid/term/0", "");
        spec.argv = argv.iter().map(ToString::to_string).collect();
        world.host.containers.start(&spec).await.unwrap();
        world.host.containers.signal(&spec.id, libc::SIGTERM).await.unwrap();
        let exit = wait(&world, &spec.id).await;
        assert_eq!((exit.code, exit.signal), (143, Some(15)), "{argv:?}");
        world.host.containers.remove(&spec.id).await.unwrap();
    }
    let spec =
        world.script("uid/trap/0", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done");
    world.host.containers.start(&spec).await.unwrap();
    until_logged(&world, &spec, "up").await;
    world.host.containers.signal(&spec.id, libc::SIGTERM).await.unwrap();
    assert_eq!(wait(&world, &spec.id).await.code, 3);
    assert!(world.log(&spec).ends_with("bye\n"));
    world.host.containers.remove(&spec.id).await.unwrap();
}

/// Signals that have no name here, sent to process 1 by the workload itself.
#[tokio::test]
async fn real_time_signals_do_not_end_a_container() {
    let world = World::new();
    let spec = world.script("uid/main/0", "perl -e 'kill(40, 1) or die $!'; sleep 0.1; echo alive");
    let (exit, log) = run(&world, &spec).await;
    assert_eq!((exit.code, exit.error, log.as_str()), (0, None, "alive\n"));
}

#[tokio::test]
async fn the_world_inside() {
    let world = World::new();
    let mut spec = world.script(
        "uid/inside/0",
        "echo host $(hostname) cwd $(pwd) a=$A path=$PATH left=$CARGO
         touch /x 2>/dev/null; echo root $?
         touch /tmp/x /run/x /dev/shm/x; echo tmp $?
         echo 1 2>/dev/null >/proc/sys/kernel/printk; echo sys $?
         head -c 4 /dev/zero | wc -c; echo to-null >/dev/null
         ls /proc | grep -c '^[0-9]'
         mount -t tmpfs none /tmp 2>/dev/null; echo mount $?
         { tr '\\0' '\\n' </proc/1/environ; } 2>/dev/null | grep -c CARGO
         (sleep 0.01 &) ; echo err >&2; sleep 0.05",
    );
    spec.env = vec![("A".into(), "b c".into())];
    spec.working_dir = Some("/no/such/place/on/the/host".into());
    let (exit, log) = run(&world, &spec).await;
    assert_eq!(exit.code, 0, "{log}");
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let place = "/no/such/place/on/the/host";
    assert!(log.contains(&format!("host pod-0 cwd {place} a=b c path={path} left=\n")), "{log}");
    assert!(log.contains("root 1\ntmp 0\nsys 2\n4\n") || log.contains("root 1\ntmp 0\nsys 1\n4\n"), "{log}");
    assert!(!log.contains("mount 0"), "a container may not mount: {log}");
    assert!(log.ends_with("\n0\nerr\n"), "nothing of the starter's environment shows: {log}");
    let processes: u32 = log.lines().nth(5).unwrap().parse().unwrap();
    assert!(processes <= 6, "only its own processes show: {log}");
    assert!(!Path::new("/no").exists(), "nothing was made on the host");
}

#[tokio::test]
async fn volumes_devices_and_hidden_directories() {
    let world = World::new();
    let (device, target) = world.mounted("image", "ext4").await;
    let raw = world.device("raw image", 4).await;
    std::fs::write(target.join("file"), "from the host").unwrap();
    let secrets = world.dir("secrets");
    std::fs::write(secrets.join("key"), "secret").unwrap();
    let note = world.path("note");
    std::fs::write(&note, "one file").unwrap();
    let inside = secrets.join("volume").to_string_lossy().into_owned();
    let mut spec = world.script(
        "uid/volumes/0",
        &format!(
            "cat /mnt/no/such/path/file; echo; echo 'from inside' >/mnt/no/such/path/new
             cat /read-only/file; echo; touch /read-only/new 2>/dev/null; echo ro $?
             ls {secrets}; touch {secrets}/new 2>/dev/null; echo hidden $?; ls {inside}/new
             cat /etc/bowline/note; echo; ls /var/run/nested/new /tmp/nested/new
             echo raw >/dev/xvda; head -c 3 /dev/xvda; echo; [ -b /block ] && echo block",
            secrets = secrets.display(),
        ),
    );
    spec.mounts = vec![
        binding(&target, "/mnt/no/such/path", false),
        binding(&target, "/read-only", true),
        binding(&target, &inside, false),
        binding(&note, "/etc/bowline/note", true),
        binding(&target, "/var/run/nested", false),
        binding(&target, "/tmp/nested", false),
    ];
    spec.devices = vec![binding(&raw, "/dev/xvda", false), binding(&raw, "/block", false)];
    spec.hidden = vec![secrets.clone(), "/no/such/directory".into()];
    let (exit, log) = run(&world, &spec).await;
    assert_eq!(exit.code, 0, "{log}");
    let expected = format!(
        "from the host\nfrom the host\nro 1\nvolume\nhidden 1\n{inside}/new\none file\n\
         /tmp/nested/new\n/var/run/nested/new\nraw\nblock\n"
    );
    assert_eq!(log, expected);
    assert_eq!(std::fs::read_to_string(target.join("new")).unwrap(), "from inside\n");
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
    world.detach(&raw).await;
}

#[tokio::test]
async fn a_container_keeps_no_volume_of_others_in_use() {
    let world = World::new();
    let (device, target) = world.mounted("other", "ext4").await;
    let spec = world.script("uid/other/0", "exec sleep 1000");
    world.host.containers.start(&spec).await.unwrap();
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
    world.host.containers.signal(&spec.id, libc::SIGKILL).await.unwrap();
    wait(&world, &spec.id).await;
}

#[tokio::test]
async fn failed_starts_say_why() {
    let world = World::new();
    let fail = async |change: &dyn Fn(&mut ContainerSpec)| {
        let mut spec = world.script("uid/fail/0", "true");
        change(&mut spec);
        let state = world.host.containers.start(&spec).await.unwrap();
        let State::Exited { exit, .. } = state else { panic!("it runs: {state:?}") };
        assert_eq!(exit.code, 128);
        world.host.containers.remove(&spec.id).await.unwrap();
        exit.error.unwrap()
    };
    let nosuch = fail(&|spec| spec.argv = vec!["nosuch".into()]).await;
    assert_eq!(nosuch, "exec \"nosuch\": no such file or directory");
    let denied = fail(&|spec| spec.argv = vec!["/etc/passwd".into()]).await;
    assert_eq!(denied, "exec \"/etc/passwd\": permission denied");
    let volume = fail(&|spec| spec.mounts = vec![binding("/no/volume", "/data", false)]).await;
    assert_eq!(volume, "mount `/no/volume` at `/data`: no such file or directory");
    let log = fail(&|spec| spec.log = "/proc/no/log".into()).await;
    assert!(log.starts_with("open log `/proc/no/log`: "), "{log}");
    assert_eq!(fail(&|spec| spec.argv.clear()).await, "the container has no command");
}

/// NODE-3: the process that started a container is killed; its successor finds the container, and waits for it.
#[tokio::test]
async fn a_container_outlives_its_starter() {
    let world = World::new();
    let spec = world.script("uid/main/0", "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done");
    let spec_file = world.path("starter.json");
    std::fs::write(&spec_file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let mut starter = Command::new(shim());
    let starter = starter.arg("start").arg(world.path("state")).arg(&spec_file).stdout(Stdio::piped());
    let mut starter = starter.spawn().unwrap();
    let mut first = [0; 1];
    std::io::Read::read_exact(starter.stdout.as_mut().unwrap(), &mut first).unwrap();
    starter.kill().unwrap();
    starter.wait().unwrap();

    let State::Running { pid, .. } = world.host.containers.state(&spec.id).await.unwrap().unwrap() else {
        panic!("it has ended")
    };
    let again = world.host.containers.start(&spec).await.unwrap();
    assert!(matches!(again, State::Running { pid: p, .. } if p == pid));
    let waiting = tokio::spawn({
        let containers = world.restarted().containers;
        async move { containers.wait("uid/main/0").await }
    });
    until_logged(&world, &spec, "up").await;
    world.host.containers.signal(&spec.id, libc::SIGTERM).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().code, 5);
    world.host.containers.remove(&spec.id).await.unwrap();
}

#[tokio::test]
async fn a_killed_shim_takes_its_container_along() {
    let world = World::new();
    let (device, target) = world.mounted("image", "ext4").await;
    let mut spec = world.script("uid/main/0", "exec sleep 1000");
    spec.mounts = vec![binding(&target, "/data", false)];
    let State::Running { pid, .. } = world.host.containers.start(&spec).await.unwrap() else {
        panic!("it has ended")
    };
    let record = world.path("state/containers/uid_main_0/running.json");
    let running: serde_json::Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    assert_eq!(running["init"]["pid"], pid);
    let shim = rustix::process::Pid::from_raw(running["shim"]["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let exit = wait(&world, &spec.id).await;
    assert_eq!((exit.code, exit.error.as_deref()), (137, Some("container shim was killed")));
    assert_eq!(wait(&world, &spec.id).await, exit, "said once, said for good");
    // Its volume is free.
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
    world.host.containers.remove(&spec.id).await.unwrap();
}

/// A full disk neither changes how a container ended nor keeps its record from being removed.
#[tokio::test]
async fn containers_end_on_a_full_disk() {
    let world = World::new();
    let state = world.dir("state");
    let mounted =
        crate::world::program("mount", &["-t", "tmpfs", "-o", "size=1m", "none", state.to_str().unwrap()]);
    assert!(mounted.0, "{}", mounted.1);
    let containers = &world.host.containers;
    for (attempt, signal, code) in [(0, libc::SIGTERM, 7), (1, libc::SIGKILL, 137)] {
        let script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done";
        let spec = world.script(&format!("uid/main/{attempt}"), script);
        containers.start(&spec).await.unwrap();
        until_logged(&world, &spec, "up").await;
        let full = std::fs::write(state.join("fill"), vec![0; 2 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        containers.signal(&spec.id, signal).await.unwrap();
        let exit = wait(&world, &spec.id).await;
        assert_eq!((exit.code, exit.error), (code, None));
        containers.remove(&spec.id).await.unwrap();
        std::fs::remove_file(state.join("fill")).unwrap();
    }
    assert!(world.groups().is_empty());
}

/// The starter died after writing the spec: nothing runs, and the next start begins anew.
#[tokio::test]
async fn a_half_started_container_is_started_anew() {
    let world = World::new();
    let spec = world.script("uid/main/0", "exit 4");
    let record = world.dir("state/containers/uid_main_0");
    std::fs::write(record.join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
    std::fs::write(record.join("running.json"), "").unwrap();
    assert_eq!(world.host.containers.state(&spec.id).await.unwrap(), None);
    assert!(world.host.containers.list().await.unwrap().is_empty());
    assert!(!record.exists(), "nobody would ever take it away");
    assert_eq!(run(&world, &spec).await.0.code, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_starts_of_one_container_are_one_start() {
    let world = World::new();
    let spec = world.script("uid/main/0", "echo started; exec sleep 1000");
    // Half of them as another process would: with locks of their own.
    let doors = [world.host.containers.clone(), world.restarted().containers];
    let starts = (0..10).map(|i| {
        let (containers, spec) = (doors[i % 2].clone(), spec.clone());
        tokio::spawn(async move { containers.start(&spec).await })
    });
    let states: Vec<_> = futures::future::join_all(starts).await;
    let first = states[0].as_ref().unwrap().as_ref().unwrap().clone();
    for state in states {
        assert_eq!(state.unwrap().unwrap(), first);
    }
    until_logged(&world, &spec, "started").await;
    world.host.containers.signal(&spec.id, libc::SIGKILL).await.unwrap();
    wait(&world, &spec.id).await;
    assert_eq!(world.log(&spec), "started\n");
}

#[tokio::test]
async fn a_message_about_the_end_is_kept() {
    let world = World::new();
    let volume = world.dir("volume");
    std::fs::write(volume.join("message"), "of the volume").unwrap();
    let write = |path: &str| format!("cat {path}; echo -n why > {path}; exit 3");
    for path in ["/dev/termination-log", "/some/where/message", "/tmp/message", "/data/message"] {
        let mut spec = world.script("uid/main/0", &write(path));
        spec.mounts = vec![binding(&volume, "/data", false)];
        spec.message_path = Some(path.into());
        (spec.security.uid, spec.security.gid, spec.security.read_only_root) = (1000, 1000, true);
        let (exit, said) = run(&world, &spec).await;
        assert_eq!((exit.code, exit.message.as_deref(), said.as_str()), (3, Some("why"), ""), "{path}");
    }
    assert_eq!(std::fs::read_to_string(volume.join("message")).unwrap(), "of the volume");
    let mut spec = world.script("uid/main/0", "yes | head -c 100000 > /dev/termination-log; kill -9 $$");
    spec.message_path = Some("/dev/termination-log".into());
    let (exit, _) = run(&world, &spec).await;
    assert_eq!((exit.code, exit.message.map(|text| text.len())), (137, Some(4096)), "no more than is shown");
    let (exit, _) = run(&world, &ContainerSpec { argv: vec!["true".into()], ..spec.clone() }).await;
    assert_eq!((exit.code, exit.message), (0, None));
    spec.message_path = Some("/data/../etc/message".into());
    let (exit, _) = run(&world, &spec).await;
    assert!(exit.error.is_some_and(|error| error.contains("without `..`")), "refused");
}
