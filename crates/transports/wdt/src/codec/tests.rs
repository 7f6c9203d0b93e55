//! Every message survives encoding and decoding, a prefix of it is reported as incomplete, and no
//! input causes a panic.

use proptest::prelude::*;

use super::number::{Fields, put_uvar, put_zvar};
use super::*;
use crate::path::RelativePath;

fn uvar(bytes: &[u8]) -> Option<u64> {
    Fields::new(bytes).uvar().ok()
}

#[test]
fn numbers_are_encoded_as_in_the_protocol() {
    for (value, bytes) in [
        (0, &[0][..]),
        (127, &[0x7f]),
        (128, &[0x80, 1]),
        (300, &[0xac, 2]),
        (u64::MAX, &[0xff; 9]),
        (
            1 << 63,
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
        ),
        (
            i64::MAX as u64,
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
    ] {
        let mut out = Vec::new();
        put_uvar(&mut out, value);
        assert_eq!(out, bytes, "{value}");
        assert_eq!(uvar(bytes), Some(value));
    }
    let mut out = Vec::new();
    put_zvar(&mut out, -2);
    assert_eq!(out, [3]);
}

#[test]
fn the_footer_is_crc_32c_from_zero_and_not_inverted() {
    assert_eq!(footer(0, b""), 0);
    // The usual CRC-32C of `123456789` is 0xe3069283; the register here begins at zero instead of
    // ones, so it is computed bit by bit.
    let mut register = 0_u32;
    for byte in b"123456789" {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = register >> 1 ^ if register & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    assert_eq!(footer(0, b"123456789"), register);
    assert_eq!(footer(footer(0, b"1234"), b"56789"), register);
}

fn number() -> impl Strategy<Value = u64> {
    (0_u32..63, any::<u64>()).prop_map(|(bits, value)| (value & i64::MAX as u64) >> bits)
}

fn path() -> impl Strategy<Value = RelativePath> {
    proptest::collection::vec("[a-zA-Zö☃ ]{1,40}", 1..6)
        .prop_map(|names| RelativePath::new(names.join("/").as_bytes()).unwrap())
}

fn command() -> impl Strategy<Value = Command> {
    let settings = (
        0..=i32::MAX as u32,
        1..=i32::MAX as u32,
        1..=i32::MAX as u32,
        proptest::collection::vec(any::<u8>(), 0..=MAX_TRANSFER_ID_BYTES),
        any::<[bool; 4]>(),
    )
        .prop_map(
            |(version, read_timeout_ms, write_timeout_ms, transfer_id, flags)| {
                Command::Settings(Settings {
                    version,
                    read_timeout_ms,
                    write_timeout_ms,
                    transfer_id,
                    checksum: flags[0],
                    request_chunks: flags[1],
                    whole_files: flags[2],
                    heartbeats: flags[3],
                })
            },
        );
    let allocation = prop_oneof![
        Just(Allocation::New),
        Just(Allocation::Exists),
        Just(Allocation::Delete),
        number().prop_map(Allocation::TooLarge),
        number().prop_map(Allocation::TooSmall),
    ];
    let file = (
        any::<u8>(),
        path(),
        number(),
        number(),
        number(),
        allocation,
    )
        .prop_map(|(status, path, sequence, a, b, allocation)| {
            let (offset, length) = (a / 2, b / 2);
            let file_size = offset + length;
            Command::File(FileHeader {
                status,
                path,
                sequence,
                length,
                offset,
                file_size,
                allocation,
            })
        });
    prop_oneof![
        settings,
        number().prop_map(Command::Size),
        file,
        any::<u32>().prop_map(Command::Footer),
        Just(Command::Ack),
        (any::<u8>(), number(), number()).prop_map(|(status, blocks, bytes)| Command::Done(Done {
            status,
            blocks,
            bytes
        })),
    ]
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    (any::<u16>(), number(), number(), number(), number()).prop_map(
        |(port, blocks, partial_bytes, partial_sequence, partial_offset)| Checkpoint {
            port,
            blocks,
            partial_bytes,
            partial_sequence,
            partial_offset,
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        Just(Reply::Wait),
        Just(Reply::Heartbeat),
        Just(Reply::Ack),
        number().prop_map(|files| Reply::Chunks { files }),
        proptest::collection::vec(checkpoint(), 0..64).prop_map(Reply::Errors),
        (0..=i32::MAX as u32, any::<u8>(), number()).prop_map(|(version, code, blocks)| {
            Reply::Abort(Abort {
                version,
                code,
                blocks,
            })
        }),
        checkpoint().prop_map(Reply::LocalCheckpoint),
    ]
}

/// Decodes like a reader of a stream: with only as many bytes as [`Decoded::Needs`] has.
fn by_need<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<Decoded<T>, Malformed>) -> (T, usize) {
    let mut held = 0;
    loop {
        match decode(&bytes[..held]).unwrap() {
            Decoded::Whole { value, length } => {
                assert_eq!(length, held, "not a byte too many was asked for");
                return (value, length);
            }
            Decoded::Needs(more) => {
                assert!(
                    more > 0 && held + more <= bytes.len(),
                    "what is asked for is there"
                );
                held += more;
            }
        }
    }
}

proptest! {
    #[test]
    fn commands_round_trip(command in command(), after in any::<[u8; 8]>()) {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        let length = bytes.len();
        prop_assert_eq!(by_need(&bytes, Command::decode), (command.clone(), length));
        bytes.extend_from_slice(&after);
        let whole = Decoded::Whole { value: command, length };
        prop_assert_eq!(Command::decode(&bytes).unwrap(), whole);
    }

    #[test]
    fn replies_round_trip(reply in reply(), after in any::<[u8; 8]>()) {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        let length = bytes.len();
        prop_assert_eq!(by_need(&bytes, Reply::decode), (reply.clone(), length));
        bytes.extend_from_slice(&after);
        prop_assert_eq!(Reply::decode(&bytes).unwrap(), Decoded::Whole { value: reply, length });
    }

    #[test]
    fn decoding_any_bytes_does_not_panic(
        first in prop_oneof![any::<u8>(), proptest::sample::select(b"SZLFDWHEACa\x01e".to_vec())],
        rest in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let bytes: Vec<u8> = std::iter::once(first).chain(rest).collect();
        if let Ok(Decoded::Whole { length, .. }) = Command::decode(&bytes) {
            prop_assert!(length <= bytes.len());
        }
        if let Ok(Decoded::Whole { length, .. }) = Reply::decode(&bytes) {
            prop_assert!(length <= bytes.len());
        }
    }
}

#[test]
fn chunks_round_trip_in_frames_of_one_buffer() {
    let path = |index: u64| RelativePath::new(format!("d/{index}").as_bytes()).unwrap();
    let file = |index: u64| FileChunks {
        sequence: index,
        path: path(index),
        size: 1 << 40,
        chunks: (0..100)
            .map(|chunk| (chunk * 1000, chunk * 1000 + 500))
            .collect(),
    };
    let files: Vec<_> = (0..2000).map(file).collect();
    let mut wire = Vec::new();
    encode_frames(&files, &mut wire);
    let (mut read, mut at, mut frames) = (Vec::new(), 0, 0);
    while at < wire.len() {
        let (frame, length) = by_need(&wire[at..], decode_frame);
        assert!(length <= FRAME_BYTES);
        read.extend(frame);
        at += length;
        frames += 1;
    }
    assert!(read == files && frames > 1);
    let mut overlapping = Vec::new();
    let chunks = vec![(0, 10), (5, 20)];
    encode_frames(&[FileChunks { chunks, ..file(1) }], &mut overlapping);
    assert_eq!(
        decode_frame(&overlapping),
        Err(Malformed::OutOfRange("a chunk"))
    );
}
