//! System calls that a container is refused, made from inside by programs of two ABIs.

use std::os::unix::fs::PermissionsExt;

use bowline_host::containers::{Seccomp, Security};

use crate::boundary::{both, privileged};
use crate::containers::{binding, run};
use crate::world::{World, program};

/// `LOOP_CLR_FD`, `LOOP_SET_STATUS64`, `LOOP_CHANGE_FD`, `LOOP_SET_CAPACITY`, `LOOP_CONFIGURE`, and `BLKROSET`.
const REQUESTS: [u32; 6] = [0x4C01, 0x4C04, 0x4C06, 0x4C07, 0x4C0A, 0x125D];

/// S1: a pod with a raw block volume cannot give its loop device away.
#[tokio::test]
async fn loop_ioctls_are_refused_to_everyone() {
    let world = World::new();
    let device = world.device("image", 4).await;
    let tool = world.path("i386");
    std::fs::write(&tool, i386_ioctl(0x4C01)).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The upper half of a request is not looked at by the kernel, and must not hide it from the filter.
    let perl = |request: u32| {
        let wide = u64::from(request) | 1 << 32;
        format!("syscall(16, fileno(F), {wide}, 0); print \"$!\\n\"; ")
    };
    let script = format!(
        "perl -e 'open(F, \"+<\", \"/dev/xvda\") or die $!; {}'; /i386; echo i386 $?",
        REQUESTS.map(perl).concat()
    );
    let unconfined = Security { seccomp: Seccomp::Unconfined, ..Security::default() };
    for security in [Security::default(), unconfined, privileged()] {
        let mut spec = world.script("uid/main/0", "");
        spec.devices = vec![binding(&device, "/dev/xvda", false)];
        spec.mounts = vec![binding(&tool, "/i386", true)];
        spec.security = security;
        for inside in both(&world, spec, &script).await {
            let refused = "Operation not permitted\n".repeat(REQUESTS.len());
            assert_eq!(inside, format!("{refused}i386 1\n"), "1 is EPERM");
        }
        let image = world.path("image");
        assert_eq!(world.host.kernel.loop_of(&image).await.unwrap().as_ref(), Some(&device));
    }
    world.host.kernel.loop_detach(&device).await.unwrap();
}

/// An administrator sees what was tried: the kernel's log has a line, unless `auditd` has taken it over.
#[tokio::test]
async fn refused_calls_are_logged() {
    let world = World::new();
    let name = format!("refused-{}", std::process::id());
    let perl = |call: &str| {
        format!("perl -e 'open(F, \">\", \"/proc/self/comm\"); syswrite(F, \"{name}\"); {call}'")
    };
    // keyctl(2), which is refused, and clone3(2), which seems not to exist.
    let script = format!("{}; {}; true", perl("syscall(250, 0, -4, 0)"), perl("syscall(435, 0, 0)"));
    let spec = world.script("uid/main/0", &script);
    let lines = |call: &str| {
        let logs = [
            program("dmesg", &[]).1,
            std::fs::read_to_string("/var/log/audit/audit.log").unwrap_or_default(),
        ];
        // The number in the kernel's log, the name in auditd's.
        let is_seccomp = |line: &str| line.contains("type=1326") || line.contains("type=SECCOMP");
        let told = |line: &&str| line.contains(&name) && is_seccomp(line) && line.contains(call);
        logs.iter().flat_map(|log| log.lines()).filter(told).count()
    };
    // The kernel drops lines when there are many in a few seconds.
    let begun = std::time::Instant::now();
    while lines(" syscall=250 ") == 0 {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(120),
            "no line about `{name}` in the kernel's log"
        );
        assert_eq!(run(&world, &spec).await.0.error, None);
    }
    assert_eq!(lines(" syscall=435 "), 0);
}

/// A program of 32 bits that opens `/dev/xvda`, makes the ioctl, and ends with the errno, or with 200 if it could not
/// open the device. Assembled here, because no compiler for it can be expected.
fn i386_ioctl(request: u32) -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 0x34 + 0x20;
    let mut code: Vec<u8> = Vec::new();
    let number = |code: &mut Vec<u8>, register: u8, value: u32| {
        code.push(0xB8 + register);
        code.extend(value.to_le_bytes());
    };
    let [eax, ecx, edx, ebx] = [0, 1, 2, 3];
    const KERNEL: [u8; 2] = [0xCD, 0x80];
    // open(path, O_RDWR): the path stands behind the code, whose length is known at the end.
    number(&mut code, eax, 5);
    let path_at = code.len() + 1;
    number(&mut code, ebx, 0);
    number(&mut code, ecx, 2);
    code.extend(KERNEL);
    // test eax, eax; jns +12; exit(200)
    code.extend([0x85, 0xC0, 0x79, 0x0C]);
    number(&mut code, eax, 1);
    number(&mut code, ebx, 200);
    code.extend(KERNEL);
    // ioctl(eax, request, 0)
    code.extend([0x89, 0xC3]);
    number(&mut code, eax, 54);
    number(&mut code, ecx, request);
    number(&mut code, edx, 0);
    code.extend(KERNEL);
    // exit(-eax)
    code.extend([0xF7, 0xD8, 0x89, 0xC3]);
    number(&mut code, eax, 1);
    code.extend(KERNEL);
    let path = BASE + HEADERS + code.len() as u32;
    code[path_at..path_at + 4].copy_from_slice(&path.to_le_bytes());
    code.extend(b"/dev/xvda\0");

    let size = HEADERS + code.len() as u32;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
    let mut elf = vec![0x7F, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    elf.extend(halves(&[2, 3]));
    elf.extend(words(&[1, BASE + HEADERS, 0x34, 0, 0]));
    elf.extend(halves(&[0x34, 0x20, 1, 0, 0, 0]));
    // One segment: everything, readable and executable.
    elf.extend(words(&[1, 0, BASE, BASE, size, size, 5, 0x1000]));
    elf.extend(code);
    elf
}

/// Keys in the kernel are divided by users, and root in a container is the host's.
#[tokio::test]
async fn keys_of_the_host_cannot_be_read() {
    let world = World::new();
    let name = format!("bowline-{}", std::process::id());
    // add_key(2) to the keyring of the user; its number is what invalidates it in the end.
    let add = format!("my @k = ('user', '{name}', 'secret'); print syscall(248, @k, 6, -4)");
    let (_, key) = program("perl", &["-e", &add]);
    // keyctl(2): link the keyring of the user to that of the session, search it, read what was found.
    let script = format!(
        "perl -e 'my @k = (\"user\", \"{name}\"); my $b = \"-\" x 6; syscall(250, 8, -4, -3);
         syscall(250, 11, syscall(250, 10, -4, @k, 0), $b, 6); print \"$b\\n\"'"
    );
    let unconfined = Security { seccomp: Seccomp::Unconfined, ..Security::default() };
    let mut read = Vec::new();
    for security in [Security::default(), unconfined] {
        let mut spec = world.script("uid/main/0", "");
        spec.security = security;
        read.extend(both(&world, spec, &script).await);
    }
    let (_, gone) = program("perl", &["-e", &format!("print syscall(250, 21, {key})")]);
    assert_eq!(read, ["------\n"; 4]);
    assert_eq!(gone, "0", "there was a key");
}

#[tokio::test]
async fn the_default_profile_and_none() {
    let world = World::new();
    // mount, unshare(CLONE_NEWUSER), keyctl, bpf, userfaultfd, io_uring_setup, clone3, a call of x32, one of the future.
    let calls = "165, 0, 0, 0, 0, 0;272, 0x10000000;250, 0, 0;321, 99, 0, 0;323, 0;425, 0, 0;435, 0, 0;0x40000002, 0, 0;471";
    let script = calls
        .split(';')
        .map(|call| format!("$! = 0; syscall({call}); print 0 + $!, \" \";"))
        .collect::<String>();
    let script = format!("perl -e '{script}'; echo; (echo forks); exit 0");
    let mut spec = world.script("uid/main/0", "");
    for inside in both(&world, spec.clone(), &script).await {
        assert_eq!(inside, "1 1 1 1 1 1 38 38 38 \nforks\n");
    }
    spec.security.seccomp = Seccomp::Unconfined;
    for inside in both(&world, spec.clone(), &script).await {
        // Now the kernel itself answers: mount(2) wants a capability, keyctl(2) knows the session's keyring.
        let answers: Vec<&str> = inside.split(' ').collect();
        assert_eq!(answers[1], "0", "a user namespace: {inside}");
        assert_ne!(answers[5], "1", "io_uring: {inside}");
        assert_eq!(answers[7], "38", "x32 exists in no container: {inside}");
    }
    spec.security = Security { no_new_privileges: true, uid: 1000, gid: 1000, ..Security::default() };
    for inside in both(&world, spec, &script).await {
        assert_eq!(inside, "1 1 1 1 1 1 38 38 38 \nforks\n", "as another user, too");
    }
}
