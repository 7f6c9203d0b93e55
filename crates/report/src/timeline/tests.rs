use super::*;

const SECOND: i64 = 1_000_000_000;

/// Returns samples that end at these seconds, each with the time since the one before and one
/// value.
fn batch(name: &str, samples: &[(f64, f64, f32)]) -> HostSamples {
    let sample = |(at, elapsed, value): &(f64, f64, f32)| HostSample {
        unix_ns: 1_000 * SECOND + (at * 1e9) as i64,
        monotonic_ns: 0,
        values: vec![Some((elapsed * 1e9) as f32), Some(*value)],
    };
    HostSamples {
        host: "sender".into(),
        trial: None,
        names: vec![ELAPSED.into(), name.into()],
        samples: samples.iter().map(sample).collect(),
    }
}

fn timeline(batches: &[HostSamples]) -> HostTimeline {
    let mut all = Vec::new();
    for batch in batches {
        add(&mut all, batch);
    }
    all.remove(0)
}

#[test]
fn a_count_is_a_rate_over_the_time_before_its_sample() {
    let name = "tcp.retransmitted_segments";
    let timeline = timeline(&[batch(name, &[(1.0, 1.0, 10.0), (1.5, 0.5, 10.0)])]);
    let line = &timeline.lines[name];
    assert_eq!(timeline.origin_unix_ns, 1_000 * SECOND);
    assert_eq!(line.bins.len(), 15);
    let mean = |bin: usize| line.bins[bin].mean().unwrap();
    assert_eq!((mean(0), mean(9), mean(10)), (10.0, 10.0, 20.0));
    assert_eq!(timeline.count(name), Some(20.0));
    assert_eq!(line.largest, 20.0);
}

#[test]
fn a_long_run_has_few_steps_and_keeps_its_peaks() {
    let name = "memory.available_bytes";
    let samples: Vec<_> = (1..=172_800)
        .map(|second| {
            (
                f64::from(second),
                1.0,
                if second == 7 { 900.0 } else { 100.0 },
            )
        })
        .collect();
    let timeline = timeline(&[batch(name, &samples)]);
    let line = &timeline.lines[name];
    assert!(
        (300..=600).contains(&line.bins.len()),
        "{}",
        line.bins.len()
    );
    assert_eq!(line.bins[0].range(), Some([100.0, 900.0]));
    assert_eq!(line.bins[1].mean(), Some(100.0));
    let mean = line.mean().unwrap();
    assert!((mean - (100.0 + 800.0 / 172_800.0)).abs() < 1e-6, "{mean}");
}

#[test]
fn a_very_short_sample_is_no_peak() {
    let name = "tcp.retransmitted_segments";
    let timeline = timeline(&[batch(name, &[(1.0, 1.0, 10.0), (1.001, 0.001, 1.0)])]);
    let line = &timeline.lines[name];
    assert_eq!((line.largest, line.total.round()), (10.0, 11.0));
    let range = line.bins[10].range().unwrap();
    assert!(range[0] == range[1] && range[0] > 900.0, "{range:?}");
}

#[test]
fn a_pause_is_a_gap() {
    let name = "load.average_1min";
    let timeline = timeline(&[batch(name, &[(1.0, 1.0, 1.0), (5.0, 1.0, 1.0)])]);
    let bins = &timeline.lines[name].bins;
    assert_eq!(bins[9].mean(), Some(1.0));
    assert_eq!(bins[20].mean(), None);
    assert_eq!(bins[49].mean(), Some(1.0));
}

#[test]
fn cores_are_put_together_in_each_sample() {
    let mut both = batch("cpu.0.busy_ratio", &[(1.0, 1.0, 0.2), (2.0, 1.0, 0.8)]);
    both.names.push("cpu.1.busy_ratio".into());
    for (sample, value) in both.samples.iter_mut().zip([0.6, 0.0]) {
        sample.values.push(Some(value));
    }
    let timeline = timeline(&[both]);
    let mean = |name: &str| timeline.lines[name].mean().unwrap();
    assert!((mean(CPU_MEAN) - 0.4).abs() < 1e-6);
    assert!((mean(CPU_BUSIEST) - 0.7).abs() < 1e-6);
    assert!(timeline.text().starts_with("CPU 40.0 % of all cores"));
}

#[test]
fn a_trial_lasts_from_its_first_to_its_last_sample() {
    let name = "load.average_1min";
    let of = |trial, samples: &[(f64, f64, f32)]| HostSamples {
        trial,
        ..batch(name, samples)
    };
    let timeline = timeline(&[
        of(None, &[(1.0, 1.0, 1.0)]),
        of(Some(3), &[(1.5, 0.5, 1.0), (2.0, 0.5, 1.0)]),
        of(Some(3), &[(2.5, 0.5, 1.0)]),
        of(None, &[(4.0, 1.5, 1.0)]),
    ]);
    let expected = TrialSpan {
        trial: 3,
        from_ns: SECOND,
        to_ns: 5 * SECOND / 2,
    };
    assert_eq!(timeline.trials, [expected]);
}

#[test]
fn a_clock_that_is_set_back_or_wrong_does_no_harm() {
    let name = "load.average_1min";
    let mut odd = batch(name, &[(5.0, 1.0, 1.0), (0.0, 1.0, 1.0), (6.0, 0.0, 1.0)]);
    for unix_ns in [i64::MIN, i64::MAX] {
        odd.samples.push(HostSample {
            unix_ns,
            ..odd.samples[0].clone()
        });
    }
    odd.samples.push(HostSample {
        unix_ns: 0,
        monotonic_ns: 0,
        values: Vec::new(),
    });
    let timeline = timeline(&[odd]);
    assert_eq!(timeline.samples, 2);
    assert!(timeline.lines[name].bins.len() <= 600);
}

#[test]
fn the_ratio_of_bytes_to_packets_has_gaps_where_there_were_no_packets() {
    let of = |name, values: [f32; 3]| {
        let samples = [1.0, 2.0, 3.0].map(|at| (at, 1.0, values[at as usize - 1]));
        timeline(&[batch(name, &samples)]).lines[name].clone()
    };
    let bytes = of("interface.eth0.sent_bytes", [3000.0, 0.0, 600.0]);
    let packets = of("interface.eth0.sent_packets", [2.0, 0.0, 6.0]);
    let sizes = bytes.ratio(&packets);
    let means: Vec<Option<f64>> = sizes.bins.iter().step_by(10).map(Bin::mean).collect();
    assert_eq!(means, [Some(1500.0), None, Some(100.0)]);
    assert_eq!((sizes.largest, sizes.total), (1500.0, 450.0));
}

#[test]
fn errors_are_added_up_by_protocol() {
    let mut both = batch("tcp.receive_errors", &[(1.0, 1.0, 2.0)]);
    for (name, value) in [
        ("tcp.backlog_drops", 3.0),
        ("udp.receive_errors", 7.0),
        ("interface.eth0.receive_drops", 11.0),
        ("interface.eth0.collisions", 13.0),
    ] {
        both.names.push(name.into());
        both.samples[0].values.push(Some(value));
    }
    let timeline = timeline(&[both]);
    let names = [
        TCP_ERRORS,
        UDP_ERRORS,
        INTERFACE_ERRORS,
        COLLISIONS,
        SCTP_ERRORS,
    ];
    let counts = names.map(|name| timeline.count(name));
    assert_eq!(counts, [Some(5.0), Some(7.0), Some(11.0), Some(13.0), None]);
}
