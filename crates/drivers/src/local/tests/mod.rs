//! The driver behind a real gRPC client, on a machine in memory.

mod block;
mod confinement;
mod controller;
mod crash;
mod create;
mod delete;
mod doors;
mod formatting;
mod fuzz;
mod health;
mod lost_answers;
mod metrics;
mod nodes;
mod publish;
mod restart;
mod stage;
mod world;
