//! What a container can see and do beyond what it was given: tried from inside.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bowline_host::containers::{ALL_CAPABILITIES, ContainerSpec, Seccomp, Security, State};

use crate::containers::{binding, run};
use crate::exec::{end, said};
use crate::world::{World, program};

/// As strong as a container can be.
pub fn privileged() -> Security {
    Security {
        capabilities: ALL_CAPABILITIES.map(str::to_owned).into(),
        seccomp: Seccomp::Unconfined,
        ..Security::default()
    }
}

/// What the script says as the container's own program, and what it says when it is run beside it.
pub async fn both(world: &World, mut spec: ContainerSpec, script: &str) -> [String; 2] {
    spec.argv = ["/bin/sh", "-c", script].map(Into::into).into();
    let (exit, main) = run(world, &spec).await;
    assert_eq!(exit.error, None);
    spec.argv = ["sleep", "1000"].map(Into::into).into();
    let state = world.host.containers.start(&spec).await.unwrap();
    assert!(matches!(state, State::Running { .. }), "{state:?}");
    let beside = said(world, &spec.id, script).await;
    end(world, &spec).await;
    world.host.containers.remove(&spec.id).await.unwrap();
    [main, beside]
}

async fn start_error(world: &World, spec: &ContainerSpec) -> String {
    let State::Exited { exit, .. } = world.host.containers.start(spec).await.unwrap() else {
        panic!("it runs")
    };
    world.host.containers.remove(&spec.id).await.unwrap();
    exit.error.unwrap()
}

/// S3: what this process has open by accident is open in no container.
#[tokio::test]
async fn no_descriptor_reaches_a_container() {
    let world = World::new();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let _leak = rustix::fs::open("/etc", flags, rustix::fs::Mode::empty()).unwrap();
    // The last one is the directory that is being listed.
    let script = "ls /proc/self/fd | tr '\\n' ' '; for f in /proc/self/fd/*; do [ -e $f/passwd ] && echo $f; done; exit 0";
    for listed in both(&world, world.script("uid/main/0", ""), script).await {
        assert_eq!(listed.trim(), "0 1 2 3");
    }
}

#[tokio::test]
async fn user_groups_and_capabilities() {
    let world = World::new();
    let script = "id -u; id -g; id -G; echo $HOME; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr '\\t\\n' ' '
                  echo >/dev/stdout; [ -r /proc/1/exe ] || echo private";
    let mut spec = world.script("uid/main/0", "");
    spec.security = Security {
        uid: 65534,
        gid: 2000,
        groups: vec![3000, 4000],
        capabilities: ["CHOWN", "KILL"].map(str::to_owned).into(),
        no_new_privileges: true,
        ..Security::default()
    };
    let [none, some] = ["0000000000000000", "0000000000000021"];
    let capabilities =
        |has| format!("CapInh: {none} CapPrm: {has} CapEff: {has} CapBnd: {some} CapAmb: {none}");
    for inside in both(&world, spec.clone(), script).await {
        let held = capabilities(none);
        let want =
            format!("65534\n2000\n2000 3000 4000\n/nonexistent\n{held} NoNewPrivs: 1 Seccomp: 2 \nprivate\n");
        assert_eq!(inside, want);
    }
    spec.security = Security { uid: 0, gid: 0, groups: vec![], no_new_privileges: false, ..spec.security };
    for inside in both(&world, spec.clone(), script).await {
        let held = capabilities(some);
        assert_eq!(inside, format!("0\n0\n0\n/root\n{held} NoNewPrivs: 0 Seccomp: 2 \nprivate\n"));
    }
    spec.security.uid = 54321;
    spec.env = vec![("HOME".into(), "/data".into())];
    for inside in both(&world, spec.clone(), "echo $HOME; unset HOME; cd; pwd").await {
        assert!(inside.starts_with("/data\n"), "the spec decides: {inside}");
    }
    spec.security.capabilities.insert("CAP_CHOWN".into());
    let error = start_error(&world, &spec).await;
    assert_eq!(error, "capability `CAP_CHOWN` is not known; names are written as in `NET_ADMIN`");
}

#[tokio::test]
async fn temporary_directories_are_bounded_or_read_only() {
    let world = World::new();
    let script = "touch /tmp/x && echo tmp; touch /run/x && echo run; touch /dev/shm/x && echo shm; touch /data/x && echo data
                  df -k --output=size,itotal /tmp /run /dev/shm | tail -n 3 | tr -s ' '";
    let mut spec = world.script("uid/main/0", script);
    spec.argv[2] = format!("exec 2>/dev/null; {script}");
    spec.mounts = vec![binding(world.dir("volume"), "/data", false)];
    let sizes = |size, shm| format!(" {size} 16384\n {size} 16384\n {shm} 16384\n");
    assert_eq!(run(&world, &spec).await.1, format!("tmp\nrun\nshm\ndata\n{}", sizes(65536, 65536)));
    spec.resources.memory_max = Some(512 << 20);
    let larger = run(&world, &spec).await.1;
    assert!(larger.ends_with(&sizes(262_144, 65536)), "{larger}");
    spec.security.read_only_root = true;
    spec.mounts.push(binding(world.dir("inner"), "/tmp/inner", false));
    spec.argv[2] = "exec 2>/dev/null; for f in /tmp/x /run/x /x /tmp/inner/x /data/x; do touch $f && echo $f; done; exit 0".into();
    assert_eq!(run(&world, &spec).await.1, "/tmp/inner/x\n/data/x\n");
}

/// S5: a container on the host's root does not read the host's secrets.
#[tokio::test]
async fn secrets_of_the_host_are_not_there() {
    let world = World::new();
    let dirs = "/root /home /srv /mnt /media /boot /etc/ssh /etc/ssl/private /var/lib /var/log /var/spool /var/backups \
                /var/cache /var/tmp /proc/acpi /proc/scsi /sys/firmware /sys/devices/virtual/powercap \
                /sys/devices/virtual/block";
    let files = "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /proc/keys /proc/kcore /proc/timer_list \
                 /proc/kpagecount /proc/kpageflags /proc/kpagecgroup /proc/slabinfo";
    let script = format!(
        "for d in {dirs}; do [ -e $d ] && [ -n \"$(ls -A $d)\" ] && ls -A $d | sed \"s,^,$d ,\"
         done; for f in {files}; do [ -e $f ] && [ -n \"$(head -c 1 $f)\" ] && echo $f
         done; touch /root/x /var/lib/x 2>/dev/null || echo sealed; ls /usr/bin/env /etc/passwd /mnt/deep/volume"
    );
    let mut spec = world.script("uid/main/0", "");
    spec.security = privileged();
    let volume = world.dir("volume");
    std::fs::write(volume.join("file"), "").unwrap();
    spec.mounts = vec![binding(&volume, "/mnt/deep/volume", false), binding(&volume, "/var/lib/data", false)];
    for inside in both(&world, spec, &script).await {
        let want = "/mnt deep\n/var/lib data\nsealed\n/etc/passwd\n/usr/bin/env\n\n/mnt/deep/volume:\nfile\n";
        assert_eq!(inside, want);
    }
}

/// What only root may read of the host's settings is not there for root in a container.
#[tokio::test]
async fn files_that_only_root_may_read_are_not_there() {
    let world = World::new();
    let dirs = ["/etc", "/opt", "/usr/local"].map(|dir| {
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir_in(dir).unwrap();
        for (name, mode) in [("open", 0o755), ("closed", 0o700)] {
            let inner = dir.path().join(name);
            std::fs::create_dir(&inner).unwrap();
            std::fs::write(inner.join("key"), "secret").unwrap();
            std::fs::write(inner.join("public"), "public").unwrap();
            std::fs::set_permissions(inner.join("key"), Permissions::from_mode(0o600)).unwrap();
            std::fs::set_permissions(&inner, Permissions::from_mode(mode)).unwrap();
        }
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        dir
    });
    let paths = dirs.each_ref().map(|dir| dir.path().display().to_string()).join(" ");
    let script =
        format!("for d in {paths}; do cat $d/open/key $d/open/public $d/closed/* 2>/dev/null; echo; done");
    let mut spec = world.script("uid/main/0", "");
    spec.security = privileged();
    // What has been put there a moment ago is hidden from the next container that starts a little later.
    let begun = std::time::Instant::now();
    loop {
        let inside = both(&world, spec.clone(), &script).await;
        if inside == ["public\npublic\npublic\n"; 2] {
            return;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(120), "{inside:?}");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// Neither limits nor the protection of the node agent reach a container, nor signals that it ignores.
#[tokio::test]
async fn limits_of_the_node_agent_are_not_inherited() {
    /// The C library's own, which it ignores in what it starts.
    const INTERNAL: u64 = 0b11 << 31;
    let world = World::new();
    bowline_host::real::raise_open_files().unwrap();
    // Root of a container may not: there it has none to give away.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-17");
    let script = "ulimit -Sn; ulimit -Sc; [ $(cat /proc/self/oom_score_adj) -ge 0 ] && echo unprotected
                  grep SigIgn /proc/self/status | cut -f 2";
    let both = both(&world, world.script("uid/main/0", ""), script).await;
    std::fs::write("/proc/self/oom_score_adj", "0").unwrap();
    for inside in both {
        let ignored = inside.strip_prefix("1024\n0\nunprotected\n").unwrap_or_else(|| panic!("{inside}"));
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        assert_eq!(ignored & !INTERNAL, 0, "{inside}");
    }
}

/// S5: of the host's root only programs and their settings show, whatever else an administrator keeps there.
#[tokio::test]
async fn other_directories_of_the_host_are_not_there() {
    let world = World::new();
    let dirs = ["/", "/var"].map(|dir| tempfile::Builder::new().prefix("bowline-").tempdir_in(dir).unwrap());
    for dir in &dirs {
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
    }
    let mut file = tempfile::Builder::new().prefix("bowline-").tempfile_in("/").unwrap();
    std::io::Write::write_all(&mut file, b"secret").unwrap();
    let script = "ls -A /bowline-*/ /var/bowline-*/ 2>/dev/null | grep .; cat /bowline-* 2>/dev/null; ls -d /usr/bin/env /etc/passwd /var/run/.";
    for inside in both(&world, world.script("uid/main/0", ""), script).await {
        assert_eq!(inside, "/etc/passwd\n/usr/bin/env\n/var/run/.\n");
    }
}

/// S5: nor does a container see what an administrator makes there while it runs; only its own fixed names are there.
#[tokio::test]
async fn directories_made_on_the_host_later_are_not_there() {
    let world = World::new();
    let mut spec = world.script("uid/main/0", "");
    spec.argv = ["sleep", "1000"].map(Into::into).into();
    spec.mounts = vec![binding(world.dir("volume"), "/made/for/it", false)];
    let state = world.host.containers.start(&spec).await.unwrap();
    assert!(matches!(state, State::Running { .. }), "{state:?}");
    let later = ["/", "/var"].map(|dir| tempfile::Builder::new().prefix("bowline-").tempdir_in(dir).unwrap());
    for dir in &later {
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
    }
    let file = tempfile::Builder::new().prefix("bowline-").tempfile_in("/").unwrap();
    let paths = [later[0].path(), later[1].path(), file.path()].map(|path| path.display().to_string());
    let script = format!(
        "ls -d {} 2>/dev/null; ls -d /bowline* /var/bowline* 2>/dev/null; touch /x /var/x /made/x 2>/dev/null; ls -A /made
         for d in $(ls -A /); do case $d in
             bin|boot|dev|etc|home|lib|lib32|lib64|libx32|'lost+found'|media|mnt|nix|opt|proc|root|run|sbin|srv|sys|tmp|usr|var|made) ;;
             *) [ -L /$d ] || echo \"/$d\" ;;
         esac; done",
        paths.join(" ")
    );
    let seen = said(&world, &spec.id, &script).await;
    end(&world, &spec).await;
    world.host.containers.remove(&spec.id).await.unwrap();
    assert_eq!(seen, "for\n");
}

/// A workload that brings its own list of users can neither block nor exhaust the process that reads it.
#[tokio::test]
async fn a_hostile_passwd_file_does_not_block_starts() {
    let world = World::new();
    let volume = world.dir("volume");
    let passwd = volume.join("passwd");
    let mut spec = world.script("uid/main/0", "");
    spec.mounts = vec![binding(&volume, "/etc", false)];
    spec.resources.memory_max = Some(64 << 20);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &passwd, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let homes = async |want: &str| {
        let homes = both(&world, spec.clone(), "echo $HOME");
        let homes = tokio::time::timeout(std::time::Duration::from_secs(60), homes).await.unwrap();
        assert_eq!(homes, [want, want]);
    };
    homes("/\n").await;
    std::fs::remove_file(&passwd).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &passwd).unwrap();
    homes("/\n").await;
    std::fs::remove_file(&passwd).unwrap();
    std::fs::write(&passwd, "root:x:0:0::/own:/bin/sh\n").unwrap();
    homes("/own\n").await;
}

/// Standard input is no file of the host: root in a container could change its mode, also through a read-only mount.
#[tokio::test]
async fn standard_input_is_not_a_file_of_the_host() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    let null = std::fs::metadata("/dev/null").unwrap();
    let host = format!("{}:{}", null.dev(), null.ino());
    let script = "stat -L -c %d:%i /proc/self/fd/0; cat";
    for inside in both(&world, world.script("uid/main/0", ""), script).await {
        assert_ne!(inside.trim(), host);
        assert_eq!(inside.lines().count(), 1, "nothing to read: {inside}");
    }
}

/// S9: the program that containers are started through cannot be written to by the names that a container has for it:
/// neither while it runs, when the kernel refuses that anyway, nor once it has ended, through what was kept open.
#[tokio::test]
async fn the_runtime_cannot_be_overwritten() {
    let world = World::with_own_shim();
    let script = "perl -e 'open(F, \"+<\", \"/proc/1/exe\") and print \"opened\"; print \"$!\n\"'";
    let mut spec = world.script("uid/main/0", "");
    for inside in both(&world, spec.clone(), script).await {
        assert_eq!(inside, "Permission denied\n");
    }
    // One that may look into other processes takes the file along.
    spec.security = privileged();
    spec.argv = ["sleep", "1000"].map(Into::into).into();
    let State::Running { pid, .. } = world.host.containers.start(&spec).await.unwrap() else {
        panic!("it has ended")
    };
    let open = |path: &str, flags| rustix::fs::open(path, flags, rustix::fs::Mode::empty());
    let kept = open(&format!("/proc/{pid}/exe"), rustix::fs::OFlags::PATH).unwrap();
    end(&world, &spec).await;
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&kept));
    let written = async {
        // Its shim runs from the same file, and may be a moment longer.
        while let Err(rustix::io::Errno::TXTBSY) = open(&again, rustix::fs::OFlags::RDWR) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        open(&again, rustix::fs::OFlags::RDWR)
    };
    let written = tokio::time::timeout(std::time::Duration::from_secs(60), written).await.unwrap();
    assert_eq!(written.err(), Some(rustix::io::Errno::ROFS));
    assert!(std::fs::OpenOptions::new().write(true).open(world.path("shim")).is_ok(), "but the host can");
    world.host.containers.remove(&spec.id).await.unwrap();
}

/// S9: nothing is made, or emptied, outside the container's own root.
#[tokio::test]
async fn targets_do_not_lead_up() {
    let world = World::new();
    let note = world.path("note");
    std::fs::write(&note, "kept").unwrap();
    for target in ["/dev/../../../../note", "relative"] {
        let mut spec = world.script("uid/main/0", "true");
        spec.devices = vec![binding("/dev/null", target, false)];
        let error = start_error(&world, &spec).await;
        assert_eq!(error, format!("mount at `{target}`: the path has to be absolute and without `..`"));
    }
    assert_eq!(std::fs::read_to_string(note).unwrap(), "kept");
}

/// S1: a device node in a volume opens nothing, and a set-user-id program in it gives nothing; also in what is mounted
/// inside the volume.
#[tokio::test]
async fn volumes_hold_no_devices() {
    let world = World::new();
    let (device, target) = world.mounted("image", "ext4").await;
    let inner = target.join("inner");
    std::fs::create_dir(&inner).unwrap();
    assert!(program("mount", &["-t", "tmpfs", "none", inner.to_str().unwrap()]).0);
    for dir in [&target, &inner] {
        let node = dir.join("null");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &node,
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::from_raw_mode(0o666),
            rustix::fs::makedev(1, 3),
        )
        .unwrap();
    }
    let script = "for d in /data /data/inner; do (: <$d/null) && echo opened; done 2>&1 | grep -c denied
                  grep -E ' /data(/inner)? ' /proc/self/mountinfo | grep -c 'nosuid,nodev'";
    let mut spec = world.script("uid/main/0", "");
    spec.mounts = vec![binding(&target, "/data", false)];
    spec.security = privileged();
    for inside in both(&world, spec, script).await {
        assert_eq!(inside, "2\n2\n");
    }
    world.host.kernel.unmount(&inner).await.unwrap();
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
}

/// S1: mode and owner of a loop device would stay when its number goes on to the next volume.
#[tokio::test]
async fn the_node_of_a_device_cannot_be_changed() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    let device = world.device("image", 4).await;
    let look = || std::fs::metadata(&device).map(|node| (node.mode(), node.uid(), node.gid())).unwrap();
    let before = look();
    let mut spec = world.script("uid/main/0", "");
    spec.devices = vec![binding(&device, "/dev/xvda", false)];
    let script = "exec 2>/dev/null; chmod 666 /dev/xvda && echo mode; chown 1:1 /dev/xvda && echo owner
                  echo raw >/dev/xvda; head -c 3 /dev/xvda; echo";
    for inside in both(&world, spec, script).await {
        assert_eq!(inside, "raw\n");
    }
    assert_eq!(look(), before);
    world.host.kernel.loop_detach(&device).await.unwrap();
}

#[tokio::test]
async fn devices_are_block_devices() {
    let world = World::new();
    let file = world.path("file");
    std::fs::write(&file, "").unwrap();
    for source in [Path::new("/dev/zero"), &file] {
        let mut spec = world.script("uid/main/0", "true");
        spec.devices = vec![binding(source, "/dev/xvda", false)];
        let error = start_error(&world, &spec).await;
        assert_eq!(error, format!("mount `{}` at `/dev/xvda`: block device required", source.display()));
    }
}
