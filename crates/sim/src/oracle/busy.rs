//! No program asks for the same thing again and again without a pause: that is a loop that nothing ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Oracle;
use crate::line::effect::Effect;

/// Far above what back-off lets through, far below what a loop makes of it.
const REPEATS_MAX: u32 = 200;
const WINDOW: Duration = Duration::from_secs(30);

/// By program and object: what was asked for, since when, and how often.
#[derive(Default)]
pub struct Busy(BTreeMap<(Arc<str>, String), BTreeMap<String, (Instant, u32)>>);

impl Oracle {
    /// A program sends one more request.
    pub fn sends(&mut self, process: &Arc<str>, effect: &Effect) {
        let now = Instant::now();
        let of_object = self.busy.0.entry((process.clone(), effect.object.clone())).or_default();
        let (since, count) = of_object.entry(effect.name.clone()).or_insert((now, 0));
        if now - *since > WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count == REPEATS_MAX {
            let (name, object) = (&effect.name, &effect.object);
            self.broken(format!(
                "LOOP: {process} asks `{name}` of {object} {REPEATS_MAX} times in {WINDOW:?}"
            ));
        }
    }
}
