//! The table: a row per measurement, a column per server, and how they compare.

use std::time::Duration;

use super::load::Load;
use super::upstream;
use crate::args::ApiserverArgs;
use crate::figures::Timings;
use crate::report::{Cell, Report, Section};
use crate::startup::SUBJECT;

const TITLE: &str = "API server";
const RATIO: &str = "ours to theirs";

/// What one server adds to the table.
pub struct Rows<'a> {
    section: &'a mut Section,
    subject: &'static str,
}

impl<'a> Rows<'a> {
    pub fn new(report: &'a mut Report, subject: &'static str, args: &ApiserverArgs) -> Self {
        let section = report.section(TITLE);
        section.note(format!(
            "{} pods of about 1 kB, {} watchers; TLS and HTTP/2; clients and servers share the machine; every write is synced to the same disk.",
            args.objects, args.watchers
        ));
        Self { section, subject }
    }

    pub fn rate(&mut self, what: &str, load: Load) {
        let rate = load.count as f64 / load.wall.as_secs_f64();
        self.section.put(what, self.subject, Cell::PerSecond(rate));
        self.spread(&format!("{what}: each"), load.each);
    }

    pub fn spread(&mut self, what: &str, timings: Timings) {
        self.section.put(what, self.subject, Cell::spread(&timings));
    }

    pub fn memory(&mut self, what: &str, kib: u64) {
        let row = self.section.put(what, self.subject, Cell::kib(kib));
        row.budget("≤ 1/5");
    }

    /// Memory that something adds.
    pub fn more(&mut self, what: &str, kib: u64, budget: &str) {
        self.section.put(what, self.subject, Cell::kib(kib)).budget(budget);
    }

    pub fn time(&mut self, what: &str, time: Duration) {
        self.section.put(what, self.subject, Cell::ms(time));
    }
}

/// Says why there is one column.
pub fn alone(report: &mut Report) {
    report.section(TITLE).note("Upstream beside it: --kube-apiserver and --etcd name its programs.");
}

/// A rate of three times theirs is `3.0×`, and so is a third of their time or memory `0.33×`.
pub fn ratios(report: &mut Report) {
    let section = report.section(TITLE);
    let column = |name: &str| section.subjects.iter().position(|subject| subject == name);
    let (Some(ours), Some(theirs)) = (column(SUBJECT), column(upstream::NAME)) else { return };
    let ratio = |cells: &[Option<Cell>]| {
        let (ours, theirs) = (figure(cells.get(ours)?.as_ref()?)?, figure(cells.get(theirs)?.as_ref()?)?);
        Some(format!("{:.2}×", ours / theirs))
    };
    let ratios: Vec<(String, String)> =
        section.rows.iter().filter_map(|row| Some((row.what.clone(), ratio(&row.cells)?))).collect();
    for (what, ratio) in ratios {
        section.put(&what, RATIO, Cell::Said(ratio));
    }
}

fn figure(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Spread { median_ms: figure, .. }
        | Cell::Ms(figure)
        | Cell::Seconds(figure)
        | Cell::Mib(figure)
        | Cell::PerSecond(figure)
        | Cell::Percent(figure) => Some(*figure),
        Cell::Said(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_is_compared_with_like() {
        let mut report = Report::default();
        let section = report.section(TITLE);
        section.put("creates", SUBJECT, Cell::PerSecond(300.0));
        section.put("creates", upstream::NAME, Cell::PerSecond(100.0));
        section.put("memory", SUBJECT, Cell::Mib(10.0));
        section.put("memory", upstream::NAME, Cell::Mib(40.0));
        section.put("lists", SUBJECT, Cell::Ms(1.0));
        ratios(&mut report);
        let section = report.section(TITLE);
        let said = |row: usize| section.rows[row].cells[2].clone();
        assert_eq!(section.subjects, [SUBJECT, upstream::NAME, RATIO]);
        assert_eq!(
            (said(0), said(1), said(2)),
            (Some(Cell::Said("3.00×".into())), Some(Cell::Said("0.25×".into())), None)
        );
    }
}
