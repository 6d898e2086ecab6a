//! How long RPCs took and how they ended, as csi-lib-utils' metrics package counts them for plugins.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_host::metrics::{Family, Histogram, Text};
use tonic::Code;

const FAMILY: Family = Family {
    name: "csi_plugin_operations_seconds",
    help: "[ALPHA] Container Storage Interface operation duration with gRPC error code status total",
    kind: "histogram",
};

/// Upper bounds in seconds.
const BUCKETS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// Every finished call of one driver, by method and code.
pub struct Operations {
    driver: &'static str,
    series: Mutex<BTreeMap<(&'static str, &'static str), Histogram<{ BUCKETS.len() }>>>,
}

impl Operations {
    pub fn new(driver: &'static str) -> Self {
        Self { driver, series: Mutex::default() }
    }

    pub fn observe(&self, method: &'static str, code: Code, took: Duration) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.entry((method, code_name(code))).or_default().add(&BUCKETS, took.as_secs_f64());
    }

    pub fn write(&self, text: &mut Text) {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        text.family(&FAMILY);
        for ((method, code), histogram) in &series {
            let labels =
                [("driver_name", self.driver), ("grpc_status_code", *code), ("method_name", *method)];
            histogram.write(text, FAMILY.name, &BUCKETS, &labels);
        }
    }
}

/// `method code=count` of everything observed, for tests of who counts what.
#[cfg(test)]
pub fn counts(operations: &Operations) -> Vec<String> {
    let series = operations.series.lock().unwrap_or_else(PoisonError::into_inner);
    series.iter().map(|((method, code), seen)| format!("{method} {code}={}", seen.count())).collect()
}

/// The names that Go's gRPC gives the codes, which differ from tonic's here and there.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: &str = "/csi.v1.Node/NodeGetInfo";

    fn page(observed: &[(Code, u64)]) -> String {
        let operations = Operations::new("d.example");
        for (code, milliseconds) in observed {
            operations.observe(METHOD, *code, Duration::from_millis(*milliseconds));
        }
        let mut text = Text::default();
        operations.write(&mut text);
        text.into_string()
    }

    #[test]
    fn a_histogram_reads_as_prometheus_reads_it() {
        let labels = format!(r#"driver_name="d.example",grpc_status_code="OK",method_name="{METHOD}""#);
        let name = "csi_plugin_operations_seconds";
        let bounds =
            ["0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15", "25", "50", "120", "300", "600", "+Inf"];
        // A call of exactly 100 ms belongs to the first bucket; one of 700 s to none but the last.
        let counts = [2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4];
        let mut expected = format!(
            "# HELP {name} [ALPHA] Container Storage Interface operation duration with gRPC error code status total\n\
             # TYPE {name} histogram\n"
        );
        for (bound, count) in bounds.iter().zip(counts) {
            expected += &format!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}\n");
        }
        expected += &format!("{name}_sum{{{labels}}} 700.625\n{name}_count{{{labels}}} 4\n");
        assert_eq!(page(&[(Code::Ok, 25), (Code::Ok, 100), (Code::Ok, 500), (Code::Ok, 700_000)]), expected);
    }

    #[test]
    fn codes_are_counted_apart_and_named_as_go_names_them() {
        let text = page(&[(Code::Cancelled, 1), (Code::NotFound, 1), (Code::NotFound, 1)]);
        for (code, count) in [("Canceled", 1), ("NotFound", 2)] {
            let line = format!(
                "_count{{driver_name=\"d.example\",grpc_status_code=\"{code}\",method_name=\"{METHOD}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}
