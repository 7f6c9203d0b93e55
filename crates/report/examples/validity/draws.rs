//! Synthetic values of trials, whose true differences are known.

/// Standard deviation of the logarithms' component that all cells of a round share.
const ROUND: f64 = 0.06;

/// Lag-1 autocorrelation of the autoregressive series.
const RHO: f64 = 0.5;

/// Model of a run's random values. Every value is the exponential of a level, a round's effect and
/// the trial's own deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Normal logarithms; transports differ in their spread.
    LogNormal,
    /// Two modes, 20 % apart, each with a spread of 4 %.
    Bimodal,
    /// Round effects, which all cells share, are autoregressive: the machine drifts.
    SharedAr1,
    /// Own deviations of each cell are autoregressive.
    OwnAr1,
    /// The first transport loses the trials of most slow rounds.
    MissingByRound,
    /// Every transport loses half of its own slow trials; all have the same spread.
    MissingByTrial,
}

/// Small generator with a fixed seed, so that tables do not change with a library.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of SplitMix64, scaled to 0..1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a standard normal number, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns a stationary series of standard deviation 1.
    fn series(&mut self, n: usize, rho: f64) -> Vec<f64> {
        let mut value = self.normal();
        (0..n)
            .map(|_| {
                let drawn = value;
                value = rho * value + (1.0 - rho * rho).sqrt() * self.normal();
                drawn
            })
            .collect()
    }
}

/// Returns the standard deviation of a transport's own deviations.
fn spread(kind: Kind, transport: usize) -> f64 {
    match kind {
        Kind::MissingByTrial => 0.03,
        _ => 0.02 + 0.01 * (transport % 4) as f64,
    }
}

/// Returns the effects of the rounds on all cells, of standard deviation 1.
pub fn round_effects(rng: &mut Rng, kind: Kind, rounds: usize) -> Vec<f64> {
    rng.series(rounds, if kind == Kind::SharedAr1 { RHO } else { 0.0 })
}

/// Returns logarithms of one metric under one condition, by transport and round; `None` where the trial is
/// missing. `levels` are their means.
pub fn condition_values(
    rng: &mut Rng,
    kind: Kind,
    levels: &[f64],
    round: &[f64],
) -> Vec<Vec<Option<f64>>> {
    let own_rho = if kind == Kind::OwnAr1 { RHO } else { 0.0 };
    (levels.iter().enumerate())
        .map(|(transport, level)| {
            let own = rng.series(round.len(), own_rho);
            (own.iter().zip(round))
                .map(|(own, round)| {
                    let spread = spread(kind, transport);
                    let own_log = match kind {
                        Kind::Bimodal => (if rng.unit() < 0.5 { 0.1 } else { -0.1 }) + 0.04 * own,
                        _ => spread * own,
                    };
                    let missing = match kind {
                        Kind::MissingByRound => transport == 0 && *round < 0.0 && rng.unit() < 0.7,
                        Kind::MissingByTrial => *own < -0.4 && rng.unit() < 0.5,
                        _ => false,
                    };
                    (!missing).then_some(level + ROUND * round + own_log)
                })
                .collect()
        })
        .collect()
}

/// Returns the mean of the exponential of a value at level 0, without missing trials.
pub fn arithmetic_mean(kind: Kind, transport: usize) -> f64 {
    let normal = |sd: f64| (sd * sd / 2.0).exp();
    let own = match kind {
        Kind::Bimodal => 0.1_f64.cosh() * normal(0.04),
        _ => normal(spread(kind, transport)),
    };
    own * normal(ROUND)
}
