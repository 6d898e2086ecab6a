//! The fake world of simulations and unit tests.
