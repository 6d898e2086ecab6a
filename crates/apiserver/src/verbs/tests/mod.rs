//! The verbs through the service, as a client sees them.

mod apply;
mod bodies;
mod cost;
mod deletes;
mod patches;
mod propagation;
mod reads;
mod views;
mod watches;
mod writes;
