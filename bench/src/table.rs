//! Sections as Markdown tables that are readable without being rendered.

use crate::report::{Cell, Section};

/// A missing figure or budget.
const NONE: &str = "–";

pub fn draw(section: &Section) -> String {
    let mut lines = vec![heading(section)];
    for row in &section.rows {
        let mut line = vec![row.what.clone()];
        let cell = |cell: &Option<Cell>| cell.as_ref().map_or_else(|| NONE.to_owned(), show);
        line.extend(row.cells.iter().map(cell));
        line.push(row.budget.clone().unwrap_or_else(|| NONE.to_owned()));
        lines.push(line);
    }
    // A column in which nobody has a budget says nothing.
    if section.rows.iter().all(|row| row.budget.is_none()) {
        lines.iter_mut().for_each(|line| line.truncate(line.len() - 1));
    }
    let mut text = format!("### {}\n\n{}", section.title, align(&lines));
    for note in &section.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}

fn heading(section: &Section) -> Vec<String> {
    let mut line = vec![String::new()];
    line.extend(section.subjects.iter().cloned());
    line.push("budget".to_owned());
    line
}

fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
        if number == 0 {
            let rules = widths.iter().map(|width| "-".repeat(width + 2));
            text.push_str(&format!("|{}|\n", rules.collect::<Vec<_>>().join("|")));
        }
    }
    text
}

fn show(cell: &Cell) -> String {
    match cell {
        Cell::Spread { median_ms, p99_ms, failed: 0, .. } => format!("{median_ms:.1} / {p99_ms:.1} ms"),
        Cell::Spread { median_ms, p99_ms, count, failed } => {
            format!("{median_ms:.1} / {p99_ms:.1} ms, {failed} of {} failed", count + failed)
        }
        Cell::Ms(ms) => format!("{ms:.1} ms"),
        Cell::Seconds(seconds) => format!("{seconds:.1} s"),
        Cell::Mib(mib) => format!("{mib:.1} MiB"),
        Cell::PerSecond(rate) => format!("{rate:.0} /s"),
        Cell::Percent(percent) => format!("{percent:.0} %"),
        Cell::Said(why) => why.replace(['\n', '|'], " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn a_section_is_one_aligned_table() {
        let mut report = Report::default();
        let section = report.section("rounds");
        section.put("rate", "ours", Cell::PerSecond(512.4));
        let spread = Cell::Spread { median_ms: 1.25, p99_ms: 10.0, count: 8, failed: 2 };
        section.put("CreateVolume", "theirs", spread);
        section.note("median / p99");
        let expected = "\
### rounds

|              | ours   | theirs                        |
|--------------|--------|-------------------------------|
| rate         | 512 /s | –                             |
| CreateVolume | –      | 1.2 / 10.0 ms, 2 of 10 failed |

median / p99
";
        assert_eq!(report.text(), expected);
        report.section("rounds").put("rate", "ours", Cell::PerSecond(1.0)).budget("≥ 5 /s");
        assert!(report.text().contains("| 1 /s | –                             | ≥ 5 /s |"));
    }

    #[test]
    fn a_complaint_stays_in_its_cell() {
        assert_eq!(show(&Cell::Said("no |\nway".into())), "no   way");
    }
}
