//! The verbs through the service, as a client sees them.

mod apply;
mod deletes;
mod propagation;
mod reads;
mod views;
mod watches;
mod writes;
