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
    /// Own deviations are of Student's t with three degrees of freedom.
    HeavyTails,
    /// Round effects, which all cells share, are autoregressive.
    SharedAr1,
    /// The machine drifts from trial to trial, with an autocorrelation of 0.95; the order of a round is random.
    DriftingMachine,
    /// A neighbour slows the machine by 25 % for a tenth to a half of the run; the order of a round is random.
    BusyMachine,
    /// Own deviations of each cell are autoregressive, with an autocorrelation of 0.3.
    OwnAr1Weak,
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

/// Returns the effects of the machine on the cells of a run, by round and cell.
pub fn machine_effects(
    rng: &mut Rng,
    kind: Kind,
    rounds: usize,
    [conditions, transports]: [usize; 2],
) -> Vec<Vec<f64>> {
    let cells = conditions * transports;
    let by_slot = match kind {
        Kind::DriftingMachine => rng.series(rounds * cells, 0.95),
        Kind::BusyMachine => {
            let slots = (rounds * cells) as f64;
            let begin = rng.unit() * slots;
            let end = begin + (0.1 + 0.4 * rng.unit()) * slots;
            let is_busy = |slot: usize| (begin..end).contains(&(slot as f64));
            let slowed = |slot: usize| if is_busy(slot) { -0.25 / ROUND } else { 0.0 };
            (0..rounds * cells).map(slowed).collect()
        }
        _ => {
            let rho = if kind == Kind::SharedAr1 { RHO } else { 0.0 };
            let mut effects = rng.series(rounds, rho);
            let mut by_condition = Vec::new();
            for _ in 0..conditions {
                // A machine that drifts does so under every condition.
                if kind != Kind::SharedAr1 {
                    effects = rng.series(rounds, rho);
                }
                by_condition.push(effects.clone());
            }
            let of_round = |round: usize| {
                let of = by_condition.iter().map(move |effects| effects[round]);
                of.flat_map(|effect| vec![effect; transports]).collect()
            };
            return (0..rounds).map(of_round).collect();
        }
    };
    let mut rounds = Vec::from_iter(by_slot.chunks(cells).map(<[f64]>::to_vec));
    for round in &mut rounds {
        for position in (1..round.len()).rev() {
            round.swap(position, (rng.unit() * (position + 1) as f64) as usize);
        }
    }
    rounds
}

/// Returns logarithms of one metric of a cell by round, about `level`, with all spreads times `scale`; another scale than 1 gives all
/// transports the spread of the machine's effects; `None` where the trial is missing.
pub fn cell_values(
    rng: &mut Rng,
    kind: Kind,
    (transport, level, scale): (usize, f64, f64),
    machine: &[f64],
) -> Vec<Option<f64>> {
    let own_rho = match kind {
        Kind::OwnAr1 => RHO,
        Kind::OwnAr1Weak => 0.3,
        _ => 0.0,
    };
    let own = rng.series(machine.len(), own_rho);
    (own.iter().zip(machine))
        .map(|(own, machine)| {
            let spread = if scale == 1.0 {
                spread(kind, transport)
            } else {
                ROUND
            };
            let own_log = match kind {
                Kind::Bimodal => (if rng.unit() < 0.5 { 0.1 } else { -0.1 }) + 0.04 * own,
                Kind::HeavyTails => {
                    let squares = [rng.normal(), rng.normal(), rng.normal()].map(|it| it * it);
                    // Of variance 3, scaled to 1.
                    spread * own / squares.iter().sum::<f64>().sqrt()
                }
                _ => spread * own,
            };
            let missing = match kind {
                Kind::MissingByRound => transport == 0 && *machine < 0.0 && rng.unit() < 0.7,
                Kind::MissingByTrial => *own < -0.4 && rng.unit() < 0.5,
                _ => false,
            };
            (!missing).then_some(level + scale * (ROUND * machine + own_log))
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
