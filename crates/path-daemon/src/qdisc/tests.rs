use regatta_model::Ratio;

use super::*;

/// Compares the request with that of iproute2 6.1 for `tc qdisc add … netem delay 15ms limit
/// 1000 loss gemodel 10% 40% 50% 0% reorder 25% gap 1 duplicate 1% corrupt 2% rate 100mbit
/// -14`. They differ in the delay, which iproute2 has in ticks, and in a rounding of the half.
#[cfg(target_endian = "little")]
#[test]
fn netem_is_what_tc_sends() {
    let netem = Netem {
        delay_ns: 15_000_000,
        limit: 1000,
        loss: Loss::Bursts(GilbertElliott {
            to_bad_ratio: Ratio(0.1),
            to_good_ratio: Ratio(0.4),
            bad_loss_ratio: Ratio(0.5),
            good_loss_ratio: Ratio(0.0),
        }),
        reorder: 0.25,
        duplicate: 0.01,
        corrupt: 0.02,
        pace: Some(Pace::BytesPerSecond(12_500_000)),
        seed: 0x0102_0304_0506_0708,
        ..Netem::default()
    };
    let bytes = netem.options();
    let (head, attributes) = bytes.split_at(NETEM_HEAD_BYTES);
    assert_eq!(
        head,
        [
            0, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x29, 0x5c, 0x8f, 2, 0, 0, 0, 0
        ]
    );
    let attribute = |kind| find(attributes, kind).expect("an attribute");
    assert_eq!(attribute(3), [0, 0, 0, 0x40, 0, 0, 0, 0]);
    assert_eq!(attribute(4), [0x52, 0xb8, 0x1e, 5, 0, 0, 0, 0]);
    assert_eq!(
        attribute(5),
        [
            0x14, 0, 2, 0, 0x9a, 0x99, 0x99, 0x19, 0x66, 0x66, 0x66, 0x66, 0, 0, 0, 0x80, 0, 0, 0,
            0
        ]
    );
    assert_eq!(
        attribute(6),
        [
            0x20, 0xbc, 0xbe, 0, 0xf2, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(attribute(10), 15_000_000u64.to_le_bytes());
    assert_eq!(attribute(11), [0; 8]);
    assert_eq!(attribute(14), [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(find(attributes, 8), None);
}

/// A rate that takes no time keeps the order, and is more than 32 bits hold.
#[test]
fn rates_beyond_32_bits_have_a_64_bit_attribute() {
    let netem = Netem {
        pace: Some(Pace::InOrder),
        ..Netem::default()
    };
    let options = netem.options();
    let attributes = &options[NETEM_HEAD_BYTES..];
    let rate = find(attributes, 6).and_then(|bytes| u32_at(bytes, 0));
    let rate64 = find(attributes, 8).and_then(|bytes| u64_at(bytes, 0));
    assert_eq!(
        (rate, rate64),
        (Some(u32::MAX), Some(1_000_000_000_000_000))
    );
}

/// Rate, limit and burst of `tc qdisc add … tbf rate 100mbit burst 25000 limit 375000`, and a
/// packet's size without its Ethernet header.
#[test]
fn a_bucket_is_what_tc_sends() {
    let bucket = Bucket {
        bytes_per_second: 12_500_000,
        burst_bytes: 25_000,
        waiting: Waiting::Bytes(375_000),
    };
    let attributes = bucket.attributes();
    let bytes = attributes.as_bytes();
    assert_eq!(find(bytes, 1), Some(&b"tbf\0"[..]));
    let options = find(bytes, 2).expect("options");
    let parameters = find(options, 1).expect("parameters");
    assert_eq!(parameters.len(), 36);
    assert_eq!(u32_at(parameters, 8), Some(12_500_000));
    assert_eq!(u32_at(parameters, 24), Some(375_000));
    assert_eq!(find(options, 6), Some(&25_000u32.to_ne_bytes()[..]));
    let sizes = find(bytes, 8)
        .and_then(|stab| find(stab, 1))
        .expect("sizes");
    assert_eq!(sizes.len(), 24);
    assert_eq!(u32_at(sizes, 4), Some((-14i32).cast_unsigned()));
}

#[test]
fn statistics_are_read_where_the_kernel_puts_them() {
    let basic = [1500u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat();
    let queue = [3u32, 4500, 2, 5, 9].map(u32::to_ne_bytes).concat();
    let bytes = Attributes::new().bytes(1, &basic).bytes(3, &queue);
    let counted = Statistics {
        sent: 7,
        drops: 2,
        overflows: 2,
        marks: 0,
        requeues: 5,
        waiting_packets: 3,
        waiting_bytes: 4500,
    };
    assert_eq!(parse_statistics(bytes.as_bytes()), Some(counted));
    // Three packets of 1486 bytes, of which one is being sent.
    assert_eq!(counted.queued_ip_bytes(true), 2 * 1486);
    assert_eq!(counted.queued_ip_bytes(false), 4500);
    let long = bytes.clone().u64(8, 1 << 33);
    let sent = parse_statistics(long.as_bytes()).map(|counted| counted.sent);
    assert_eq!(sent, Some(1 << 33));
    assert_eq!(parse_statistics(&[]), None);
}
