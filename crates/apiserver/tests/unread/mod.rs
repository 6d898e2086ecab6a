mod client;
mod fairness;
mod memory;
mod server;
