//! The driver behind a real gRPC client, on a machine in memory.

mod controller;
mod crash;
mod create;
mod delete;
mod fuzz;
mod inline;
mod lost_answers;
mod publish;
mod restart;
mod world;
