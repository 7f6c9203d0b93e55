//! Conditions of a study, valid and invalid.

use std::time::Duration;

use regatta_model::{
    BitRate, Bytes, Condition, DelayDistribution, GilbertElliott, QueueDiscipline, Ratio,
    UnitError,
    study::{Overlay, StudyFile},
};

/// Returns the files that the studies of these tests name.
fn beside(name: &str) -> Result<String, UnitError> {
    match name {
        "lte.trace" => Ok("0\n5\n10\n".to_owned()),
        "falling.trace" => Ok("5\n4\n".to_owned()),
        "empty.trace" => Ok(String::new()),
        "garbage.trace" => Ok("\u{7f}ELF".to_owned()),
        "lost.txt" => Ok("3\n17\n".to_owned()),
        "words.txt" => Ok("3\nseventeen\n".to_owned()),
        _ => Err(UnitError {
            message: format!("cannot read `{name}`"),
            hint: "name a file beside the study".to_owned(),
        }),
    }
}

/// The text of a study with a condition of these keys.
fn study_of(keys: &str) -> String {
    format!(
        "name = \"s\"\n[[transport]]\ndriver = \"tcp\"\n[[workload]]\n[[condition]]\nname = \"c\"\n{keys}\n"
    )
}

fn read(keys: &str) -> Result<Condition, String> {
    StudyFile::parse_beside(&study_of(keys), "s.toml", &beside)
        .map(|file| file.study.conditions[0].clone())
        .map_err(|error| error.to_string())
}

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

#[test]
fn a_mistyped_shipped_trace_is_named() {
    for (typed, meant) in [("lt", "lte"), ("5G", "5g"), ("satelite", "satellite")] {
        let error = read(&format!("trace = \"{typed}\"")).expect_err("no such trace");
        assert!(
            error.contains(&format!("did you mean `{meant}`?")),
            "{error}"
        );
        assert!(error.contains("name a file beside the study"), "{error}");
    }
    let error = read("trace = \"none.trace\"").expect_err("no such file");
    assert!(!error.contains("did you mean"), "{error}");
}

#[test]
fn jitter_of_the_round_trip_is_half_of_it_each_way() {
    let condition = read("rtt = \"300ms\"\nrtt_jitter = \"20ms\"").expect("a sound condition");
    for link in [&condition.forward, &condition.reverse] {
        assert_eq!((link.delay, link.jitter), (ms(150), ms(10)));
        // It falls by half a second a second at most: 20 ms in 40 ms.
        assert_eq!(link.jitter_span(), Some(ms(40)));
    }
    let span = |keys: &str| {
        let keys = format!("rtt = \"300ms\"\njitter = \"10ms\"\n{keys}");
        read(&keys)
            .expect("a sound condition")
            .forward
            .jitter_span()
    };
    assert_eq!(span("jitter_distribution = \"normal\""), Some(ms(160)));
    assert_eq!(span("jitter_correlation = \"1s\""), Some(ms(1000)));
    assert_eq!(span("jitter_correlation = \"0s\""), None);
    assert_eq!(span("jitter_reorders = true"), None);
    let bare = read("rtt = \"300ms\"").expect("a sound condition");
    assert_eq!(bare.forward.jitter_span(), None);
}

#[test]
fn every_key_of_a_link_is_read() {
    let condition = read(
        "rtt = \"100ms\"\njitter = \"5ms\"\njitter_distribution = \"pareto\"\nloss = \"1%\"\n\
         loss_bursts = { to_bad = \"1%\", to_good = \"30%\", bad_loss = \"90%\", good_loss = \"0.1%\" }\n\
         loss_list = [3, 17]\nreorder = \"2%\"\nduplicate = \"3%\"\ncorrupt = \"0.1%\"\n\
         rate = \"10Mbit/s\"\nburst = \"15kB\"\nqueue = \"2 BDP\"\ndiscipline = \"codel\"\n\
         aqm_target = \"10ms\"\n\
         [condition.reverse]\nqueue = \"50 packets\"\ndiscipline = \"drop-tail\"\nrate = \"unlimited\"\ntrace = \"lte.trace\"",
    );
    // A rate and a trace of one section contradict one another.
    assert!(condition.is_err_and(|error| error.contains("`trace` and `rate` both say")));
    let condition = read(
        "rtt = \"100ms\"\njitter = \"5ms\"\njitter_distribution = \"pareto\"\nloss = \"1%\"\n\
         loss_bursts = { to_bad = \"1%\", to_good = \"30%\", bad_loss = \"90%\", good_loss = \"0.1%\" }\n\
         loss_list = [3, 17]\nreorder = \"2%\"\nduplicate = \"3%\"\ncorrupt = \"0.1%\"\n\
         rate = \"10Mbit/s\"\nqueue = \"2 BDP\"\ndiscipline = \"codel\"\naqm_target = \"10ms\"\n\
         [condition.forward]\nburst = \"15kB\"\n\
         [condition.reverse]\nqueue = \"50 packets\"\ndiscipline = \"drop-tail\"\ntrace = \"lte.trace\"\nloss_list = \"lost.txt\"",
    )
    .expect("a sound condition");
    let link = &condition.forward;
    assert_eq!(link.delay, ms(50));
    assert_eq!(link.jitter_distribution, DelayDistribution::Pareto);
    assert_eq!(
        link.loss_bursts,
        Some(GilbertElliott {
            to_bad_ratio: Ratio(0.01),
            to_good_ratio: Ratio(0.3),
            bad_loss_ratio: Ratio(0.9),
            good_loss_ratio: Ratio(0.001),
        })
    );
    assert_eq!(link.loss_list, [3, 17]);
    assert_eq!(
        [link.reorder_ratio, link.duplicate_ratio, link.corrupt_ratio],
        [Ratio(0.02), Ratio(0.03), Ratio(0.001)]
    );
    assert_eq!(link.burst_bytes, Some(Bytes(15_000)));
    // 10 Mbit/s over 100 ms, twice.
    assert_eq!(link.queue, Some(Bytes(250_000)));
    assert_eq!(
        link.discipline,
        QueueDiscipline::Codel {
            target: ms(10),
            interval: ms(100)
        }
    );
    let link = &condition.reverse;
    assert_eq!((link.queue, link.queue_packets), (None, Some(50)));
    assert_eq!(link.discipline, QueueDiscipline::DropTail);
    assert_eq!(link.rate, None);
    assert_eq!(
        link.trace.as_ref().expect("a trace").opportunities_ms,
        [0, 5, 10]
    );
    assert_eq!(link.loss_list, [3, 17]);
    // What is stored is read back.
    let stored = serde_json::to_string(&condition).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Condition>(&stored).expect("read"),
        condition
    );
}

#[test]
fn steps_inherit_keys_that_they_do_not_have() {
    let condition = read(
        "rtt = \"300ms\"\nrate = \"1Gbit/s\"\nqueue = \"1 BDP\"\n\
         [[condition.step]]\nat = \"20s\"\nrtt = \"250ms\"\n\
         [[condition.step]]\nat = \"40s\"\nloss = \"1%\"\n[condition.step.reverse]\nrate = \"10Mbit/s\"",
    )
    .expect("a sound schedule");
    let [first, second] = &condition.schedule[..] else {
        panic!("two steps: {condition:?}");
    };
    assert_eq!(
        (first.at, first.forward.delay),
        (Duration::from_secs(20), ms(125))
    );
    assert_eq!(first.forward.loss, Ratio(0.0));
    assert_eq!(
        (second.forward.delay, second.forward.loss),
        (ms(125), Ratio(0.01))
    );
    assert_eq!(second.forward.rate, Some(BitRate(1_000_000_000)));
    assert_eq!(second.reverse.rate, Some(BitRate(10_000_000)));
    // A queue in bandwidth-delay products is one of the path's longest delay, at every step.
    assert_eq!(second.forward.queue, Some(Bytes(37_500_000)));
}

/// Checks a staircase from 300 ms to 50 ms in steps of 50 ms, 20 s each (S1).
#[test]
fn a_staircase_is_the_same_as_its_steps() {
    let short = read(
        "rate = \"1Gbit/s\"\n\
         steps = { key = \"rtt\", from = \"300ms\", to = \"50ms\", by = \"50ms\", every = \"20s\" }",
    )
    .expect("a staircase");
    let mut long = "rate = \"1Gbit/s\"\nrtt = \"300ms\"\n".to_owned();
    for step in 1..=5u64 {
        long += &format!(
            "[[condition.step]]\nat = \"{}s\"\nrtt = \"{}ms\"\n",
            20 * step,
            300 - 50 * step
        );
    }
    assert_eq!(short, read(&long).expect("steps"));
    // Up, with a last step that is shorter.
    let rates = read(
        "steps = { key = \"rate\", from = \"10Mbit/s\", to = \"25Mbit/s\", by = \"10Mbit/s\", every = \"1s\" }",
    )
    .expect("a staircase");
    let rates: Vec<_> = rates
        .settings()
        .map(|s| s.forward.rate.expect("a rate").0 / 1_000_000)
        .collect();
    assert_eq!(rates, [10, 20, 25]);
}

/// Asserts that the keys are refused with this message at this underlined span, and with a hint.
#[track_caller]
fn assert_refused(keys: &str, expected: &str, span: &str) {
    let shown = read(keys).expect_err(keys);
    assert!(
        shown.contains(expected),
        "expected {expected:?} in:\n{shown}"
    );
    assert!(shown.contains(span), "expected {span} in:\n{shown}");
    assert!(shown.contains("hint: "), "no hint in:\n{shown}");
}

#[test]
fn impossible_bottlenecks_are_refused_at_their_span() {
    for (keys, expected, span) in [
        ("rate = \"0bit/s\"", "a rate of zero", "^^^^^^^^"),
        (
            "discipline = \"codel\"",
            "a queue's discipline on a link without a rate",
            "^^^^^^^",
        ),
        (
            "discipline = \"green\"",
            "`green` is not a value of `discipline`",
            "^^^^^",
        ),
        (
            "rate = \"1Mbit/s\"\ntrace = \"lte.trace\"",
            "`trace` and `rate` both",
            "^^^^^^^^^^^",
        ),
        (
            "trace = \"empty.trace\"",
            "the trace `empty.trace` is empty",
            "^^^^^^^^^^^^^",
        ),
        (
            "trace = \"garbage.trace\"",
            "line 1 of the trace",
            "^^^^^^^^^^^^^^^",
        ),
        (
            "trace = \"falling.trace\"",
            "goes back in time, from 5 to 4",
            "^^^^^^^^^^^^^^^",
        ),
        (
            "trace = \"none.trace\"",
            "cannot read `none.trace`",
            "^^^^^^^^^^^^",
        ),
        ("burst = \"15kB\"", "the link has no rate", "^^^^^^"),
        (
            "rate = \"1Mbit/s\"\nburst = \"1kB\"",
            "lets none pass",
            "^^^^^",
        ),
        ("queue = \"2 BDP\"", "but the link has no rate", "^^^^^^^"),
        (
            "rate = \"1Mbit/s\"\nqueue = \"0 packets\"",
            "a queue of no packet",
            "^^^^^^^^^^^",
        ),
        (
            "rate = \"1Mbit/s\"\nqueue = \"1kB\"",
            "a queue smaller than one packet",
            "^^^^^",
        ),
        (
            "rate = \"1Mbit/s\"\naqm_target = \"1ms\"",
            "the queue's discipline has none",
            "^^^^^",
        ),
        (
            "rate = \"1Mbit/s\"\ndiscipline = \"codel\"\naqm_target = \"200ms\"",
            "the target of the queue's discipline is not between",
            "^^^^^^^",
        ),
    ] {
        assert_refused(keys, expected, span);
    }
}

#[test]
fn disciplines_and_changes_of_the_ecn_field_are_read() {
    let link = |keys: &str| {
        let condition = read(&format!("rate = \"10Mbit/s\"\n{keys}"));
        condition.expect("a sound condition").forward
    };
    let found = link("discipline = \"dualpi2\"\nany_ect = true");
    let expected = QueueDiscipline::DualPi2 {
        target: ms(15),
        any_ect: true,
    };
    assert_eq!((found.discipline, found.ecn), (expected, true));
    let found = link("discipline = \"red\"\naqm_target = \"8ms\"");
    let expected = QueueDiscipline::Red { target: ms(8) };
    assert_eq!((found.discipline, found.ecn), (expected, false));
    let found = link("discipline = \"cake\"\naqm_interval = \"30ms\"");
    let expected = QueueDiscipline::Cake {
        target: ms(5),
        interval: ms(30),
    };
    assert_eq!((found.discipline, found.ecn), (expected, true));
    let found = link("ecn_bleach = \"100%\"\necn_remark = \"5%\"\nect_loss = \"1%\"");
    let ratios = [
        found.ecn_bleach_ratio,
        found.ecn_remark_ratio,
        found.ect_loss_ratio,
    ];
    assert_eq!(ratios, [Ratio(1.0), Ratio(0.05), Ratio(0.01)]);
    for (keys, expected, span) in [
        (
            "rate = \"1Mbit/s\"\ndiscipline = \"codel\"\nany_ect = true",
            "the queue's discipline is not DualPI2",
            "^^^^",
        ),
        (
            "rate = \"1Mbit/s\"\ndiscipline = \"cake\"\necn = false",
            "marks packets in any case",
            "^^^^^",
        ),
        (
            "ect_loss = \"101%\"",
            "is not between 0 % and 100 %",
            "^^^^^^",
        ),
    ] {
        assert_refused(keys, expected, span);
    }
}

#[test]
fn impossible_impairments_are_refused_at_their_span() {
    for (keys, expected, span) in [
        ("rtt = \"-1ms\"", "a time cannot be negative", "^^^^^^"),
        ("loss = \"101%\"", "is not between 0 % and 100 %", "^^^^^^"),
        (
            "rtt = \"4ms\"\njitter = \"3ms\"",
            "`jitter` is larger than",
            "^^^^^",
        ),
        (
            "rtt = \"4ms\"\njitter_distribution = \"normal\"",
            "but no `jitter`",
            "^^^^^^^^",
        ),
        (
            "rtt = \"4ms\"\njitter_correlation = \"9ms\"",
            "but no `jitter`",
            "^^^^^",
        ),
        (
            "rtt = \"4ms\"\njitter = \"1ms\"\njitter_reorders = true\njitter_correlation = \"9ms\"",
            "is drawn for each of them",
            "^^^^^",
        ),
        ("reorder = \"1%\"", "there is no delay to skip", "^^^^"),
        ("loss_list = [17, 3]", "do not rise from 1", "^^^^^^^"),
        ("loss_list = [0]", "do not rise from 1", "^^^"),
        ("loss_list = [\"3\"]", "a list of whole numbers", "^^^"),
        (
            "loss_list = \"words.txt\"",
            "line 2 of `words.txt` is no whole number",
            "^^^^^^^^^^^",
        ),
        (
            "loss_bursts = { to_bad = \"1%\" }",
            "has no `to_good`",
            "^^^",
        ),
    ] {
        assert_refused(keys, expected, span);
    }
}

#[test]
fn impossible_steps_are_refused_at_their_span() {
    let step = |keys: &str| format!("rtt = \"30ms\"\n[[condition.step]]\n{keys}");
    let stairs = |keys: &str| format!("steps = {{ {keys} }}");
    for (keys, expected, span) in [
        (step("rtt = \"1ms\""), "has no `at`", "^"),
        (step("at = \"0s\""), "does not come after the start", "^^^^"),
        (
            step("at = \"2s\"\n[[condition.step]]\nat = \"1s\""),
            "does not come after the one before it, at 2 s",
            "^^^^",
        ),
        (
            step("at = \"2s\"\nname = \"d\""),
            "unknown key `name` in [[condition.step]]",
            "^^^^",
        ),
        (
            step("at = \"2s\"\njitter = \"1s\""),
            "`jitter` is larger than",
            "^^^^",
        ),
        (
            stairs("key = \"mtu\", from = \"1\", to = \"2\", by = \"1\", every = \"1s\""),
            "`mtu` is not a value of `key`",
            "^^^^^",
        ),
        (
            stairs("key = \"rtt\", from = \"1ms\", to = \"2ms\", by = \"0\", every = \"1s\""),
            "steps of nothing",
            "^^^",
        ),
        (
            format!(
                "rtt = \"9ms\"\n{}",
                stairs("key = \"rtt\", from = \"1ms\", to = \"2ms\", by = \"1ms\", every = \"1s\"")
            ),
            "`rtt` is said here and by `steps`",
            "^^^^^",
        ),
    ] {
        assert_refused(&keys, expected, span);
    }
}

/// Reads a condition with options, in the place of the keys that it has.
fn change(before: &str, options: &str) -> Result<Condition, String> {
    let overlay = Overlay {
        keys: options,
        applies: &|_, _| true,
        beside: &beside,
    };
    StudyFile::parse_beside(&study_of(before), "s.toml", &beside)
        .and_then(|file| file.with_options(&beside, overlay))
        .map(|file| file.study.conditions[0].clone())
        .map_err(|error| error.to_string())
}

const STEPPED: &str = "rtt = \"100ms\"\njitter = \"5ms\"\nrate = \"10Mbit/s\"\nqueue = \"2 BDP\"\nloss_list = [3]\n\
     [[condition.step]]\nat = \"20s\"\nrtt = \"50ms\"";

#[test]
fn options_apply_at_every_step() {
    let unchanged = change(STEPPED, "").expect("no change");
    assert_eq!(unchanged, read(STEPPED).expect("a sound condition"));
    let after = change(
        STEPPED,
        "[condition]\nloss = \"1%\"\nmtu = 1280\n[condition.reverse]\nrate = \"1Mbit/s\"\nqueue = \"10 packets\"",
    )
    .expect("a sound change");
    assert_eq!((after.name.as_str(), after.mtu_bytes), ("c", 1280));
    for (setting, rtt) in after.settings().zip([100, 50]) {
        assert_eq!(setting.round_trip_delay(), ms(rtt));
        assert_eq!(
            (setting.forward.loss, setting.forward.rate),
            (Ratio(0.01), Some(BitRate(10_000_000)))
        );
        // Other keys keep their values.
        assert_eq!(setting.forward.queue, Some(Bytes(250_000)));
        assert_eq!(setting.forward.loss_list, [3]);
        let back = setting.reverse;
        assert_eq!((back.queue, back.queue_packets), (None, Some(10)));
        assert_eq!(back.rate, Some(BitRate(1_000_000)));
    }
    // Another schedule replaces the first.
    let step = "[[condition.step]]\nat = \"5s\"\nloss = \"2%\"";
    let after = change(STEPPED, step).expect("a step");
    let [only] = &after.schedule[..] else {
        panic!("one step: {after:?}");
    };
    assert_eq!((only.at, only.forward.delay), (ms(5000), ms(50)));
    for (options, expected) in [
        (
            "jitter = \"30ms\"",
            "`jitter` is larger than the one-way delay",
        ),
        (
            "trace = \"lte.trace\"\nrate = \"1Mbit/s\"",
            "both say how fast",
        ),
        ("nam = \"d\"", "unknown key `nam` in [[condition]]"),
        ("mtu = 60", "`mtu` cannot be 60"),
        ("rate", "this is not TOML"),
    ] {
        let shown = change(STEPPED, &format!("[condition]\n{options}")).expect_err(options);
        assert!(shown.contains(expected), "{shown}");
        assert!(shown.contains("hint: "), "{shown}");
        assert!(shown.contains("--> command line:"), "{shown}");
    }
}

/// An option takes the place of its key in the tables of both directions and of steps, and of the key that cannot stand
/// beside it.
#[test]
fn an_option_replaces_a_key_wherever_a_condition_says_it() {
    let delays = |before: &str, option: &str| -> Vec<[u64; 2]> {
        let after = change(before, &format!("[condition]\n{option}")).expect(option);
        let links = after
            .settings()
            .map(|it| [&it.forward, &it.reverse].map(|it| it.delay));
        let all = links.map(|delays| delays.map(|delay| delay.as_millis() as u64));
        all.collect()
    };
    let before = "rtt = \"10ms\"\n[condition.reverse]\ndelay = \"7ms\"\n[[condition.step]]\nat = \"1s\"\nrtt = \"20ms\"\n\
                  [condition.step.forward]\ndelay = \"9ms\"";
    assert_eq!(delays(before, ""), [[5, 7], [9, 10]]);
    assert_eq!(delays(before, "rtt = \"40ms\""), [[20, 20], [20, 20]]);
    assert_eq!(delays(before, "delay = \"3ms\""), [[3, 3], [3, 3]]);
    assert_eq!(
        delays(before, "[condition.forward]\ndelay = \"3ms\""),
        [[3, 7], [3, 10]]
    );
    let with_step = "rtt = \"40ms\"\n[[condition.step]]\nat = \"2s\"\nrtt = \"60ms\"";
    assert_eq!(delays(before, with_step), [[20, 20], [30, 30]]);
    // A schedule in one line, in the place of single steps and of the key that it changes; and the other way round.
    let steps =
        "steps = { key = \"rtt\", from = \"2ms\", to = \"4ms\", by = \"2ms\", every = \"1s\" }";
    assert_eq!(delays(before, steps), [[1, 1], [2, 2]]);
    assert_eq!(delays(steps, "delay = \"3ms\""), [[3, 3]]);
    // A queue of so many bandwidth-delay products is that of the path with the options.
    let longer = change(STEPPED, "[condition]\nrtt = \"200ms\"").expect("a longer path");
    assert_eq!(longer.forward.queue, Some(Bytes(500_000)));
    // The settings of a discipline are not those of another one.
    let codel = "rate = \"1Mbit/s\"\ndiscipline = \"codel\"\naqm_target = \"9ms\"";
    let other = |options: &str| change(codel, options).expect(options).forward.discipline;
    assert_eq!(
        other("[condition]\ndiscipline = \"drop-tail\""),
        QueueDiscipline::DropTail
    );
    let target = other("[condition]\naqm_target = \"8ms\"").target();
    assert_eq!(target, Some(ms(8)));
}

/// What does not fit an option may be the file's own, and is shown there.
#[test]
fn a_mistake_is_shown_where_its_value_is() {
    let error = change(STEPPED, "[condition]\nrtt = \"4ms\"").expect_err("too much jitter");
    assert!(error.contains("--> s.toml:8"), "{error}");
    let error = change(STEPPED, "[condition]\nloss = \"x\"").expect_err("no ratio");
    assert!(error.contains("--> command line:"), "{error}");
    assert!(error.contains("loss = \"x\""), "{error}");
}
