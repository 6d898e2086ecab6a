//! One mount, asked for by its number (linux/mount.h, from Linux 6.8 on).

use nix::errno::Errno;
use nix::libc;

/// The same on every architecture that Linux has had this call on, Alpha excepted.
const SYS_STATMOUNT: libc::c_long = 457;

const SUPERBLOCK: u64 = 0x1;
const MOUNT: u64 = 0x2;
const ROOT: u64 = 0x8;
const POINT: u64 = 0x10;
const FS_TYPE: u64 = 0x20;
const SOURCE: u64 = 0x200;
const WANTED: u64 = SUPERBLOCK | MOUNT | ROOT | POINT | FS_TYPE | SOURCE;

/// Two paths of any length, and what else is short.
const STRINGS: usize = 12 << 10;

/// `struct mnt_id_req`, in its first form.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    wanted: u64,
}

/// `struct statmount`; only what is asked for has a name. Strings are given by where they begin.
#[repr(C)]
struct Answer {
    size: u32,
    options: u32,
    given: u64,
    major: u32,
    minor: u32,
    magic: u64,
    superblock_flags: u32,
    fs_type: u32,
    ids: [u64; 3],
    attributes: u64,
    propagation: [u64; 4],
    root: u32,
    point: u32,
    namespace: u64,
    subtype: u32,
    source: u32,
    others: [u64; 48],
    strings: [u8; STRINGS],
}

/// What the kernel says of a mount, in its own terms.
pub(in crate::real) struct RawMount {
    pub device: (u32, u32),
    /// `MOUNT_ATTR_` flags.
    pub attributes: u64,
    pub root: Vec<u8>,
    pub point: Vec<u8>,
    pub fs_type: Vec<u8>,
    pub source: Vec<u8>,
    pub filesystem_read_only: bool,
}

/// The mount with this number; nothing when this kernel does not tell all of it.
pub(in crate::real) fn stat_mount(id: u64) -> Result<Option<RawMount>, Errno> {
    let request = Request { size: size_of::<Request>() as u32, spare: 0, id, wanted: WANTED };
    let mut answer = Box::new(Answer {
        size: 0,
        options: 0,
        given: 0,
        major: 0,
        minor: 0,
        magic: 0,
        superblock_flags: 0,
        fs_type: 0,
        ids: [0; 3],
        attributes: 0,
        propagation: [0; 4],
        root: 0,
        point: 0,
        namespace: 0,
        subtype: 0,
        source: 0,
        others: [0; 48],
        strings: [0; STRINGS],
    });
    // SAFETY: the kernel reads one Request and fills at most the given size of one Answer; both outlive the call.
    let result = unsafe {
        libc::syscall(
            SYS_STATMOUNT,
            &raw const request,
            &raw mut *answer,
            size_of::<Answer>(),
            0 as libc::c_uint,
        )
    };
    Errno::result(result)?;
    if answer.given & WANTED != WANTED {
        return Ok(None);
    }
    let string = |start: u32| {
        let bytes = answer.strings.get(start as usize..).unwrap_or_default();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    };
    Ok(Some(RawMount {
        device: (answer.major, answer.minor),
        attributes: answer.attributes,
        root: string(answer.root),
        point: string(answer.point),
        fs_type: string(answer.fs_type),
        source: string(answer.source),
        filesystem_read_only: libc::c_ulong::from(answer.superblock_flags) & libc::MS_RDONLY != 0,
    }))
}
