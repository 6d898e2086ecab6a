//! The wire contract: numbers, names, and what formatting may show.

mod capabilities;
mod methods;
mod redaction;
mod wire;
