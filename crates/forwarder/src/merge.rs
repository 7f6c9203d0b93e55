//! Merging of TCP segments that are due together into one packet for the receiving kernel, as a network card's driver
//! does it (generic receive offload).
//!
//! The kernel handles them as one, and wakes their receiver once. Headers are merged as Linux does it: segments of one
//! connection, in order, of one length but for the last, whose headers differ in nothing but the place in the stream.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    ops::Range,
};

use crate::{
    HEADER_BYTES,
    corruption::{NEEDS_CHECKSUM, internet_sum, native},
};

/// Maximum number of segments in one packet: as many full ones as fit in 64 KiB.
const MAX_SEGMENTS: usize = 44;

/// Maximum number of frames among which segments of one connection are looked for.
pub(crate) const WINDOW: usize = u128::BITS as usize;

/// Bytes of an IPv4 header without options, the only kind that is merged.
const IP_BYTES: usize = 20;

/// Largest headers: the device's, IP's and TCP's with all options.
const MAX_HEADER_BYTES: usize = HEADER_BYTES + IP_BYTES + 60;

/// Largest IP packet.
const MAX_BYTES: usize = 65_535;

/// Places in a frame as the device gives it.
const IP: usize = HEADER_BYTES;
const TCP: usize = HEADER_BYTES + IP_BYTES;

/// Fields of `struct virtio_net_hdr` (Virtual I/O Device 1.2, 5.1.6): the checksum that is left to the device covers what
/// follows byte 20, with its place 16 bytes on; the packet stands for several of TCP over IPv4.
const TCP_OVER_IPV4: u8 = 1;
const CHECKSUM_OFFSET: u16 = 16;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// TCP segment in a frame as the device gives it.
#[derive(Clone, Copy)]
struct Segment<'a> {
    frame: &'a [u8],
    /// Bytes before the payload.
    headers: usize,
    sequence: u32,
}

impl<'a> Segment<'a> {
    /// Parses a frame; `None` if it is no TCP segment that can be merged: one over IPv4 without options and
    /// fragments, whose checksum is left to the device, with a payload, and with no flag but ACK and PSH.
    fn parse(frame: &'a [u8]) -> Option<Self> {
        let offset = usize::from(*frame.get(TCP + 12)? >> 4) * 4;
        let headers = TCP + offset;
        let is_plain = frame[0] == NEEDS_CHECKSUM
            && frame[1] == 0
            && native(frame, 6) == IP_BYTES as u16
            && native(frame, 8) == CHECKSUM_OFFSET
            && is_tcp(frame)
            && usize::from(big(frame, IP + 2)) == frame.len() - IP
            && offset >= 20
            && frame.len() > headers
            && frame[TCP + 13] & !PSH == ACK;
        is_plain.then(|| Self {
            frame,
            headers,
            sequence: u32::from_be_bytes([4, 5, 6, 7].map(|at| frame[TCP + at])),
        })
    }

    fn payload(&self) -> &'a [u8] {
        &self.frame[self.headers..]
    }

    fn is_pushed(&self) -> bool {
        self.frame[TCP + 13] & PSH != 0
    }

    /// Whether a frame is TCP over IPv4 without options and fragments, of another connection.
    fn is_of_another(&self, frame: &[u8]) -> bool {
        let connection = IP + 12..TCP + 4;
        frame.len() >= connection.end
            && is_tcp(frame)
            && frame[connection.clone()] != self.frame[connection]
    }

    /// Whether `other` belongs to the same connection and its headers say the same but for the place in the stream:
    /// all but length, identification and checksums.
    fn is_like(&self, other: &Self) -> bool {
        let same = |range: Range<usize>| self.frame[range.clone()] == other.frame[range];
        self.headers == other.headers
            && same(IP..IP + 2)
            && same(IP + 6..IP + 10)
            && same(IP + 12..TCP + 4)
            && same(TCP + 8..TCP + 13)
            && same(TCP + 14..TCP + 16)
            && same(TCP + 18..self.headers)
    }
}

/// Whether a frame, of at least an IP header, is TCP over IPv4 without options and fragments.
fn is_tcp(frame: &[u8]) -> bool {
    frame[IP] == 0x45
        && big(frame, IP + 6) & 0x3fff == 0
        && frame[IP + 9] == libc::IPPROTO_TCP as u8
}

/// Returns which of the first [`WINDOW`] of `frames` can be merged into one packet, as bits: the first, and what follows
/// it in its connection. Segments of other connections may stand in between.
pub(crate) fn mergeable<'a>(frames: impl Iterator<Item = &'a [u8]>) -> u128 {
    let mut frames = frames.take(WINDOW);
    let mut which: u128 = 1;
    let Some(first) = frames.next().and_then(Segment::parse) else {
        return which;
    };
    let size = first.payload().len();
    let mut bytes = first.frame.len() - IP;
    let mut last = first;
    for (position, frame) in (1..).zip(frames) {
        if last.is_pushed()
            || last.payload().len() < size
            || which.count_ones() as usize == MAX_SEGMENTS
        {
            break;
        }
        if first.is_of_another(frame) {
            continue;
        }
        let follows = |next: &Segment<'_>| {
            next.payload().len() <= size
                && next.sequence == last.sequence.wrapping_add(size as u32)
                && bytes + next.payload().len() <= MAX_BYTES
                && first.is_like(next)
        };
        let Some(next) = Segment::parse(frame).filter(follows) else {
            break;
        };
        bytes += next.payload().len();
        last = next;
        which |= 1 << position;
    }
    which
}

/// Writes frames that are [mergeable] to a device as one packet.
pub(crate) fn write<'a>(
    mut device: &File,
    frames: impl Iterator<Item = &'a [u8]>,
) -> io::Result<()> {
    let mut segments = frames.filter_map(Segment::parse);
    let Some(first) = segments.next() else {
        return Ok(());
    };
    let mut payloads = [IoSlice::new(&[]); MAX_SEGMENTS + 1];
    payloads[1] = IoSlice::new(first.payload());
    let mut count = 2;
    let mut bytes = first.frame.len() - IP;
    let mut last = first;
    for (segment, payload) in segments.zip(&mut payloads[2..]) {
        *payload = IoSlice::new(segment.payload());
        count += 1;
        bytes += segment.payload().len();
        last = segment;
    }
    let headers = headers(&first, last.is_pushed(), bytes);
    payloads[0] = IoSlice::new(&headers[..first.headers]);
    device.write_vectored(&payloads[..count]).map(|_| ())
}

/// Returns the headers of a packet of `bytes` that begins with the segment `first`.
fn headers(first: &Segment<'_>, is_pushed: bool, bytes: usize) -> [u8; MAX_HEADER_BYTES] {
    let mut headers = [0; MAX_HEADER_BYTES];
    headers[..first.headers].copy_from_slice(&first.frame[..first.headers]);
    headers[1] = TCP_OVER_IPV4;
    headers[2..4].copy_from_slice(&((first.headers - IP) as u16).to_ne_bytes());
    headers[4..6].copy_from_slice(&(first.payload().len() as u16).to_ne_bytes());
    headers[IP + 2..IP + 4].copy_from_slice(&(bytes as u16).to_be_bytes());
    headers[IP + 10..IP + 12].fill(0);
    let checksum = !internet_sum(&headers[IP..TCP]);
    headers[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
    if is_pushed {
        headers[TCP + 13] |= PSH;
    }
    // The device's part of the checksum is added to that of the pseudo-header: addresses, protocol, length.
    let mut pseudo = [0; 12];
    pseudo[..8].copy_from_slice(&headers[IP + 12..TCP]);
    pseudo[9] = libc::IPPROTO_TCP as u8;
    pseudo[10..].copy_from_slice(&((bytes - IP_BYTES) as u16).to_be_bytes());
    headers[TCP + 16..TCP + 18].copy_from_slice(&internet_sum(&pseudo).to_be_bytes());
    headers
}

fn big(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CHECKSUM: [u8; 2] = [0, 0];

    /// Makes the frame of a segment with 12 bytes of options, as a sending kernel does.
    fn segment(sequence: u32, payload: &[u8], flags: u8) -> Vec<u8> {
        let length = (20 + 32 + payload.len()) as u16;
        let field = u16::to_ne_bytes;
        let device = [
            &[NEEDS_CHECKSUM, 0][..],
            &field(0),
            &field(0),
            &field(20),
            &field(16),
        ];
        let mut ip = [
            &[0x45, 0][..],
            &length.to_be_bytes(),
            &(sequence as u16).to_be_bytes(),
            &[0x40, 0, 64, 6],
            &NO_CHECKSUM,
            &[10, 60, 0, 1, 10, 60, 0, 2],
        ]
        .concat();
        let checksum = !internet_sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let tcp = [
            &[0x9c, 0x40, 0x14, 0x51][..],
            &sequence.to_be_bytes(),
            &7_u32.to_be_bytes(),
            &[8 << 4, flags, 1, 0],
            &NO_CHECKSUM,
            &[0, 0],
            &[1; 12],
        ];
        [&device.concat()[..], &ip, &tcp.concat(), payload].concat()
    }

    fn which(frames: &[Vec<u8>]) -> u128 {
        mergeable(frames.iter().map(Vec::as_slice))
    }

    fn count(frames: &[Vec<u8>]) -> usize {
        which(frames).count_ones() as usize
    }

    #[test]
    fn consecutive_segments_are_one_packet() {
        let frames = [
            segment(u32::MAX - 99, &[1; 100], ACK),
            segment(0, &[2; 100], ACK),
            segment(100, &[3; 40], ACK | PSH),
        ];
        assert_eq!(count(&frames), 3);
        let mut path = std::env::temp_dir();
        path.push(format!("regatta-merge-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        write(&file, frames.iter().map(Vec::as_slice)).expect("a write");
        let written = std::fs::read(&path).expect("what was written");
        std::fs::remove_file(&path).expect("the file");

        let (headers, payload) = written.split_at(HEADER_BYTES + 52);
        assert_eq!(payload, [vec![1; 100], vec![2; 100], vec![3; 40]].concat());
        // Several segments of 100 bytes over IPv4, behind headers of 52.
        assert_eq!(headers[..2], [NEEDS_CHECKSUM, 1]);
        assert_eq!(
            [2, 4, 6, 8].map(|at| native(headers, at)),
            [52, 100, 20, 16]
        );
        assert_eq!(big(headers, IP + 2), 52 + 240);
        assert_eq!(internet_sum(&headers[IP..TCP]), 0xffff);
        assert_eq!(headers[TCP + 13], ACK | PSH);
        assert_eq!(headers[TCP + 4..TCP + 8], (u32::MAX - 99).to_be_bytes());
        // Addresses, protocol and length.
        let pseudo = [&[10, 60, 0, 1, 10, 60, 0, 2, 0, 6][..], &[1, 16]].concat();
        assert_eq!(big(headers, TCP + 16), internet_sum(&pseudo));
    }

    #[test]
    fn segments_of_other_connections_may_be_interleaved() {
        let segment_of = |port: u8, sequence, flags| {
            let mut segment = segment(sequence, &[port; 100], flags);
            segment[TCP + 1] = port;
            segment
        };
        let mut frames = vec![
            segment_of(1, 0, ACK),
            segment_of(2, 500, ACK),
            segment_of(1, 100, ACK),
            segment_of(2, 600, ACK | 1),
            segment_of(1, 200, ACK),
        ];
        assert_eq!(which(&frames), 0b10101);
        // The end of the connection follows the data before it.
        assert_eq!(which(&frames[1..]), 0b1);
        // A gap in the connection ends the packet, whatever comes later.
        frames[2] = segment_of(1, 300, ACK);
        frames.push(segment_of(1, 100, ACK));
        assert_eq!(which(&frames), 0b1);
        // A fragment may be of any connection.
        frames[2] = segment_of(1, 100, ACK);
        frames[1][IP + 6] |= 0x20;
        assert_eq!(which(&frames), 0b1);
    }

    #[test]
    fn a_segment_out_of_sequence_ends_the_packet() {
        let first = || segment(0, &[0; 100], ACK);
        let with = |second: Vec<u8>| count(&[first(), second]);
        assert_eq!(with(segment(100, &[0; 100], ACK)), 2);
        for (second, why) in [
            (segment(200, &[0; 100], ACK), "a gap"),
            (segment(0, &[0; 100], ACK), "a duplicate"),
            (segment(100, &[0; 101], ACK), "a larger one"),
            (segment(100, &[], ACK), "an acknowledgement"),
            (segment(100, &[0; 100], ACK | 1), "FIN"),
        ] {
            assert_eq!(with(second), 1, "{why}");
        }
        // Type of service, addresses, ports, acknowledgement, window, options; a checksum that was computed.
        for position in [
            IP + 1,
            IP + 15,
            IP + 19,
            TCP,
            TCP + 3,
            TCP + 11,
            TCP + 15,
            TCP + 31,
            0,
        ] {
            let mut second = segment(100, &[0; 100], ACK);
            second[position] ^= 2;
            if position == 0 {
                second[0] = 0;
            }
            assert_eq!(with(second), 1, "byte {position}");
        }
        let last = [
            first(),
            segment(100, &[0; 40], ACK),
            segment(140, &[0; 40], ACK),
        ];
        assert_eq!(count(&last), 2);
        let pushed = [
            segment(0, &[0; 100], ACK | PSH),
            segment(100, &[0; 100], ACK),
        ];
        assert_eq!(count(&pushed), 1);
        let many: Vec<Vec<u8>> = (0..60)
            .map(|n| segment(n * 1400, &[0; 1400], ACK))
            .collect();
        assert_eq!(count(&many), MAX_SEGMENTS);
        assert_eq!(count(&[vec![0; 30], first()]), 1);
    }
}
