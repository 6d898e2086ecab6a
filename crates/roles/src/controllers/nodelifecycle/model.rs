//! What the role sees of a node.

use std::convert::Infallible;
use std::sync::Arc;

use bowline_api::Node;
use k8s_openapi::api::core::v1::Taint;

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub node: Arc<Node>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    SetTaints(Vec<Taint>),
}

/// Nothing is ever waited for.
pub type Why = Infallible;
