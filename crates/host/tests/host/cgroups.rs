//! Limits and devices of containers, and that nothing of a group is left whatever dies when.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bowline_host::containers::{Resources, Seccomp, State};
use tokio::time::timeout;

use crate::boundary::{both, privileged};
use crate::containers::{binding, run, until_logged, wait};
use crate::exec::{end, said};
use crate::world::{World, shim};

/// The group of a process for a controller of version 1.
fn group(pid: u32, controller: &str) -> PathBuf {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let line = groups.lines().find(|line| line.split(':').nth(1) == Some(controller)).unwrap();
    let path = line.splitn(3, ':').nth(2).unwrap().trim_start_matches('/');
    Path::new("/sys/fs/cgroup").join(controller).join(path)
}

#[tokio::test]
async fn limits_are_set_and_groups_go_with_the_record() {
    let world = World::new();
    let mut spec = world.script("uid/main/0", "echo up; exec sleep 1000");
    spec.resources = Resources {
        memory_max: Some(64 << 20),
        cpu_shares: Some(512),
        cpu_quota: Some(20_000),
        pids_max: Some(50),
    };
    let State::Running { pid, .. } = world.host.containers.start(&spec).await.unwrap() else {
        panic!("it has ended")
    };
    until_logged(&world, &spec, "up").await;
    let value = |controller: &str, file: &str| {
        std::fs::read_to_string(group(pid, controller).join(file)).unwrap().trim().to_owned()
    };
    assert!(group(pid, "memory").starts_with("/sys/fs/cgroup/memory/bowline"));
    assert_eq!(value("memory", "memory.limit_in_bytes"), (64 << 20).to_string());
    assert_eq!(value("cpu", "cpu.shares"), "512");
    assert_eq!(
        (value("cpu", "cpu.cfs_quota_us"), value("cpu", "cpu.cfs_period_us")),
        ("20000".into(), "100000".into())
    );
    assert_eq!(value("pids", "pids.max"), "50");
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert_eq!(said(&world, &spec.id, "cat /proc/self/cgroup").await, own, "what exec starts is in it");
    let others = "for p in /proc/[0-9]*; do cmp -s $p/cgroup /proc/1/cgroup || echo $p; done";
    assert_eq!(said(&world, &spec.id, others).await, "", "and so is everything else");
    assert_eq!(world.groups().len(), 4);
    end(&world, &spec).await;
    assert_eq!(world.groups().len(), 4, "until the record goes");
    world.host.containers.remove(&spec.id).await.unwrap();
    assert!(world.groups().is_empty());

    spec.resources = Resources::default();
    let State::Running { pid, .. } = world.host.containers.start(&spec).await.unwrap() else {
        panic!("it has ended")
    };
    let pids = std::fs::read_to_string(group(pid, "pids").join("pids.max")).unwrap();
    assert_eq!(pids.trim(), "4096", "the default");
    end(&world, &spec).await;
    world.host.containers.remove(&spec.id).await.unwrap();
}

/// S4: what a container may use up.
#[tokio::test]
async fn memory_and_processes_are_limited() {
    let world = World::new();
    let mut spec = world.script("uid/main/0", "");
    spec.argv = ["perl", "-e", "$x = \"a\" x (100 << 20); print \"had it\\n\""].map(Into::into).into();
    spec.resources.memory_max = Some(32 << 20);
    let (exit, log) = run(&world, &spec).await;
    assert_eq!((exit.code, exit.oom_killed, log.as_str()), (137, true, ""));
    spec.resources.memory_max = Some(512 << 20);
    let (exit, log) = run(&world, &spec).await;
    assert_eq!((exit.code, exit.oom_killed, log.as_str()), (0, false, "had it\n"));

    let mut spec =
        world.script("uid/bomb/0", "for i in $(seq 60); do sleep 1000 & done 2>/dev/null; jobs -p | wc -l");
    spec.resources.pids_max = Some(20);
    let (exit, log) = run(&world, &spec).await;
    assert!(!log.contains("60"), "{exit:?} {log}");
    let mut spec = world.script("uid/exec/0", "exec sleep 1000");
    spec.resources.memory_max = Some(32 << 20);
    world.host.containers.start(&spec).await.unwrap();
    let killed = said(&world, &spec.id, "exec perl -e '$x = \"a\" x (100 << 20)'").await;
    assert_eq!(killed, "exit 137\n", "programs beside it count, too");
    end(&world, &spec).await;
}

/// S4: without a profile a container may make user namespaces, but none from which it can change its own limits.
#[tokio::test]
async fn limits_hold_without_a_seccomp_profile() {
    let world = World::new();
    // Swap first, where the kernel counts it: its limit is never the lower one.
    let mount = "mount -t cgroup -o memory none /tmp && cd /tmp && for f in memory.memsw memory; do
        echo 999997440 >$f.limit_in_bytes && echo raised; done";
    let script = format!(
        "exec 2>/dev/null; unshare -UCm -r sh -c '{mount}'; unshare -Um -r sh -c 'echo namespace; {mount}'; exit 0"
    );
    let mut spec = world.script("uid/main/0", "");
    spec.security.seccomp = Seccomp::Unconfined;
    spec.resources.memory_max = Some(64 << 20);
    for inside in both(&world, spec, &script).await {
        assert_eq!(inside, "namespace\n");
    }
}

/// S1: no device but those that were given, not even for a container that may do everything else.
#[tokio::test]
async fn devices_that_were_not_given_cannot_be_opened() {
    let world = World::new();
    let given = world.device("given", 4).await;
    let shown = world.device("shown", 4).await;
    let other = world.device("other", 4).await;
    let other = other.file_name().unwrap().to_str().unwrap();
    let script = format!(
        ": <>/dev/given && echo given; : </dev/shown && echo shown; (: >/dev/shown) 2>&1 | sed 's/.*: /write /'
         mknod /dev/x b 7 0 2>&1 | sed 's/.*: /mknod /'; mkdir -p /tmp/d; mount -t devtmpfs none /tmp/d
         for f in {other} loop-control kmsg; do (: </tmp/d/$f) 2>&1 | sed \"s/.*: /$f /\"; done
         for f in null zero full random urandom tty ptmx; do [ $f = tty ] || : </dev/$f; done && echo usual; umount /tmp/d"
    );
    let mut spec = world.script("uid/main/0", "");
    spec.security = privileged();
    spec.devices = vec![binding(&given, "/dev/given", false), binding(&shown, "/dev/shown", true)];
    for inside in both(&world, spec, &script).await {
        let not = "Operation not permitted";
        let want = format!(
            "given\nshown\nwrite {not}\nmknod {not}\n{other} {not}\nloop-control {not}\nkmsg {not}\nusual\n"
        );
        assert_eq!(inside, want);
    }
    for device in [given, shown, Path::new("/dev").join(other)] {
        world.host.kernel.loop_detach(&device).await.unwrap();
    }
}

/// The shim is killed earlier and later: whatever it had made goes with the record, and the next start works.
#[tokio::test]
async fn a_start_that_was_killed_leaves_no_group() {
    let world = World::new();
    let containers = &world.host.containers;
    let mut seen = [false; 2];
    for step in 0..40 {
        let spec = world.script(&format!("uid/main/{step}"), "exec sleep 1000");
        let record = world.dir(&format!("state/containers/uid_main_{step}"));
        std::fs::write(record.join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
        let mut started = Command::new(shim());
        let started = started.arg("container-shim").arg(&record).stdin(Stdio::null()).stdout(Stdio::null());
        let mut started = started.spawn().unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(step * 500) {
            std::thread::yield_now();
        }
        started.kill().unwrap();
        started.wait().unwrap();
        seen[usize::from(!world.groups().is_empty())] = true;
        let removed = async {
            // Its init is dying.
            while containers.remove(&spec.id).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(60), removed).await.unwrap();
        assert_eq!(world.groups(), Vec::<PathBuf>::new(), "after {step}");
    }
    assert_eq!(seen, [true; 2], "killed before and after there was anything to remove");
    assert_eq!(run(&world, &world.script("uid/main/0", "exit 3")).await.0.code, 3);
}

#[tokio::test]
async fn a_killed_shim_leaves_a_group_that_can_be_removed() {
    let world = World::new();
    let mut spec = world.script("uid/main/0", "exec sleep 1000");
    spec.resources.memory_max = Some(64 << 20);
    world.host.containers.start(&spec).await.unwrap();
    let record = world.path("state/containers/uid_main_0/running.json");
    let running: serde_json::Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let shim = rustix::process::Pid::from_raw(running["shim"]["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    assert_eq!(wait(&world, &spec.id).await.code, 137);
    world.host.containers.remove(&spec.id).await.unwrap();
    assert!(world.groups().is_empty());
}

/// Where control groups cannot be written to, limits are refused rather than forgotten.
#[tokio::test]
async fn a_machine_without_control_groups() {
    let world = World::new();
    let outcome = |spec: &bowline_host::containers::ContainerSpec| {
        let record = world.dir(&format!("state/containers/{}", spec.id.replace('/', "_")));
        std::fs::write(record.join("spec.json"), serde_json::to_vec(spec).unwrap()).unwrap();
        let script = "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" container-shim \"$1\"";
        let mut hidden = Command::new("unshare");
        hidden.args(["-m", "sh", "-c", script]).arg(shim()).arg(&record);
        assert!(hidden.status().unwrap().success());
        serde_json::from_slice::<bowline_host::containers::Exit>(
            &std::fs::read(record.join("exit.json")).unwrap(),
        )
        .unwrap()
    };
    let mut spec = world.script("uid/plain/0", "mknod /tmp/x b 7 0 2>/dev/null || exit 3");
    assert_eq!(outcome(&spec).code, 3, "it runs");
    spec.id = "uid/limited/0".into();
    spec.resources.memory_max = Some(64 << 20);
    let want = "a limit of memory cannot be enforced: this machine has no writable control group for memory below \
                `/sys/fs/cgroup`";
    assert_eq!(outcome(&spec).error.as_deref(), Some(want));
    spec.resources = Resources::default();
    spec.id = "uid/strong/0".into();
    spec.security.capabilities.insert("MKNOD".into());
    let error = outcome(&spec).error.unwrap();
    assert!(
        error.starts_with("which devices a container with MKNOD or SYS_ADMIN may open cannot"),
        "{error}"
    );
}
