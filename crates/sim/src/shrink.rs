//! The fewest faults of a history that still break the promise that it broke.

use crate::campaign::outcome;
use crate::fault::Fault;
use crate::history::Outcome;

/// The fewest of a seed's faults that still break the same promise, and how its history ends with them.
pub fn shrink(seed: u64, faults: Vec<Fault>) -> (Vec<Fault>, Outcome) {
    fewest(faults, |faults| outcome(seed, faults))
}

/// Leaves out each fault in turn, again and again, until none can be. What then breaks only other promises counts as
/// unbroken: it may be another fault of the code, and has seeds of its own.
fn fewest(mut left: Vec<Fault>, judge: impl Fn(&[Fault]) -> Outcome) -> (Vec<Fault>, Outcome) {
    let mut broken = judge(&left);
    let Some(first) = broken.violations.first().map(|text| promise(text).to_owned()) else {
        return (left, broken);
    };
    let (mut at, mut kept) = (0, 0);
    while kept < left.len() {
        at %= left.len();
        let mut fewer = left.clone();
        fewer.remove(at);
        let without = judge(&fewer);
        if without.violations.iter().any(|text| promise(text) == first) {
            (left, broken, kept) = (fewer, without, 0);
        } else {
            (at, kept) = (at + 1, kept + 1);
        }
    }
    (left, broken)
}

/// The promise that a violation names (`ATT-2`, `LEASE`), or the word that it begins with.
fn promise(violation: &str) -> &str {
    let number = |part: &&str| {
        let letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(letter)
    };
    let word = || violation.split_whitespace().next().unwrap_or_default();
    violation.split(": ").find(number).unwrap_or_else(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    fn fault(effect: &'static str) -> Fault {
        Fault { kind: Kind::CrashBefore, effect, nth: 1 }
    }

    fn all() -> Vec<Fault> {
        ["bind path", "mkdir path", "link path", "remove path", "unlink path"].map(fault).to_vec()
    }

    fn has(faults: &[Fault], effect: &'static str) -> bool {
        faults.contains(&fault(effect))
    }

    fn ends(violations: &[&str]) -> Outcome {
        let violations = violations.iter().map(ToString::to_string).collect();
        Outcome { violations, ..Outcome::default() }
    }

    /// Goal: what is printed is what is needed, and the faults that only hid one another are gone.
    #[test]
    fn shrinking_leaves_only_faults_without_which_the_promise_holds() {
        let judge = |faults: &[Fault]| {
            // While `unlink path` is there, `bind path` is needed, too.
            let breaks = has(faults, "mkdir path")
                && has(faults, "remove path")
                && (has(faults, "bind path") || !has(faults, "unlink path"));
            if breaks { ends(&["ATT-1: broken"]) } else { ends(&[]) }
        };
        let (left, outcome) = fewest(all(), judge);
        assert_eq!(left, ["mkdir path", "remove path"].map(fault));
        assert_eq!(outcome.violations, ["ATT-1: broken"]);
    }

    /// Goal: the seed of one defect is not shrunk to the faults of another one.
    #[test]
    fn shrinking_keeps_to_the_promise_that_was_broken_first() {
        let judge = |faults: &[Fault]| match (has(faults, "bind path"), has(faults, "link path")) {
            (true, true) => ends(&["ATT-2: pvc-1 is on two nodes", "left after 900s: mount /x"]),
            (false, true) => ends(&["left after 900s: mount /x"]),
            (_, false) => ends(&[]),
        };
        let (left, outcome) = fewest(all(), judge);
        assert_eq!(left, ["bind path", "link path"].map(fault));
        assert_eq!(outcome.violations.len(), 2);
    }

    #[test]
    fn violations_name_their_promise() {
        let table = [
            ("ATT-2: pvc-1 is mounted on {}", "ATT-2"),
            ("LEASE: x does `y` while z holds it", "LEASE"),
            ("left after 900s: PROV-2: backend volume pvc-1", "PROV-2"),
            ("left after 900s: mount /x", "left"),
            ("pod default/a-1 does not go", "pod"),
        ];
        for (violation, expected) in table {
            assert_eq!(promise(violation), expected, "{violation}");
        }
    }
}
