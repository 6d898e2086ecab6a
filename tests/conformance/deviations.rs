//! Where we mean to differ from upstream. An entry that no longer applies fails its theme.

use crate::compare::Deviation;

pub const DEVIATIONS: &[Deviation] = &[];
