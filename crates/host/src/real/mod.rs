//! The real world.
