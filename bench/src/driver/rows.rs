//! What the measurements say in the table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::log::Rpc;
use super::many::{ASKED, Many, PAGE, Pages};
use super::rounds::{Plan, Rounds};
use super::{clone, tools};
use crate::figures::Timings;
use crate::report::{Cell, Report, Section};

pub const CLONE: &str = "Clone: CreateVolume from a volume of 10 GiB";

pub fn rounds_title(plan: Plan) -> String {
    let fs = plan.fs.name().unwrap_or("block");
    let (volumes, parallel) = (plan.volumes, plan.parallel);
    format!("Rounds: {volumes} volumes ({fs}) from CreateVolume to DeleteVolume, {parallel} at a time")
}

pub fn many_title(count: usize) -> String {
    format!("{count} volumes")
}

pub fn rounds(report: &mut Report, plan: Plan, subject: &str, measured: &Rounds) {
    let section = report.section(&rounds_title(plan));
    section.put("RPCs per second", subject, Cell::PerSecond(measured.per_second()));
    section.put("all rounds", subject, Cell::Seconds(measured.wall.as_secs_f64()));
    calls(section, subject, &measured.timings);
    section.note("Each call: median / p99.");
    left(section, subject, &measured.left);
}

pub fn tools(report: &mut Report, plan: Plan, measured: &Rounds, own: Option<Duration>) {
    let section = report.section(&rounds_title(plan));
    section.put("all rounds", tools::NAME, Cell::Seconds(measured.wall.as_secs_f64()));
    calls(section, tools::NAME, &measured.timings);
    if let Some(own) = own {
        let share = measured.wall.as_secs_f64() / own.as_secs_f64() * 100.0;
        section.put("their share of our rounds", tools::NAME, Cell::Percent(share));
    }
    section.note(tools::EXPLAINED);
    left(section, tools::NAME, &measured.left);
}

fn calls(section: &mut Section, subject: &str, timings: &BTreeMap<Rpc, Timings>) {
    for (rpc, timings) in timings {
        section.put(&rpc.name(), subject, Cell::spread(timings));
        failures(section, subject, &rpc.name(), timings);
    }
}

fn failures(section: &mut Section, subject: &str, what: &str, timings: &Timings) {
    if let Some(why) = timings.first_failure() {
        section.note(format!("{subject}: {what} failed {} times, at first: {why}", timings.failures()));
    }
}

fn left(section: &mut Section, subject: &str, left: &[String]) {
    if let Some(first) = left.first() {
        section.note(format!("{subject}: {} volumes stay behind, the first: {first}", left.len()));
    }
}

pub fn clone(report: &mut Report, plan: clone::Plan, pool: &str, subject: &str, cell: Cell) {
    let section = report.section(CLONE);
    let row = section.put(&format!("holding {} MiB, {pool}", plan.data_bytes >> 20), subject, cell);
    if pool == "pool on xfs" {
        row.budget("≤ 50 ms");
    }
    section.note("Median / longest. The source is written and synced before, and in nobody's use.");
}

pub fn many(report: &mut Report, count: usize, subject: &str, measured: &Many) {
    let section = report.section(&many_title(count));
    let rate = measured.creates.count() as f64 / measured.wall.as_secs_f64();
    section.put("created per second", subject, Cell::PerSecond(rate));
    section.put("CreateVolume", subject, Cell::spread(&measured.creates));
    failures(section, subject, "CreateVolume", &measured.creates);
    let unknown = || Cell::Said("pid not known".to_owned());
    let idle = measured.idle.map_or_else(unknown, |resident| Cell::kib(resident.now_kib));
    section.put("resident memory before", subject, idle);
    let now = measured.resident.map_or_else(unknown, |resident| Cell::kib(resident.now_kib));
    section.put("resident memory with all of them", subject, now).budget("≤ 64 MiB");
    let peak = measured.resident.map_or_else(unknown, |resident| Cell::kib(resident.peak_kib));
    section.put("most resident memory", subject, peak);
    pages(section, subject, measured.creates.count(), measured.pages.as_ref());
    left(section, subject, &measured.left);
}

fn pages(section: &mut Section, subject: &str, there: usize, pages: Option<&Pages>) {
    let said = |why: &str| Cell::Said(why.to_owned());
    let first = pages.map_or_else(|| said("not advertised"), |pages| Cell::spread(&pages.first));
    section.put(&format!("ListVolumes, first page of {PAGE}"), subject, first).budget("≤ 10 ms");
    let middle = match pages.map(|pages| &pages.middle) {
        None => said("not advertised"),
        Some(None) => said("no second page: no next_token"),
        Some(Some(middle)) => Cell::spread(middle),
    };
    section.put("ListVolumes, middle page", subject, middle).budget("≤ 10 ms");
    section.note(format!("Calls: median / p99; of ListVolumes, asked {ASKED} times."));
    if let Some(pages) = pages.filter(|pages| pages.entries != there) {
        section.note(format!("{subject}: all pages together have {} of {there} volumes", pages.entries));
    }
}
