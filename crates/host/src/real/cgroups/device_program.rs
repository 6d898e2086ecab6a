//! The list of devices as an eBPF program, which version 2 of control groups asks before a device is opened or made.
//!
//! The kernel gives three numbers: kind and access, major, minor. The answer is 1 for yes.

use super::{CHARACTER_DEVICES, Device};

/// Instructions: operation, and which values it takes.
const LOAD_WORD: u8 = 0x61;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_IF_NOT: u8 = 0x55;
const EXIT: u8 = 0x95;

/// Registers: the answer, what the kernel gave, and what is read from it.
const ANSWER: u8 = 0;
const GIVEN: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
const SCRATCH: u8 = 6;

/// Offsets in the kernel's `struct bpf_cgroup_dev_ctx`. The upper half of the first word is the access.
const KIND_AND_ACCESS: i16 = 0;
const MAJOR_AT: i16 = 4;
const MINOR_AT: i16 = 8;

const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;
const MAKE_NODE: i32 = 1;
const WRITE: i32 = 4;

/// The instructions of a program that allows these block devices and what every container may open.
pub(super) fn encode(devices: &[Device]) -> Vec<u64> {
    let mut program = vec![
        instruction(LOAD_WORD, KIND, GIVEN, KIND_AND_ACCESS, 0),
        instruction(MOVE_REGISTER, ACCESS, KIND, 0, 0),
        instruction(AND, KIND, 0, 0, 0xFFFF),
        instruction(SHIFT_RIGHT, ACCESS, 0, 0, 16),
        instruction(LOAD_WORD, MAJOR, GIVEN, MAJOR_AT, 0),
        instruction(LOAD_WORD, MINOR, GIVEN, MINOR_AT, 0),
    ];
    for (major, minor) in CHARACTER_DEVICES {
        program.extend(allow(CHARACTER, major, minor, MAKE_NODE));
    }
    for device in devices {
        let refused = if device.read_only { MAKE_NODE | WRITE } else { MAKE_NODE };
        program.extend(allow(BLOCK, device.major, Some(device.minor), refused));
    }
    program.extend(answer(0));
    program
}

/// Yes for one device, unless any of the refused kinds of access is asked for. Else goes on to what follows.
fn allow(kind: i32, major: u32, minor: Option<u32>, refused: i32) -> Vec<u64> {
    let mut tests = vec![(KIND, kind), (MAJOR, major.cast_signed())];
    tests.extend(minor.map(|minor| (MINOR, minor.cast_signed())));
    // Behind the tests: two instructions to single out the access, one to test it, two to answer.
    const REST: usize = 5;
    let past = |done: usize| i16::try_from(tests.len() - done - 1 + REST).unwrap_or(i16::MAX);
    let mut program: Vec<u64> = tests
        .iter()
        .enumerate()
        .map(|(done, (register, value))| instruction(JUMP_IF_NOT, *register, 0, past(done), *value))
        .collect();
    program.extend([
        instruction(MOVE_REGISTER, SCRATCH, ACCESS, 0, 0),
        instruction(AND, SCRATCH, 0, 0, refused),
        instruction(JUMP_IF_NOT, SCRATCH, 0, 2, 0),
    ]);
    program.extend(answer(1));
    program
}

fn answer(value: i32) -> [u64; 2] {
    [instruction(MOVE, ANSWER, 0, 0, value), instruction(EXIT, 0, 0, 0, 0)]
}

/// One instruction as it lies in memory: operation, two registers, offset, value.
fn instruction(operation: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    let [low, high] = offset.to_ne_bytes();
    let [a, b, c, d] = value.to_ne_bytes();
    u64::from_ne_bytes([operation, from << 4 | to, low, high, a, b, c, d])
}
