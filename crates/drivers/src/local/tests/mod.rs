//! The driver behind a real gRPC client, on a machine in memory.

mod block;
mod capacity;
mod confinement;
mod controller;
mod crash;
mod create;
mod delete;
mod doors;
mod expand;
mod formatting;
mod fuzz;
mod lost_answers;
mod modify;
mod node_expand;
mod nodes;
mod publish;
mod read_only;
mod resizing;
mod restart;
mod stage;
mod stats;
mod world;
