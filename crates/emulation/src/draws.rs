//! The random draws of a line: one stream for loss, one for jitter.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// What a stream of draws is for; each has numbers of its own from the same seed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Loss = 0,
    Jitter = 1,
}

/// A seeded stream of draws.
///
/// The key is laid out here and ranges are drawn here, so that a new version of a library cannot
/// change what a seed means.
#[derive(Debug, Clone)]
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    pub(crate) fn new(seed: u64, direction: u64, purpose: Purpose) -> Self {
        let mut key = *b"........regatta emulation path 1";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(2 * direction + purpose as u64);
        Self(generator)
    }

    /// True with a probability of `threshold` / 2^64.
    pub(crate) fn below(&mut self, threshold: u64) -> bool {
        self.0.next_u64() < threshold
    }

    /// A whole number from 0 to `highest`, all equally likely.
    ///
    /// By multiplication: the bias is at most `highest` / 2^64.
    pub(crate) fn up_to(&mut self, highest: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * (u128::from(highest) + 1);
        (wide >> 64) as u64
    }
}
