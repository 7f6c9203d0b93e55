//! Sets of numbers, for example of the messages that have arrived.

/// A set of numbers, one bit for each.
#[derive(Debug, Default)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    /// Adds a number; returns false if it was in the set already.
    pub(crate) fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    /// Whether a number is in the set.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let word = self.0.get((number / 64) as usize);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Counts the marked numbers below `end`.
    pub(crate) fn count_below(&self, end: u64) -> u64 {
        let whole = usize::try_from(end / 64).unwrap_or(usize::MAX);
        let rest = (1 << (end % 64)) - 1;
        let ones = |word: u64| u64::from(word.count_ones());
        let before: u64 = self.0.iter().take(whole).map(|word| ones(*word)).sum();
        before + self.0.get(whole).map_or(0, |word| ones(word & rest))
    }
}
