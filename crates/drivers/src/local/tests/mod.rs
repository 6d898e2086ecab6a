//! The driver behind a real gRPC client, on a machine in memory.

mod block;
mod confinement;
mod controller;
mod crash;
mod create;
mod delete;
mod doors;
mod ephemeral;
mod filesystems;
mod formatting;
mod fuzz;
mod group;
mod lost_answers;
mod nodes;
mod places;
mod publish;
mod restart;
mod stage;
mod world;
