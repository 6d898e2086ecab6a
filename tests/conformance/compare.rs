//! Two answers side by side: what differs, and whether that is meant.

use crate::script::Step;

/// A difference that is meant.
pub struct Deviation {
    pub theme: &'static str,
    /// First line of the command.
    pub command: &'static str,
    /// Parts of lines that only upstream has.
    pub upstream: &'static [&'static str],
    /// Parts of lines that only we have.
    pub ours: &'static [&'static str],
    /// Why we differ; for whoever reads the table.
    pub why: &'static str,
}

/// Characters of a line that a failure shows, and how many of them before the difference.
const LINE_MAX: usize = 240;
const CONTEXT: usize = 60;

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Both,
    Upstream,
    Ours,
}

/// What is wrong with our answers, ready to print; one entry per step.
pub fn differences(recorded: &[Step], ours: &[Step], deviations: &[&Deviation]) -> Vec<String> {
    let mut unused = Fragments::of(deviations);
    let mut wrong = Vec::new();
    for (theirs, ours) in recorded.iter().zip(ours) {
        let lines = align(&theirs.answer, &ours.answer);
        let meant = |side: Side, line: &str, unused: &mut Fragments| unused.excuse(&ours.command, side, line);
        let differs = lines.iter().fold(false, |differs, (side, line)| {
            let excused = *side == Side::Both || meant(*side, line, &mut unused);
            differs || !excused
        });
        if differs {
            wrong.push(show(&ours.command, &lines));
        }
    }
    wrong.extend(unused.left());
    wrong
}

/// The excuses of a theme and whether each was needed.
struct Fragments<'a>(Vec<(&'a Deviation, Side, &'static str, bool)>);

impl<'a> Fragments<'a> {
    fn of(deviations: &[&'a Deviation]) -> Self {
        let mut fragments = Vec::new();
        for deviation in deviations {
            fragments
                .extend(deviation.upstream.iter().map(|part| (*deviation, Side::Upstream, *part, false)));
            fragments.extend(deviation.ours.iter().map(|part| (*deviation, Side::Ours, *part, false)));
        }
        Self(fragments)
    }

    fn excuse(&mut self, command: &str, side: Side, line: &str) -> bool {
        let mut excused = false;
        for (deviation, at, part, used) in &mut self.0 {
            if *at == side && command.lines().next() == Some(deviation.command) && line.contains(*part) {
                (excused, *used) = (true, true);
            }
        }
        excused
    }

    fn left(self) -> impl Iterator<Item = String> {
        let unused = self.0.into_iter().filter(|(_, _, _, used)| !used);
        unused.map(|(deviation, _, part, _)| {
            format!(
                "$ {}\nthe deviation `{part}` ({}) no longer applies: remove it",
                deviation.command, deviation.why
            )
        })
    }
}

fn show(command: &str, lines: &[(Side, &str)]) -> String {
    let mark = |side: Side| match side {
        Side::Both => ' ',
        Side::Upstream => '-',
        Side::Ours => '+',
    };
    let shown =
        |(n, (side, line)): (usize, &(Side, &str))| format!("\n{}{}", mark(*side), shorten(line, lines, n));
    format!("$ {command}{}", lines.iter().enumerate().map(shown).collect::<String>())
}

/// A long line is shown from shortly before where it differs from its counterpart; one that is the same, only begun.
fn shorten(line: &str, lines: &[(Side, &str)], at: usize) -> String {
    let limit = |text: &str| text.chars().take(LINE_MAX).collect::<String>();
    if line.chars().count() <= LINE_MAX {
        return line.to_owned();
    }
    let shared = lines.iter().enumerate().filter(|(n, (side, _))| *n != at && *side != Side::Both);
    let shared =
        shared.map(|(_, (_, other))| line.chars().zip(other.chars()).take_while(|(a, b)| a == b).count());
    let before = shared.max().unwrap_or(0).saturating_sub(CONTEXT);
    match (lines[at].0, before) {
        (Side::Both, _) | (_, 0) => limit(line) + "…",
        _ => format!("…{}", limit(&line.chars().skip(before).collect::<String>())),
    }
}

/// The shortest way from one text to the other (longest common subsequence; answers are short).
fn align<'a>(theirs: &'a [String], ours: &'a [String]) -> Vec<(Side, &'a str)> {
    // common[i][j] is how many lines theirs[i..] and ours[j..] have in common.
    let mut common = vec![vec![0_usize; ours.len() + 1]; theirs.len() + 1];
    for i in (0..theirs.len()).rev() {
        for j in (0..ours.len()).rev() {
            common[i][j] = if theirs[i] == ours[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < theirs.len() || j < ours.len() {
        if i < theirs.len() && j < ours.len() && theirs[i] == ours[j] {
            lines.push((Side::Both, theirs[i].as_str()));
            (i, j) = (i + 1, j + 1);
        } else if j == ours.len() || (i < theirs.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push((Side::Upstream, theirs[i].as_str()));
            i += 1;
        } else {
            lines.push((Side::Ours, ours[j].as_str()));
            j += 1;
        }
    }
    lines
}

#[test]
fn differences_judged() {
    let step = |answer: &str| {
        [Step {
            command: "kubectl get x\nmore".into(),
            answer: answer.split('|').map(String::from).collect(),
        }]
    };
    let meant = |upstream, ours| Deviation {
        theme: "t",
        command: "kubectl get x",
        upstream,
        ours,
        why: "we chose so",
    };
    let table: [(&str, &str, &str, Deviation, &str); 7] = [
        ("the same", "a|b", "a|b", meant(&[], &[]), ""),
        ("another line", "a|b|c", "a|x|c", meant(&[], &[]), "$ kubectl get x\nmore\n a\n-b\n+x\n c"),
        ("meant", "a|b one", "a", meant(&["b"], &[]), ""),
        ("meant, ours", "a", "a|b one", meant(&[], &["b"]), ""),
        ("meant on the other side", "a", "a|b", meant(&["b"], &[]), "$ kubectl get x\nmore\n a\n+b"),
        ("meant and another", "a|b", "c", meant(&["b"], &[]), "$ kubectl get x\nmore\n-a\n-b\n+c"),
        ("no longer so", "a", "a", meant(&["b"], &[]), "(we chose so) no longer applies"),
    ];
    for (name, theirs, ours, deviation, expected) in table {
        let wrong = differences(&step(theirs), &step(ours), &[&deviation]).join("\n");
        assert_eq!(wrong.is_empty(), expected.is_empty(), "{name}: {wrong}");
        assert!(wrong.contains(expected), "{name}: {wrong}");
    }
}
