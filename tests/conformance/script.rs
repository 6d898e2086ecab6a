//! The text of a script and of a recording: commands, and what was answered to them.

/// A command of a script.
///
/// `$ ` starts one, `> ` continues it on a further line; everything else in a script is for its reader.
pub fn commands(script: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for line in script.lines() {
        if let Some(first) = line.strip_prefix("$ ") {
            commands.push(first.to_owned());
        } else if let (Some(further), Some(command)) = (continuation(line), commands.last_mut()) {
            command.push('\n');
            command.push_str(further);
        }
    }
    commands
}

fn continuation(line: &str) -> Option<&str> {
    line.strip_prefix("> ").or_else(|| (line == ">").then_some(""))
}

/// A command and the lines it was answered with.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub command: String,
    pub answer: Vec<String>,
}

/// What a command left behind.
pub struct Answer {
    pub out: String,
    pub err: String,
    /// None if the command did not end by itself.
    pub code: Option<i32>,
}

impl Answer {
    /// Two columns say where a line comes from: nothing for stdout, `!` for stderr, `=` for an exit code other than 0.
    pub fn lines(&self) -> Vec<String> {
        let out = self.out.lines().map(|line| format!("  {line}"));
        let err = self.err.lines().map(|line| format!("! {line}"));
        let code = match self.code {
            Some(0) => None,
            Some(code) => Some(format!("= exit code {code}")),
            None => Some("= does not end".to_owned()),
        };
        out.chain(err).chain(code).map(|line| line.trim_end().to_owned()).collect()
    }
}

pub fn render(steps: &[Step]) -> String {
    let command = |step: &Step| step.command.replace('\n', "\n> ").replace("> \n", ">\n");
    let blocks = steps.iter().map(|step| {
        let answer = step.answer.join("\n");
        format!("$ {}\n{answer}", command(step)).trim_end().to_owned()
    });
    blocks.collect::<Vec<_>>().join("\n\n") + "\n"
}

pub fn parse(recording: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in recording.lines() {
        if let Some(first) = line.strip_prefix("$ ") {
            steps.push(Step { command: first.to_owned(), answer: Vec::new() });
        } else if let Some(step) = steps.last_mut() {
            match continuation(line) {
                Some(further) if step.answer.is_empty() => {
                    step.command.push('\n');
                    step.command.push_str(further);
                }
                _ => step.answer.push(line.to_owned()),
            }
        }
    }
    for step in &mut steps {
        while step.answer.last().is_some_and(String::is_empty) {
            step.answer.pop();
        }
    }
    steps
}

#[test]
fn a_recording_reads_back_as_it_was_written() {
    let script = "Words for the reader.\n$ one\n> two\n>\n> three\nmore words\n$ four\n";
    assert_eq!(commands(script), ["one\ntwo\n\nthree", "four"]);
    let answer = Answer { out: "a\n\n$ b  \n".into(), err: "oops\n".into(), code: Some(3) };
    let lines = answer.lines();
    assert_eq!(lines, ["  a", "", "  $ b", "! oops", "= exit code 3"]);
    let step = |command: &str, answer: Vec<String>| Step { command: command.into(), answer };
    let steps = [step("one\ntwo\n\nthree", lines), step("four", Vec::new())];
    assert_eq!(parse(&render(&steps)), steps);
    assert_eq!(render(&steps), "$ one\n> two\n>\n> three\n  a\n\n  $ b\n! oops\n= exit code 3\n\n$ four\n");
}
