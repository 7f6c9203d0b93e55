//! Comparison of secrets.

use std::hint::black_box;

/// Whether two secrets are equal. The time that this takes depends on their lengths alone, so that an attacker who measures
/// the time does not learn how many of the first bytes are right.
#[must_use]
pub fn is_same_secret(a: &[u8], b: &[u8]) -> bool {
    let differing = |differing, (a, b): (&u8, &u8)| black_box(differing | (a ^ b));
    a.len() == b.len() && a.iter().zip(b).fold(0, differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_equal_in_every_bit() {
        let secret = *b"0123456789abcdef";
        assert!(is_same_secret(&secret, &secret));
        assert!(is_same_secret(&[], &[]));
        assert!(!is_same_secret(&secret, &secret[..15]));
        for bit in 0..secret.len() * 8 {
            let mut other = secret;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_same_secret(&secret, &other), "bit {bit}");
        }
    }
}
