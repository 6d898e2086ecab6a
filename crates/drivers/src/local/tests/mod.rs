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
mod groups;
mod lost_answers;
mod metadata;
mod nodes;
mod places;
mod publish;
mod restart;
mod restores;
mod snapshot_crash;
mod snapshots;
mod stage;
mod still;
mod world;
