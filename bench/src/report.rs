//! All figures of a run: collected cell by cell, printed as one table or as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::figures::Timings;

/// Sections in the order in which their first figure arrived.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    sections: Vec<Section>,
}

/// Rows that are measured alike, a column for each subject that was measured.
#[derive(Debug, Serialize)]
pub struct Section {
    pub title: String,
    pub subjects: Vec<String>,
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Beside the section's subjects, in their order.
    pub cells: Vec<Option<Cell>>,
}

/// One figure, in the unit that people read it in.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    Spread {
        median_ms: f64,
        p99_ms: f64,
        count: usize,
        failed: usize,
    },
    Ms(f64),
    Seconds(f64),
    Mib(f64),
    PerSecond(f64),
    Percent(f64),
    /// Why there is no figure.
    Said(String),
}

impl Cell {
    /// Median and p99, or why nothing worked.
    pub fn spread(timings: &Timings) -> Self {
        match (timings.quantile(0.5), timings.quantile(0.99)) {
            (Some(median), Some(p99)) => Self::Spread {
                median_ms: millis(median),
                p99_ms: millis(p99),
                count: timings.count(),
                failed: timings.failures(),
            },
            _ => Self::Said(timings.first_failure().unwrap_or("not called").to_owned()),
        }
    }

    pub fn ms(time: Duration) -> Self {
        Self::Ms(millis(time))
    }

    pub fn kib(kib: u64) -> Self {
        Self::Mib(kib as f64 / 1024.0)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

impl Report {
    pub fn section(&mut self, title: &str) -> &mut Section {
        let at = self.sections.iter().position(|section| section.title == title).unwrap_or_else(|| {
            let section = Section { title: title.to_owned(), subjects: vec![], rows: vec![], notes: vec![] };
            self.sections.push(section);
            self.sections.len() - 1
        });
        &mut self.sections[at]
    }

    pub fn text(&self) -> String {
        self.sections.iter().map(crate::table::draw).collect::<Vec<_>>().join("\n")
    }
}

impl Section {
    pub fn put(&mut self, what: &str, subject: &str, cell: Cell) -> &mut Row {
        let column = self.subjects.iter().position(|known| known == subject).unwrap_or_else(|| {
            self.subjects.push(subject.to_owned());
            self.subjects.len() - 1
        });
        let at = self.rows.iter().position(|row| row.what == what).unwrap_or_else(|| {
            self.rows.push(Row { what: what.to_owned(), budget: None, cells: vec![] });
            self.rows.len() - 1
        });
        for row in &mut self.rows {
            row.cells.resize(self.subjects.len(), None);
        }
        let row = &mut self.rows[at];
        row.cells[column] = Some(cell);
        row
    }

    /// A line below the table; said once, however many subjects it holds for.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

impl Row {
    pub fn budget(&mut self, budget: &str) {
        self.budget = Some(budget.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_came_later_stands_beside_the_first() {
        let mut report = Report::default();
        report.section("rounds").put("CreateVolume", "ours", Cell::Ms(1.0)).budget("≤ 2 ms");
        report.section("rounds").put("NodeStageVolume", "ours", Cell::Ms(3.0));
        report.section("rounds").put("CreateVolume", "theirs", Cell::Ms(2.0));
        let section = report.section("rounds");
        assert_eq!(section.subjects, ["ours", "theirs"]);
        assert_eq!(section.rows[0].cells, [Some(Cell::Ms(1.0)), Some(Cell::Ms(2.0))]);
        assert_eq!(section.rows[1].cells, [Some(Cell::Ms(3.0)), None]);
        assert_eq!(section.rows[0].budget.as_deref(), Some("≤ 2 ms"));
    }

    #[test]
    fn json_has_units_in_its_keys() {
        let mut report = Report::default();
        report.section("memory").put("resident", "ours", Cell::kib(2048));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sections"][0]["rows"][0]["cells"][0]["mib"], 2.0);
    }

    #[test]
    fn nothing_that_worked_is_no_figure() {
        let mut timings = Timings::default();
        timings.failed("UNIMPLEMENTED: no".into());
        assert_eq!(Cell::spread(&timings), Cell::Said("UNIMPLEMENTED: no".into()));
        timings.worked(Duration::from_millis(4));
        let spread = Cell::Spread { median_ms: 4.0, p99_ms: 4.0, count: 1, failed: 1 };
        assert_eq!(Cell::spread(&timings), spread);
    }
}
