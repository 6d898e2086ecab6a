//! The verbs through the service, as a client sees them.

mod deletes;
mod eviction;
mod parts;
mod reads;
mod scale;
mod watches;
mod writes;
