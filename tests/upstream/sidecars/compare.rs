//! Two sets of writes against docs/differences.md: what differs is named there, and what is named there differs.

use super::writes::Writes;

const DOCUMENT: &str = include_str!("../../../docs/differences.md");
/// Of that document; the first column of its table has patterns in which `*` stands for any text.
const SECTION: &str = "## Writes of sidecars";

/// Panics with all differences that are not named and all names that fit no difference.
pub fn assert_named(upstream: &Writes, ours: &Writes) {
    let patterns = patterns(DOCUMENT);
    let only_upstream = upstream.difference(ours).map(|line| format!("upstream only: {line}"));
    let only_ours = ours.difference(upstream).map(|line| format!("ours only: {line}"));
    let differences: Vec<String> = only_upstream.chain(only_ours).collect();
    let unnamed: Vec<&String> =
        differences.iter().filter(|line| !patterns.iter().any(|pattern| fits(pattern, line))).collect();
    let stale: Vec<&String> =
        patterns.iter().filter(|pattern| !differences.iter().any(|line| fits(pattern, line))).collect();
    assert!(
        unnamed.is_empty() && stale.is_empty(),
        "not named: {unnamed:#?}\nnamed without need: {stale:#?}"
    );
}

fn patterns(document: &str) -> Vec<String> {
    let section = document.split(SECTION).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).map(String::from).collect()
}

fn fits(pattern: &str, line: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == line };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match line.split_once(part) {
            Some((_, after)) => line = after,
            None => return false,
        }
    }
    line.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_lines() {
        assert!(fits("ours only: csi-* create leases *", "ours only: csi-provisioner create leases a-b"));
        assert!(fits("a * b", "a b b"));
        assert!(fits("exact", "exact"));
        assert!(!fits("exact", "exactly"));
        assert!(!fits("ours only: *", "upstream only: x"));
    }

    #[test]
    fn only_the_rows_of_the_section_are_patterns() {
        let document = "## Other\n| `no` | x |\n## Writes of sidecars\n\n| write | why |\n|---|---|\n| `a *` | x |\n## Next\n| `no` |\n";
        assert_eq!(patterns(document), ["a *"]);
    }
}
