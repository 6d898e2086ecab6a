//! Decisions and records of the kubelet as a whole; its flows are in `sim/tests/kubelet`.

mod groups;
mod owned;
