//! Impairments of each packet, drawn when the packet is offered.

use std::collections::VecDeque;

use regatta_model::{Impairment, Link, PacketCounter};

use crate::rng::{Chance, LinkRng, Purpose};

/// The packet is lost in a burst, or by the list. The lower bits are those of [`bit`].
const BURST: u64 = 1 << 62;
const LIST: u64 = 1 << 63;
const LOSS: u64 = bit(Impairment::Loss);

/// Returns the bit of an impairment.
pub(crate) const fn bit(impairment: Impairment) -> u64 {
    1 << impairment as u32
}

/// Impairments drawn for one packet: two words, which stay in registers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PacketImpairments {
    flags: u64,
    /// Random number from which the packet's propagation delay is drawn.
    pub(crate) delay_draw: u64,
}

impl PacketImpairments {
    /// Returns the cause of the packet's loss on the wire, if it is lost. Where several causes
    /// apply, the list comes first, then bursts, then loss at random.
    #[inline]
    pub(crate) fn lost(self) -> Option<PacketCounter> {
        match self.flags & (LOSS | BURST | LIST) {
            0 => None,
            flags if flags & LIST != 0 => Some(PacketCounter::List),
            flags if flags & BURST != 0 => Some(PacketCounter::Burst),
            _ => Some(PacketCounter::Loss),
        }
    }

    /// Whether the packet has this impairment.
    #[inline]
    pub(crate) const fn has(self, impairment: Impairment) -> bool {
        self.flags & bit(impairment) != 0
    }
}

/// Stream of draws with the probability that they decide.
#[derive(Debug, Clone)]
struct Trial {
    chance: Chance,
    draws: LinkRng,
}

impl Trial {
    #[inline]
    fn hits(&mut self) -> bool {
        self.chance.hits(self.draws.next())
    }
}

/// Markov chain of losses in bursts.
#[derive(Debug, Clone)]
struct Bursts {
    draws: LinkRng,
    /// Probabilities of loss and of a change of state, in the good state and in the bad one.
    states: [(Chance, Chance); 2],
    bad: bool,
}

impl Bursts {
    fn loses(&mut self) -> bool {
        let (loss, change) = self.states[usize::from(self.bad)];
        let lost = loss.hits(self.draws.next());
        self.bad ^= change.hits(self.draws.next());
        lost
    }
}

/// Impairments that few links ask for; a link with none of them pays for one comparison.
#[derive(Debug, Clone)]
struct Rare {
    bursts: Option<Bursts>,
    /// Ordinals of the packets still to lose, from 0, rising.
    list: VecDeque<u64>,
    /// Those of [`Impairment::ALL`] but the loss, which many links have.
    trials: [Option<Trial>; Impairment::ALL.len()],
    /// Draw of the bit to flip in the last packet, if one is to be flipped.
    flipped: u64,
}

/// Random number generators of the impairments of one direction of a path.
///
/// The n-th packet offered to the link gets the n-th number of each generator, whatever the queue did to it or to
/// earlier packets, and whatever settings applied to those.
#[derive(Debug, Clone)]
pub(crate) struct ImpairmentRng {
    loss: Option<Trial>,
    jitter: Option<LinkRng>,
    rare: Option<Box<Rare>>,
}

impl ImpairmentRng {
    /// Creates the draws for a link's packets from `ordinal` on. A chain of bursts goes on in the
    /// state that it had in `before`.
    pub(crate) fn new(link: &Link, seed: (u64, u64), ordinal: u64, before: Option<&Self>) -> Self {
        let draws = |purpose| LinkRng::new(seed, purpose, ordinal);
        let trial = |impairment: Impairment| {
            let ratio = impairment.of(link).0;
            (ratio > 0.0).then(|| Trial {
                chance: Chance::new(ratio),
                draws: draws(Purpose::Impairment(impairment)),
            })
        };
        let bursts = link.loss_bursts.map(|settings| Bursts {
            draws: draws(Purpose::Bursts),
            states: [
                (settings.good_loss_ratio, settings.to_bad_ratio),
                (settings.bad_loss_ratio, settings.to_good_ratio),
            ]
            .map(|(loss, change)| (Chance::new(loss.0), Chance::new(change.0))),
            bad: before
                .and_then(|before| before.rare.as_ref()?.bursts.as_ref())
                .is_some_and(|bursts| bursts.bad),
        });
        let list: VecDeque<u64> = link
            .loss_list
            .iter()
            .filter_map(|position| position.checked_sub(1))
            .filter(|position| *position >= ordinal)
            .collect();
        let rare = Rare {
            bursts,
            list,
            trials: Impairment::ALL.map(|it| match it {
                Impairment::Loss => None,
                it => trial(it),
            }),
            flipped: 0,
        };
        let has_rare = rare.bursts.is_some()
            || !rare.list.is_empty()
            || rare.trials.iter().any(Option::is_some);
        Self {
            loss: trial(Impairment::Loss),
            jitter: (!link.jitter.is_zero() && link.jitter_span().is_none())
                .then(|| draws(Purpose::Jitter)),
            rare: has_rare.then(|| Box::new(rare)),
        }
    }

    /// Draws the impairments of the next packet, which has this ordinal.
    #[inline]
    pub(crate) fn next(&mut self, ordinal: u64) -> PacketImpairments {
        let mut impairments = PacketImpairments::default();
        if self.loss.as_mut().is_some_and(Trial::hits) {
            impairments.flags = LOSS;
        }
        if let Some(draws) = &mut self.jitter {
            impairments.delay_draw = draws.next();
        }
        if let Some(rare) = &mut self.rare {
            rare.add(ordinal, &mut impairments);
        }
        impairments
    }

    /// Returns the random number that selects the bit to flip in the packet of the last call of [`Self::next`].
    #[cold]
    pub(crate) fn flipped_bit(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.flipped)
    }
}

impl Rare {
    #[cold]
    fn add(&mut self, ordinal: u64, impairments: &mut PacketImpairments) {
        let is_listed = self.list.pop_front_if(|next| *next == ordinal).is_some();
        let flag = |flag, hit| if hit { flag } else { 0 };
        impairments.flags |=
            flag(LIST, is_listed) | flag(BURST, self.bursts.as_mut().is_some_and(Bursts::loses));
        for (impairment, trial) in Impairment::ALL.into_iter().zip(&mut self.trials) {
            let Some(trial) = trial else { continue };
            impairments.flags |= flag(bit(impairment), trial.hits());
            if impairment == Impairment::Corruption {
                self.flipped = trial.draws.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{GilbertElliott, Ratio};

    use super::*;

    #[test]
    fn of_several_causes_the_list_comes_first_then_bursts() {
        let lost = |flags| {
            let impairments = PacketImpairments {
                flags,
                delay_draw: 0,
            };
            impairments.lost()
        };
        let [twice, skips, corrupted] = [
            Impairment::Duplication,
            Impairment::Reordering,
            Impairment::Corruption,
        ]
        .map(bit);
        assert_eq!(lost(LIST | BURST | LOSS | twice), Some(PacketCounter::List));
        assert_eq!(lost(BURST | LOSS | skips), Some(PacketCounter::Burst));
        assert_eq!(lost(LOSS | corrupted), Some(PacketCounter::Loss));
        assert_eq!(lost(twice | skips | corrupted), None);
    }

    /// The n-th packet has its impairments of the n-th draw, whether the draws began with it or with the first packet.
    #[test]
    fn impairments_belong_to_the_ordinal_of_a_packet() {
        let link = Link {
            corrupt_ratio: Ratio(0.5),
            loss_bursts: Some(GilbertElliott {
                to_bad_ratio: Ratio(0.0),
                to_good_ratio: Ratio(1.0),
                bad_loss_ratio: Ratio(1.0),
                good_loss_ratio: Ratio(0.5),
            }),
            ..Link::default()
        };
        let mut from_first = ImpairmentRng::new(&link, (7, 1), 0, None);
        for ordinal in 0..1000 {
            from_first.next(ordinal);
        }
        let mut from_here = ImpairmentRng::new(&link, (7, 1), 1000, None);
        for ordinal in 1000..1064 {
            let [a, b] = [&mut from_first, &mut from_here].map(|draws| {
                let flags = draws.next(ordinal).flags;
                (flags, draws.flipped_bit())
            });
            assert_eq!(a, b, "{ordinal}");
        }
    }
}
