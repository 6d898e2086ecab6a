//! The driver behind a real gRPC client, on a machine in memory.

mod bad_luck;
mod block;
mod check;
mod confinement;
mod controller;
mod crash;
mod create;
mod delete;
mod doors;
mod formatting;
mod fuzz;
mod lost_answers;
mod nodes;
mod publish;
mod recovery;
mod regroup;
mod restart;
mod stage;
mod start;
mod world;
