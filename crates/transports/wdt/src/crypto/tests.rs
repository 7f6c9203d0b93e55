//! Sealed bytes open again however they are cut into pieces, and no other bytes do.

use proptest::prelude::*;

use super::*;

fn secret(cipher: Cipher, iv_change_bytes: u64) -> Secret {
    Secret {
        cipher,
        key: Key::new(*b"0123456789abcdef"),
        iv_change_bytes,
    }
}

/// Opens a stream that arrives in pieces, like a reader of all available bytes.
fn open_all(
    open: &mut Open,
    wire: &[u8],
    pieces: &[usize],
    plain_bytes: usize,
) -> Result<(Vec<u8>, bool), CryptoError> {
    let mut plain = Vec::new();
    let mut wire = wire.to_vec();
    let mut rest = &mut wire[..];
    let mut ended = false;
    let mut pieces = pieces.iter().cycle();
    while !rest.is_empty() {
        let cut = (*pieces.next().unwrap_or(&1)).clamp(1, rest.len());
        let (piece, after) = rest.split_at_mut(cut);
        rest = after;
        let mut at = 0;
        while at < piece.len() {
            let want = plain_bytes - plain.len();
            if want == 0 {
                ended = open.finish(piece, &mut at)?;
                assert!(at == piece.len() || !ended, "nothing follows the last tag");
                break;
            }
            plain.extend_from_slice(open.open(piece, &mut at, want)?);
        }
    }
    Ok((plain, ended))
}

#[test]
fn the_key_is_not_shown() {
    let shown = format!("{:?}", secret(Cipher::Aes128Gcm, 0));
    assert!(!shown.contains("48") && !shown.contains("0123"), "{shown}");
}

#[test]
fn plain_bytes_are_refused_where_encryption_is_required() {
    let mut open = Open::new(Some(&secret(Cipher::Aes128Ctr, 0)));
    assert_eq!(
        open.open(&mut b"S ".to_vec(), &mut 0, 2),
        Err(CryptoError::Plaintext)
    );
    let mut wire = Vec::new();
    let mut seal = Seal::new(Some(&secret(Cipher::Aes128Ctr, 0)), 0).unwrap();
    seal.seal(b"hello", &mut wire).unwrap();
    let mut open = Open::new(Some(&secret(Cipher::Aes128Gcm, 0)));
    assert_eq!(open.open(&mut wire, &mut 0, 5), Err(CryptoError::Prologue));
}

#[test]
fn wrong_key_fails_at_the_first_tag() {
    let mut wire = Vec::new();
    let mut seal = Seal::new(Some(&secret(Cipher::Aes128Gcm, 0)), 4).unwrap();
    seal.seal(b"hello", &mut wire).unwrap();
    let other = Secret {
        key: Key::new([7; 16]),
        ..secret(Cipher::Aes128Gcm, 0)
    };
    let mut open = Open::new(Some(&other));
    assert_eq!(open_all(&mut open, &wire, &[100], 5), Err(CryptoError::Tag));
}

proptest! {
    #[test]
    fn sealed_streams_round_trip_in_any_pieces(
        cipher in proptest::sample::select(vec![Cipher::Aes128Ctr, Cipher::Aes128Gcm]),
        interval in 0_u32..50,
        iv_change in 0_u64..150,
        written in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..20),
        pieces in proptest::collection::vec(1_usize..60, 1..20),
    ) {
        let secret = secret(cipher, iv_change);
        let mut seal = Seal::new(Some(&secret), interval).unwrap();
        let mut wire = Vec::new();
        for plain in &written {
            seal.seal(plain, &mut wire).unwrap();
        }
        seal.finish(&mut wire).unwrap();
        let plain = written.concat();
        let mut open = Open::new(Some(&secret));
        let (opened, ended) = open_all(&mut open, &wire, &pieces, plain.len()).unwrap();
        prop_assert_eq!(&opened, &plain);
        if cipher == Cipher::Aes128Gcm && !plain.is_empty() {
            prop_assert!(ended);
            prop_assert_eq!(open.verified(), plain.len() as u64);
        }
    }

    #[test]
    fn a_changed_byte_never_verifies(
        interval in 0_u32..50,
        plain in proptest::collection::vec(any::<u8>(), 1..300),
        at in any::<proptest::sample::Index>(),
        change in 1_u8..,
    ) {
        let secret = secret(Cipher::Aes128Gcm, 0);
        let mut seal = Seal::new(Some(&secret), interval).unwrap();
        let mut wire = Vec::new();
        seal.seal(&plain, &mut wire).unwrap();
        seal.finish(&mut wire).unwrap();
        let at = at.index(wire.len());
        // The interval is the one thing in clear that no tag covers.
        prop_assume!(!(PROLOGUE_BYTES - 4..PROLOGUE_BYTES).contains(&at));
        // Of the sixteen bytes of the IV, GCM takes twelve.
        prop_assume!(!(3 + 12..PROLOGUE_BYTES).contains(&at));
        wire[at] ^= change;
        let mut open = Open::new(Some(&secret));
        prop_assert!(open_all(&mut open, &wire, &[1000], plain.len()).is_err());
    }
}
