//! The Prometheus text format, version 0.0.4, and the histograms that are written in it.
//!
//! Written by hand: it is four lines per family, less than any crate's set-up.

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

/// How often values fell below each of `N` bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram<const N: usize> {
    /// Per bucket, not yet summed up as the format wants them.
    buckets: [u64; N],
    count: u64,
    sum: f64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { buckets: [0; N], count: 0, sum: 0.0 }
    }
}

impl<const N: usize> Histogram<N> {
    /// `bounds` are the upper ends of the buckets, in order.
    pub fn add(&mut self, bounds: &[f64; N], value: f64) {
        if let Some(bucket) = bounds.iter().position(|bound| value <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum += value;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn write(&self, text: &mut Text, name: &str, bounds: &[f64; N], labels: &[(&str, &str)]) {
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(self.buckets) {
            below += count;
            text.sample(name, "_bucket", labels, Some(&go_float(*bound)), below);
        }
        text.sample(name, "_bucket", labels, Some("+Inf"), self.count);
        text.sample(name, "_sum", labels, None, self.sum);
        text.sample(name, "_count", labels, None, self.count);
    }
}

/// As Go prints a bound: large ones with an exponent.
fn go_float(value: f64) -> String {
    if value < 1e6 {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{digits}e+{exponent:0>2}"),
        None => text,
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_all_that_is_below_them() {
        const BOUNDS: [f64; 3] = [0.5, 1000.0, 1e6];
        let mut histogram = Histogram::default();
        for value in [0.25, 0.5, 7.0, 1e9] {
            histogram.add(&BOUNDS, value);
        }
        let mut text = Text::default();
        histogram.write(&mut text, "h", &BOUNDS, &[("k", "v")]);
        let expected = "h_bucket{k=\"v\",le=\"0.5\"} 2\nh_bucket{k=\"v\",le=\"1000\"} 3\n\
                        h_bucket{k=\"v\",le=\"1e+06\"} 3\nh_bucket{k=\"v\",le=\"+Inf\"} 4\n\
                        h_sum{k=\"v\"} 1000000007.75\nh_count{k=\"v\"} 4\n";
        assert_eq!((text.into_string().as_str(), histogram.count()), (expected, 4));
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let mut text = Text::default();
        text.sample("a", "", &[("k", "x\"y\\z\n")], None, 1);
        assert_eq!(text.into_string(), "a{k=\"x\\\"y\\\\z\\n\"} 1\n");
    }
}
