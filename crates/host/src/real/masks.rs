//! What of the host a container sees, and what it does not see of that.
//!
//! A container may run as root, and root reads everything that is there. So whatever holds keys, passwords, other users'
//! files or the state of services is left out, and programs and their settings stay: `/usr`, `/opt`, most of `/etc`.
//! What remains visible is what every user of the machine can read anyway, because what other users may not read in
//! `/etc`, `/opt` and `/usr/local` is left out, too (`unreadable.rs`), a few seconds after it was put there.

/// Programs and their settings: the only directories of the host that a container sees, where they are no links. A fixed
/// list, because administrators keep data and backups in directories of any name, and may make one while it runs.
pub(super) const SHOWN: [&str; 10] =
    ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/usr"];

/// Directories whose links a container has as they were at its start. What a link leads to is shown or not by itself.
pub(super) const LINKED: [&str; 2] = ["/", "/var"];

/// Directories of the host that are empty in every container, also where their names are links.
pub(super) const DIRECTORIES: [&str; 29] = [
    // Users' files, and what machines serve.
    "/root",
    "/home",
    "/srv",
    "/mnt",
    "/media",
    "/lost+found",
    "/var/tmp",
    "/var/mail",
    "/var/spool",
    // Services' state, with their databases; logs; copies of the password files; answers to installers' questions.
    "/var/lib",
    "/var/log",
    "/var/backups",
    "/var/cache",
    "/nix/var",
    // The kernel's addresses, and passwords of boot loaders.
    "/boot",
    // Private keys.
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/wireguard",
    "/etc/ipsec.d",
    "/etc/cryptsetup-keys.d",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/etc/kubernetes",
    "/etc/rancher",
    // Passwords of networks and storage.
    "/etc/NetworkManager/system-connections",
    "/etc/netplan",
    "/etc/iscsi",
];

/// Files of the host that are empty in every container.
pub(super) const FILES: [&str; 9] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/krb5.keytab",
    "/etc/crypttab",
    "/etc/fstab",
    "/etc/machine-id",
];

/// Switches of the whole machine, which a container may read only.
pub(super) const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Of the kernel's own files, those that tell about the machine or change it: empty in every container.
pub(super) const KERNEL: [&str; 17] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Names the files behind loop devices: empty in containers that were given no device, whose tools might look there.
pub(super) const BLOCK_DEVICES: &str = "/sys/devices/virtual/block";
