//! From OpenMetrics, which the crate writes, to the text format 0.0.4, which upstream serves and nothing else.
//!
//! Dashboards name series by their text: counters keep their whole name in `# TYPE`, numbers and bounds are written as Go
//! does, `le` comes last, and everything has an order.

use std::collections::BTreeSet;
use std::fmt::Write;

struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

struct Sample<'a> {
    name: &'a str,
    /// Without the braces, and without `le`.
    labels: &'a str,
    bound: Option<f64>,
    value: f64,
}

/// `bare` are the counters whose name has no `_total`.
pub(super) fn classic(open: &str, bare: &BTreeSet<&'static str>) -> String {
    let mut families: Vec<Family> = Vec::new();
    for line in open.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            match (words.next(), words.next(), words.next(), families.last_mut()) {
                (Some("HELP"), Some(name), Some(help), _) => {
                    // The crate ends every sentence.
                    let help = help.strip_suffix('.').unwrap_or(help);
                    families.push(Family { name, help, kind: "untyped", samples: Vec::new() });
                }
                (Some("TYPE"), _, Some(kind), Some(family)) => family.kind = kind,
                _ => {}
            }
        } else if let (Some(sample), Some(family)) = (sample(line), families.last_mut()) {
            family.samples.push(sample);
        }
    }
    families.sort_by_key(|family| family.name);
    let mut text = String::new();
    for family in families {
        // Writing to a string does not fail.
        let bare = bare.contains(family.name);
        let _ = family.write(&mut text, bare);
    }
    text
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.strip_suffix('}').unwrap_or(labels);
    let value = value.parse().ok()?;
    let Some(bounded) = labels.strip_prefix("le=\"").filter(|_| name.ends_with("_bucket")) else {
        return Some(Sample { name, labels, bound: None, value });
    };
    let (bound, labels) = bounded.split_once('"')?;
    let labels = labels.strip_prefix(',').unwrap_or(labels);
    Some(Sample { name, labels, bound: Some(bound.parse().ok()?), value })
}

impl Family<'_> {
    fn write(mut self, text: &mut String, bare: bool) -> std::fmt::Result {
        let Self { name, help, kind, .. } = self;
        let name = if kind == "counter" && !bare { format!("{name}_total") } else { name.to_owned() };
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        // Within one series: buckets in their order, sum, count.
        let rank = |sample: &Sample| match (sample.bound, sample.name.ends_with("_sum")) {
            (Some(_), _) => 0,
            (None, true) => 1,
            (None, false) => 2,
        };
        self.samples.sort_by(|a, b| (a.labels, rank(a)).cmp(&(b.labels, rank(b))));
        for Sample { name: full, labels, bound, value } in &self.samples {
            let full = if kind == "counter" { &name } else { *full };
            let bound = bound.map(|bound| format!("le=\"{}\"", go_float(bound)));
            let all: Vec<&str> = [*labels, bound.as_deref().unwrap_or_default()].into();
            let all = all.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
            let braced = if all.is_empty() { all } else { format!("{{{all}}}") };
            writeln!(text, "{full}{braced} {}", go_float(*value))?;
        }
        Ok(())
    }
}

/// Go's `%g`: the shortest digits that read back as the same number, with an exponent below 1e-4 and from 1e6 on.
fn go_float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(-4..6) => value.to_string(),
        Ok(exponent) if exponent < 0 => format!("{digits}e-{:0>2}", -exponent),
        Ok(exponent) => format!("{digits}e+{exponent:0>2}"),
        Err(_) => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_go_writes_them() {
        let table = [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (-2.5, "-2.5"),
            (600.0, "600"),
            (123456.0, "123456"),
            (1e6, "1e+06"),
            (1794818767.05, "1.79481876705e+09"),
            (1e-4, "0.0001"),
            (4.032e-5, "4.032e-05"),
            (1e-8, "1e-08"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in table {
            assert_eq!(go_float(value), text);
        }
    }
}
