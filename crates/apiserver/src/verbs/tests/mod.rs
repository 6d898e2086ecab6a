//! The verbs through the service, as a client sees them.

mod apply;
mod bodies;
mod cost;
mod deletes;
mod eviction;
mod namespaces;
mod parts;
mod patches;
mod pod_admission;
mod propagation;
mod reads;
mod scale;
mod views;
mod watches;
mod writes;
