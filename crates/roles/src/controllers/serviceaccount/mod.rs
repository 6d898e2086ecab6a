//! `serviceaccount-controller`: every namespace has an account that pods run as unless they name another.
//!
//! **Watches** namespaces and service accounts; **creates** the account `default`, nothing else.
//!
//! # Promises
//! SA-1: a namespace that stays has its default account, and gets it back if somebody deletes it.

mod act;
mod decide;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Observed, Why};
pub use role::Accounts;
