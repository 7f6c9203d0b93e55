//! Blocks of the capture file.
//!
//! Source: PCAP Next Generation Capture File Format, draft-ietf-opsawg-pcapng.

use super::sequence::{FORWARD, Record};

/// Block types.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Options that every block may have.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;

/// Options of the section header.
const OPERATING_SYSTEM: u16 = 3;
const APPLICATION: u16 = 4;

/// Options of an interface description.
const NAME: u16 = 2;
const DESCRIPTION: u16 = 3;
const TIME_RESOLUTION: u16 = 9;

/// Options of an enhanced packet.
const FLAGS: u16 = 2;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Options of interface statistics.
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;

/// `LINKTYPE_RAW`: a packet begins with its IP header.
const RAW: u16 = 101;

/// Resolution of time stamps: nanoseconds.
const NANOSECONDS: u8 = 9;

/// Appends a block to `output`: its type, its body with options at the end, and its length before and after.
fn block(output: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = output.len();
    output.extend(kind.to_ne_bytes());
    output.extend([0; 4]);
    body(output);
    option(output, END_OF_OPTIONS, &[]);
    let length = (output.len() - begin + 4) as u32;
    output[begin + 4..begin + 8].copy_from_slice(&length.to_ne_bytes());
    output.extend(length.to_ne_bytes());
}

fn pad(output: &mut Vec<u8>, length: usize) {
    output.resize(output.len() + length.next_multiple_of(4) - length, 0);
}

fn option(output: &mut Vec<u8>, code: u16, value: &[u8]) {
    // A text that does not fit is none of those that are written here.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    output.extend(code.to_ne_bytes());
    output.extend((value.len() as u16).to_ne_bytes());
    output.extend(value);
    pad(output, value.len());
}

/// Appends a time stamp in two halves, the higher one first.
fn time(output: &mut Vec<u8>, unix_ns: u64) {
    output.extend(((unix_ns >> 32) as u32).to_ne_bytes());
    output.extend((unix_ns as u32).to_ne_bytes());
}

/// Appends the section header, with which a file begins.
pub(super) fn section_header(output: &mut Vec<u8>, comment: &str, system: &str) {
    const BYTE_ORDER: u32 = 0x1a2b_3c4d;
    const VERSION: [u16; 2] = [1, 0];
    const UNKNOWN_LENGTH: u64 = u64::MAX;
    block(output, SECTION_HEADER, |output| {
        output.extend(BYTE_ORDER.to_ne_bytes());
        VERSION
            .iter()
            .for_each(|part| output.extend(part.to_ne_bytes()));
        output.extend(UNKNOWN_LENGTH.to_ne_bytes());
        option(output, COMMENT, comment.as_bytes());
        option(output, OPERATING_SYSTEM, system.as_bytes());
        let version = concat!("Regatta ", env!("CARGO_PKG_VERSION"));
        option(output, APPLICATION, version.as_bytes());
    });
}

/// Appends the description of an interface; they are numbered in the order in which they are
/// described. A `snap_bytes` of 0 is no limit.
pub(super) fn interface(output: &mut Vec<u8>, name: &str, description: &str, snap_bytes: u32) {
    block(output, INTERFACE_DESCRIPTION, |output| {
        output.extend(RAW.to_ne_bytes());
        output.extend([0; 2]);
        output.extend(snap_bytes.to_ne_bytes());
        option(output, NAME, name.as_bytes());
        option(output, DESCRIPTION, description.as_bytes());
        option(output, TIME_RESOLUTION, &[NANOSECONDS]);
    });
}

/// Appends a packet; `unix_ns` is its time since the Unix epoch.
pub(super) fn packet(output: &mut Vec<u8>, record: &Record, unix_ns: u64) {
    block(output, ENHANCED_PACKET, |output| {
        output.extend(u32::from(record.packet.direction).to_ne_bytes());
        time(output, unix_ns);
        output.extend((record.bytes.len() as u32).to_ne_bytes());
        output.extend(record.packet.size.to_ne_bytes());
        output.extend(&record.bytes);
        pad(output, record.bytes.len());
        let flags = match record.packet.direction {
            FORWARD => OUTBOUND,
            _ => INBOUND,
        };
        option(output, FLAGS, &flags.to_ne_bytes());
        option(output, COMMENT, record.comment.as_bytes());
    });
}

/// Appends a block with the counters of an interface: packets that arrived (`received`), and those
/// of them that are not in the file (`dropped`).
pub(super) fn statistics(
    output: &mut Vec<u8>,
    interface: u32,
    unix_ns: u64,
    received: u64,
    dropped: u64,
) {
    block(output, INTERFACE_STATISTICS, |output| {
        output.extend(interface.to_ne_bytes());
        time(output, unix_ns);
        option(output, RECEIVED, &received.to_ne_bytes());
        option(output, DROPPED, &dropped.to_ne_bytes());
    });
}
