//! Rules about system calls, assembled into a classic BPF program as seccomp(2) takes it.
//!
//! Each rule is written out one after the other, so no jump is longer than one rule and the program reads like its
//! table. That costs nothing at run time: the kernel works out once, when the filter is installed, which numbers are
//! always allowed, and does not run the program for them. For the sake of that once, rules stand in groups that are
//! passed over as a whole.

use nix::libc::{self, sock_filter};

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Offsets in the kernel's `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
const ARGUMENT_SIZE: u32 = 8;

/// How many rules stand in a group.
const GROUP: usize = 8;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Fail(i32),
    Kill,
}

impl Verdict {
    fn value(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Fail(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs() & libc::SECCOMP_RET_DATA,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// What of a call's arguments makes a rule apply. Only the lower 32 bits of an argument are compared: those that
/// matter here are no wider, and the kernel ignores what stands above them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    Always,
    Between(u32, u32, u32),
    OneOf(u32, Vec<u32>),
    NoneOf(u32, Vec<u32>),
    AnyBit(u32, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub number: u32,
    pub when: When,
    pub verdict: Verdict,
}

/// The calls of one ABI.
pub struct Section {
    /// As audit(7) names it.
    pub architecture: u32,
    /// Numbers from here on do not exist for the program.
    pub first_unknown: u32,
    pub rules: Vec<Rule>,
}

/// A program that allows what no rule refuses, and kills processes that use another ABI.
pub fn assemble(sections: &[Section]) -> Vec<sock_filter> {
    let mut program = vec![statement(LOAD, ARCHITECTURE)];
    for section in sections {
        let body = body(section);
        program.push(branch(IF_EQUAL, section.architecture, 1, 0));
        program.push(statement(JUMP, u32::try_from(body.len()).unwrap_or(u32::MAX)));
        program.extend(body);
    }
    program.push(verdict(Verdict::Kill));
    program
}

fn body(section: &Section) -> Vec<sock_filter> {
    let mut body = vec![
        statement(LOAD, NUMBER),
        branch(IF_AT_LEAST, section.first_unknown, 0, 1),
        verdict(Verdict::Fail(libc::ENOSYS)),
    ];
    let mut rules = section.rules.clone();
    rules.sort_by_key(|rule| rule.number);
    for group in rules.chunks(GROUP) {
        let tests: Vec<sock_filter> = group.iter().flat_map(test).collect();
        if let Some(last) = group.last() {
            body.push(branch(IF_GREATER, last.number, 0, 1));
            body.push(statement(JUMP, u32::try_from(tests.len()).unwrap_or(u32::MAX)));
        }
        body.extend(tests);
    }
    body.push(verdict(Verdict::Allow));
    body
}

fn test(rule: &Rule) -> Vec<sock_filter> {
    let mut test = consequence(rule);
    test.insert(0, branch(IF_EQUAL, rule.number, 0, distance(test.len())));
    test
}

/// What is done once the number fits; falls through to the next rule with the number loaded.
fn consequence(rule: &Rule) -> Vec<sock_filter> {
    let (argument, mut then) = match &rule.when {
        When::Always => return vec![verdict(rule.verdict)],
        When::Between(argument, low, high) => {
            (*argument, vec![branch(IF_AT_LEAST, *low, 0, 2), branch(IF_GREATER, *high, 1, 0)])
        }
        When::AnyBit(argument, mask) => (*argument, vec![branch(IF_ANY_BIT, *mask, 0, 1)]),
        When::NoneOf(argument, values) => (*argument, to_end(values, 1)),
        // The last one that differs jumps over the verdict.
        When::OneOf(argument, values) => {
            let mut tests = to_end(values, 0);
            if let Some(last) = tests.last_mut() {
                last.jf = 1;
            }
            (*argument, tests)
        }
    };
    then.insert(0, statement(LOAD, ARGUMENTS + ARGUMENT_SIZE * argument));
    then.extend([verdict(rule.verdict), statement(LOAD, NUMBER)]);
    then
}

/// Jumps `past` instructions behind the last test when any value fits.
fn to_end(values: &[u32], past: usize) -> Vec<sock_filter> {
    let left = |index: usize| distance(values.len() - 1 - index + past);
    values.iter().enumerate().map(|(index, value)| branch(IF_EQUAL, *value, left(index), 0)).collect()
}

/// A jump that is too long for its field would be a wrong program: the kernel refuses this one.
fn distance(instructions: usize) -> u8 {
    u8::try_from(instructions).unwrap_or(u8::MAX)
}

fn verdict(verdict: Verdict) -> sock_filter {
    statement(RETURN, verdict.value())
}

fn statement(code: u32, k: u32) -> sock_filter {
    branch(code, k, 0, 0)
}

fn branch(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    // All codes are below 2^8.
    sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt, jf, k }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What the kernel would answer to a call.
    pub fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u32; 6]) -> Verdict {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let yes = match u32::from(code) {
                LOAD => {
                    loaded = match k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        _ => arguments[((k - ARGUMENTS) / ARGUMENT_SIZE) as usize],
                    };
                    continue;
                }
                JUMP => {
                    at += k as usize;
                    continue;
                }
                RETURN if k == libc::SECCOMP_RET_ALLOW => return Verdict::Allow,
                RETURN if k == libc::SECCOMP_RET_KILL_PROCESS => return Verdict::Kill,
                RETURN => return Verdict::Fail((k & libc::SECCOMP_RET_DATA) as i32),
                IF_EQUAL => loaded == k,
                IF_GREATER => loaded > k,
                IF_AT_LEAST => loaded >= k,
                IF_ANY_BIT => loaded & k != 0,
                other => panic!("no such instruction: {other}"),
            };
            at += usize::from(if yes { jt } else { jf });
        }
    }

    #[test]
    fn each_condition_and_what_follows_it() {
        let (no, maybe) = (Verdict::Fail(1), Verdict::Fail(2));
        let rule = |number, when| Rule { number, when, verdict: no };
        let rules = vec![
            rule(1, When::Always),
            rule(2, When::Between(1, 10, 20)),
            rule(2, When::OneOf(1, vec![30, 40, 50])),
            rule(3, When::NoneOf(0, vec![0, 8])),
            rule(4, When::AnyBit(5, 0b1010)),
            Rule { number: 5, when: When::OneOf(0, vec![7]), verdict: maybe },
        ];
        let program = assemble(&[
            Section { architecture: 77, first_unknown: 100, rules: rules.clone() },
            Section { architecture: 78, first_unknown: 3, rules: vec![rule(2, When::Always)] },
        ]);
        let second = |value| [0, value, 0, 0, 0, 0];
        let first = |value| [value, 0, 0, 0, 0, 0];
        let table = [
            (77, 0, first(0), Verdict::Allow),
            (77, 1, first(0), no),
            (77, 2, second(9), Verdict::Allow),
            (77, 2, second(10), no),
            (77, 2, second(20), no),
            (77, 2, second(21), Verdict::Allow),
            (77, 2, second(30), no),
            (77, 2, second(50), no),
            (77, 2, second(51), Verdict::Allow),
            (77, 3, first(0), Verdict::Allow),
            (77, 3, first(8), Verdict::Allow),
            (77, 3, first(9), no),
            (77, 4, [0, 0, 0, 0, 0, 0b0101], Verdict::Allow),
            (77, 4, [0, 0, 0, 0, 0, 0b0110], no),
            (77, 5, first(7), maybe),
            (77, 5, first(8), Verdict::Allow),
            (77, 99, first(0), Verdict::Allow),
            (77, 100, first(0), Verdict::Fail(libc::ENOSYS)),
            (77, u32::MAX, first(0), Verdict::Fail(libc::ENOSYS)),
            (78, 1, first(0), Verdict::Allow),
            (78, 2, first(0), no),
            (78, 3, first(0), Verdict::Fail(libc::ENOSYS)),
            (79, 0, first(0), Verdict::Kill),
        ];
        for (architecture, number, arguments, want) in table {
            let got = run(&program, architecture, number, arguments);
            assert_eq!(got, want, "architecture {architecture}, call {number}, {arguments:?}");
        }
    }
}
