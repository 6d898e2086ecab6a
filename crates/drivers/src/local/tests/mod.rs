//! The driver behind a real gRPC client, on a machine in memory.

mod block;
mod capacity;
mod confinement;
mod controller;
mod crash;
mod create;
mod delete;
mod doors;
mod ephemeral;
mod expand;
mod filesystems;
mod formatting;
mod fuzz;
mod group;
mod lost_answers;
mod modify;
mod node_expand;
mod nodes;
mod places;
mod publish;
mod read_only;
mod resizing;
mod restart;
mod stage;
mod stats;
mod world;
