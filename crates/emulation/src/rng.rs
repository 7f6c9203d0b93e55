//! Random draws of a link: one stream for each purpose.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use regatta_model::Impairment;

/// Purpose of a stream of draws; each purpose has its own random numbers from the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Impairment(Impairment),
    Jitter,
    Bursts,
    Discipline,
}

impl Purpose {
    /// Returns the number of draws that one packet takes.
    const fn per_packet(self) -> u64 {
        match self {
            // Loss and change of state; whether, and which bit.
            Self::Bursts | Self::Impairment(Impairment::Corruption) => 2,
            _ => 1,
        }
    }

    /// Returns the number of the stream. The first two were laid out before there were others.
    const fn stream(self, direction: u64) -> u64 {
        let number = match self {
            Self::Impairment(impairment) => impairment.stream(),
            Self::Jitter => 1,
            Self::Bursts => 2,
            Self::Discipline => 6,
        };
        match number {
            0 | 1 => 2 * direction + number,
            _ => 2 * number + direction,
        }
    }
}

/// Words of 32 bits that one draw takes from the generator.
const WORDS_PER_DRAW: u128 = 2;

/// Seeded stream of draws.
///
/// The key is made here and ranges are drawn here, so that a new version of a library cannot change
/// the draws of a seed.
#[derive(Debug, Clone)]
pub(crate) struct LinkRng(ChaCha8Rng);

impl LinkRng {
    /// Creates the stream of a seed for a direction and a purpose, at the position of the packet `ordinal`, from 0.
    pub(crate) fn new((seed, direction): (u64, u64), purpose: Purpose, ordinal: u64) -> Self {
        let mut key = *b"........regatta emulation path 1";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(purpose.stream(direction));
        generator.set_word_pos(u128::from(ordinal * purpose.per_packet()) * WORDS_PER_DRAW);
        Self(generator)
    }

    /// Returns the next draw: a whole number, all of 64 bits equally likely.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// A probability as a threshold of draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Converts a ratio: below 1 its product with 2^64 fits; 1 saturates, and [`Chance::hits`]
    /// treats that as certain.
    pub(crate) fn new(ratio: f64) -> Self {
        Self((ratio * 2f64.powi(64)) as u64)
    }

    /// Whether `draw` falls below the probability.
    #[inline]
    pub(crate) fn hits(self, draw: u64) -> bool {
        draw < self.0 || self.0 == u64::MAX
    }
}

/// Maps a draw to a whole number from 0 to `highest`, all equally likely.
///
/// The number is computed by multiplication: the bias is at most `highest` / 2^64.
#[inline]
pub(crate) fn up_to(draw: u64, highest: u64) -> u64 {
    let wide = u128::from(draw) * (u128::from(highest) + 1);
    (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Purpose; 10] = [
        Purpose::Impairment(Impairment::Loss),
        Purpose::Jitter,
        Purpose::Bursts,
        Purpose::Impairment(Impairment::Reordering),
        Purpose::Impairment(Impairment::Duplication),
        Purpose::Impairment(Impairment::Corruption),
        Purpose::Discipline,
        Purpose::Impairment(Impairment::EctLoss),
        Purpose::Impairment(Impairment::Bleaching),
        Purpose::Impairment(Impairment::Remarking),
    ];

    #[test]
    fn every_impairment_is_a_purpose() {
        for impairment in Impairment::ALL {
            assert!(ALL.contains(&Purpose::Impairment(impairment)));
        }
    }

    #[test]
    fn every_purpose_and_direction_has_its_own_stream() {
        let mut streams: Vec<u64> = ALL
            .iter()
            .flat_map(|purpose| [purpose.stream(0), purpose.stream(1)])
            .collect();
        streams.sort_unstable();
        streams.dedup();
        assert_eq!(streams.len(), 2 * ALL.len());
    }

    /// A stored seed names its losses and delays as long as each purpose keeps its stream. The numbers of the first two
    /// are 2 · direction + purpose, which is how they were laid out before there were others; later ones are
    /// 2 · purpose + direction.
    #[test]
    fn streams_keep_their_numbers() {
        let numbers = [[0, 2], [1, 3], [4, 5], [6, 7], [8, 9], [10, 11]];
        for (purpose, expected) in ALL.into_iter().zip(numbers) {
            let found = [purpose.stream(0), purpose.stream(1)];
            assert_eq!(found, expected, "{purpose:?}");
        }
    }

    #[test]
    fn a_chance_of_a_half_is_hit_by_the_lower_half_of_draws() {
        let half = Chance::new(0.5);
        assert!(half.hits((1 << 63) - 1));
        assert!(!half.hits(1 << 63));
    }

    #[test]
    fn a_draw_reaches_both_ends_of_a_range() {
        assert_eq!(up_to(0, 5), 0);
        assert_eq!(up_to(1 << 63, 5), 3);
        assert_eq!(up_to(u64::MAX, 5), 5);
    }

    #[test]
    fn draws_begin_at_the_position_of_a_packet() {
        for purpose in ALL {
            let mut from_start = LinkRng::new((7, 1), purpose, 0);
            for _ in 0..1001 * purpose.per_packet() {
                from_start.next();
            }
            let mut later = LinkRng::new((7, 1), purpose, 1001);
            assert_eq!(from_start.next(), later.next(), "{purpose:?}");
        }
    }
}
