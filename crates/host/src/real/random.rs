//! Randomness seeded by the kernel.

use std::io;
use std::sync::{Mutex, PoisonError};

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::Random;

pub(super) struct RealRandom(Mutex<ChaCha12Rng>);

impl RealRandom {
    pub fn new() -> io::Result<Self> {
        let mut seed = [0; 32];
        let length = getrandom(&mut seed, GetRandomFlags::empty())?;
        if length != seed.len() {
            return Err(io::Error::other("the kernel gave too little randomness"));
        }
        Ok(Self(Mutex::new(ChaCha12Rng::from_seed(seed))))
    }
}

impl Random for RealRandom {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
