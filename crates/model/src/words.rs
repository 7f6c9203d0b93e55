//! Values that studies and options of the command line name by words.

/// Value that has a word in studies and options.
pub trait Words: Copy + PartialEq + 'static {
    /// Words with their values, in the order of messages.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the word for this value.
    #[must_use]
    fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(_, value)| *value == self);
        known.map_or("", |(word, _)| word)
    }
}

/// Defines the words of an enumeration.
macro_rules! words {
    ($type:ty: $($word:literal => $variant:ident),+) => {
        impl crate::words::Words for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }
    };
}
pub(crate) use words;
