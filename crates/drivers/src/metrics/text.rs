//! The Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};

/// Samples of one name.
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: &'static str,
}

/// A page of samples. Writing to a string cannot fail, so the results of `write!` say nothing.
#[derive(Default)]
pub struct Text(String);

impl Text {
    pub fn family(&mut self, family: &Family) {
        let Family { name, help, kind } = family;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One line. `bound` is the upper bound of a histogram's bucket.
    pub fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let _ = write!(self.0, "{name}{suffix}");
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let all: Vec<String> = all.map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        if !all.is_empty() {
            let _ = write!(self.0, "{{{}}}", all.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut text = Text::default();
        text.sample("a", "", &[("k", "x\"y\\z\n")], None, 1);
        assert_eq!(text.into_string(), "a{k=\"x\\\"y\\\\z\\n\"} 1\n");
    }
}
