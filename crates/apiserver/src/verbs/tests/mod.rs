//! The verbs through the service, as a client sees them.

mod apply;
mod deletes;
mod reads;
mod watches;
mod writes;
