//! Tests of captures of the path: their packets and times, which are compared in virtual time.

use std::{fs, ops::ControlFlow, time::Duration};

use regatta_bed::{
    Bed, BedError, Host, TestBed as _,
    capture::{CaptureOrder, CaptureSummary, read},
};
use regatta_model::{BedKind, Emulator, PathSetup, Ratio};
use regatta_test_support::guest::{Clock, in_guest};

use crate::{
    common,
    common::{Agent, bed, condition, delays, explain},
};

/// A packet of a capture that was read.
#[derive(Debug, Clone, PartialEq)]
struct Packet {
    forward: bool,
    unix_ns: u64,
    size: u32,
    bytes: Vec<u8>,
    comment: String,
}

fn packets(file: &std::path::Path) -> Vec<Packet> {
    let mut all = Vec::new();
    read(file, |packet| {
        all.push(Packet {
            forward: packet.forward,
            unix_ns: packet.unix_ns,
            size: packet.size,
            bytes: packet.bytes.to_vec(),
            comment: packet.comment.to_owned(),
        });
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("{}", explain(&error)));
    all
}

fn order(file: &std::path::Path, snap_bytes: Option<u32>) -> CaptureOrder {
    CaptureOrder {
        file: file.to_owned(),
        snap_bytes,
        title: "a test".to_owned(),
    }
}

/// Sends datagrams there and back, one at a time, and returns the round trips that the socket saw,
/// in nanoseconds.
fn ping(bed: &mut Bed, count: u32) -> Vec<u64> {
    let mut server = Agent::start(bed, Host::Server);
    let mut near = Agent::start(bed, Host::Client);
    let to = server.listen("echo");
    near.send(&format!("ping {to} {count} 200 20000000"));
    delays(&near.receive())
}

/// Whether the Internet checksum over an IPv4 header and over UDP with its pseudo-header is all
/// ones.
fn checksums_are_right(packet: &[u8]) -> bool {
    let sum = |bytes: &[u8]| {
        let mut sum: u32 = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    };
    let (header, payload) = packet.split_at(20);
    let length = (payload.len() as u16).to_be_bytes();
    let pseudo = [&header[12..20], &[0, header[9]], &length, payload].concat();
    sum(header) == 0xffff && sum(&pseudo) == 0xffff
}

#[test]
fn a_capture_has_every_packet_with_its_time_and_outcome() {
    if !in_guest(
        "capture::a_capture_has_every_packet_with_its_time_and_outcome",
        Clock::Virtual,
    ) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("one.pcapng");
    let mut bed = bed();
    let mut condition = condition(20, 100, 0.0);
    condition.forward.loss_list = vec![2, 5];
    condition.reverse.loss_list = vec![3];
    bed.set_condition(&condition, 1).expect("a condition");
    bed.start_capture(order(&file, None)).expect("a capture");
    let round_trips = ping(&mut bed, 10);
    let counters = bed.counters().expect("counters");
    let summary = bed.end_capture().expect("an end").expect("a capture");
    assert!(bed.end_capture().expect("an end").is_none());

    let packets = packets(&file);
    assert_eq!(
        summary,
        CaptureSummary {
            packets: packets.len() as u64,
            missed: 0,
            bytes: fs::metadata(&file).expect("the file").len(),
            failure: None,
        }
    );
    let of = |forward: bool| {
        packets
            .iter()
            .filter(move |packet| packet.forward == forward)
    };
    assert_eq!(of(true).count() as u64, counters.forward.offered);
    assert_eq!(of(false).count() as u64, counters.reverse.offered);
    assert!(packets.is_sorted_by_key(|packet| packet.unix_ns));
    for packet in &packets {
        assert_eq!(packet.size, 228, "{packet:?}");
        assert!(checksums_are_right(&packet.bytes), "{packet:?}");
    }
    let lost: Vec<_> = of(true)
        .enumerate()
        .filter(|(_, packet)| packet.comment == "lost by list")
        .map(|(index, _)| index + 1)
        .collect();
    assert_eq!(lost, [2, 5]);
    assert_eq!(of(false).nth(2).expect("a third").comment, "lost by list");

    // What each way took, against what the sockets saw of both, and when a packet entered, against
    // its departure, which stands in it. The kernel and the processes take a little more.
    let field = |packet: &Packet, at: usize| {
        u64::from_ne_bytes(packet.bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    let took = |packet: &Packet| -> Option<u64> {
        let text = packet.comment.strip_prefix("passed in ")?;
        let milliseconds: f64 = text.strip_suffix(" ms")?.parse().ok()?;
        Some((milliseconds * 1e6).round() as u64)
    };
    let (mut round_trips_captured, mut departures) = (Vec::new(), Vec::new());
    for back in of(false).filter(|back| took(back).is_some()) {
        let there = of(true).find(|there| field(there, 28) == field(back, 28));
        let there = there.expect("its question");
        departures.push(there.unix_ns.cast_signed() - field(there, 28).cast_signed());
        round_trips_captured.push(took(there).expect("it passed") + took(back).expect("it passed"));
    }
    assert_eq!(round_trips_captured.len(), round_trips.len());
    let mut longer: Vec<i64> = round_trips_captured
        .iter()
        .zip(&round_trips)
        .map(|(captured, measured)| measured.cast_signed() - captured.cast_signed())
        .collect();
    for differences in [&mut longer, &mut departures] {
        differences.sort_unstable();
        let median = differences[differences.len() / 2];
        assert!((0..1_000_000).contains(&median), "{differences:?}");
    }
}

#[test]
fn packets_are_truncated_on_request_and_truncated_files_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("one.pcapng");
    let mut bed = bed();
    let mut condition = condition(2, 0, 0.0);
    condition.forward.duplicate_ratio = Ratio(1.0);
    condition.forward.corrupt_ratio = Ratio(1.0);
    bed.set_condition(&condition, 1).expect("a condition");
    bed.start_capture(order(&file, Some(41)))
        .expect("a capture");
    ping(&mut bed, 3);
    bed.end_capture().expect("an end");
    let all = packets(&file);
    assert!(
        all.iter()
            .all(|packet| packet.bytes.len() == 41 && packet.size == 228)
    );
    let with = |text: &str| {
        all.iter()
            .filter(|packet| packet.comment.contains(text))
            .count()
    };
    assert_eq!(with("one bit flipped by the path"), 3);
    assert_eq!(with("a copy that the path made"), 3);

    let complete = fs::read(&file).expect("the file");
    let cut = directory.path().join("cut.pcapng");
    for length in (64..complete.len()).step_by(7) {
        fs::write(&cut, &complete[..length]).expect("a file");
        let result = read(&cut, |_| ControlFlow::Continue(()));
        // Without its first block it is no capture.
        assert!(result.is_ok() || length < 200, "{length}: {result:?}");
    }
    fs::write(&cut, b"no capture at all").expect("a file");
    let error = read(&cut, |_| ControlFlow::Continue(())).expect_err("no capture");
    assert!(error.to_string().contains("cut.pcapng"), "{error}");
}

#[test]
fn an_unwritable_path_is_refused_and_the_bed_still_works() {
    let mut bed = bed();
    bed.set_condition(&condition(2, 0, 0.0), 1)
        .expect("a condition");
    for path in ["/proc/none/one.pcapng", "/dev/full"] {
        let refused = bed.start_capture(order(path.as_ref(), None));
        let error = refused.expect_err("nothing can be written there");
        assert!(matches!(error, BedError::Refused { .. }), "{error:?}");
        assert!(!error.hint().is_empty());
    }
    assert_eq!(ping(&mut bed, 2).len(), 2);
    assert!(bed.end_capture().expect("an end").is_none());
}

/// A new capture closes the one before; one that goes on when the bed ends has its end too.
#[test]
fn a_capture_ends_with_the_next_capture_and_with_the_bed() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [1, 2].map(|number| directory.path().join(format!("{number}.pcapng")));
    let mut bed = Bed::up(
        BedKind::Netns,
        PathSetup {
            emulator: Emulator::Userspace,
            ..PathSetup::default()
        },
        &[],
        common::executable(),
        "captures",
    )
    .expect("a bed");
    bed.set_condition(&condition(2, 0, 0.0), 1)
        .expect("a condition");
    for file in &files {
        bed.start_capture(order(file, Some(64))).expect("a capture");
        assert_eq!(ping(&mut bed, 2).len(), 2);
    }
    std::thread::sleep(Duration::from_millis(1));
    drop(bed);
    for file in &files {
        assert_eq!(packets(file).len(), 4);
    }
}
