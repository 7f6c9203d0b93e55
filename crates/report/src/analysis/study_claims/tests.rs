//! Claims against results that are made up: every relation with every outcome.

use regatta_model::{Outcome, TrialRecord, metric::id};

use super::{
    super::{
        cells,
        claim_result::{ClaimOutcome, ClaimResult, line},
        claims,
        comparison::Conclusion,
        fixture::{self, trial},
        index::{Index, trials_by_cell},
    },
    all,
    ratio::Ratio,
};
use crate::{
    RunData,
    language::{Language, with},
};

use ClaimOutcome::{ComesOut, DoesNot, NotMeasured, NotSeen, Undecided};

const STUDY: &str = r#"
rounds = 5

[[transport]]
driver = "tcp"
label = "fast"
[[transport]]
driver = "tcp"
label = "slow"
[[transport]]
driver = "tcp"
label = "noisy"
[[transport]]
driver = "tcp"
label = "alike"
[[transport]]
driver = "tcp"
label = "absent"

[[condition]]
name = "plain"
[[condition]]
name = "lossy"
[[condition]]
name = "far"

[[workload]]
kind = "bulk"
name = "whole"
[[workload]]
kind = "bulk"
name = "part"

[[sweep]]
key = "condition.delay"
of = ["far"]
values = ["10ms", "20ms", "30ms"]
"#;

const NOISE: [f64; 5] = [-0.004, 0.003, 0.0, -0.003, 0.004];
const WILD: [f64; 5] = [-0.4, 0.5, 0.1, -0.3, 0.2];

/// Goodput of a cell in a round, in Mbit/s: `fast` is twice as fast as `slow`, falls with the delay, and `slow` rises and is
/// ahead at 30 ms. A condition with losses halves everything.
fn goodput(transport: &str, condition: &str, workload: &str, round: usize) -> f64 {
    let at = |values: [f64; 3]| match condition {
        "far, 10 ms each way" => values[0],
        "far, 20 ms each way" => values[1],
        "far, 30 ms each way" => values[2],
        _ => 100.0,
    };
    let mean = match transport {
        "slow" => at([40.0, 50.0, 60.0]) / if condition == "plain" { 2.0 } else { 1.0 },
        "noisy" => 100.0,
        _ => at([90.0, 60.0, 30.0]),
    };
    let mean = if condition == "lossy" {
        mean / 2.0
    } else {
        mean
    };
    let mean = if workload == "part" { mean * 0.9 } else { mean };
    // Another one in each cell.
    let of_transport = match transport {
        "slow" => 1,
        "alike" => 2,
        _ => 0,
    };
    let of_condition: usize = condition.bytes().map(usize::from).sum();
    let shift = of_transport + 2 * of_condition + usize::from(workload == "part");
    let noise = match transport {
        "noisy" => WILD[round],
        _ => NOISE[(round + shift) % 5],
    };
    mean * (1.0 + noise)
}

/// Metrics of a trial: `absent` was not supported, `slow` lost a part of its messages, `noisy` in one trial of five, and the
/// first transfer of `noisy` was not whole. All trials of a workload send the same number of messages.
fn measured([transport, condition, workload]: [&str; 3], round: usize) -> TrialRecord {
    let rate = goodput(transport, condition, workload, round);
    let (loss, cpu) = match transport {
        "slow" => (0.02 * (1.0 + NOISE[round]), 0.3 * (1.0 + NOISE[round])),
        "noisy" if round == 4 => (0.1, 0.1),
        _ => (0.0, 0.1 * (1.0 + NOISE[4 - round])),
    };
    let is_whole = transport != "noisy" || round > 0;
    let metrics = [
        (id::GOODPUT_BPS, rate * 1e6),
        (id::MESSAGE_LOSS_RATIO, loss),
        (id::CPU_HOST_RATIO, cpu),
        (id::WHOLE_TRANSFER_RATIO, f64::from(u8::from(is_whole))),
        (
            id::MESSAGES_SENT,
            if workload == "part" { 90.0 } else { 100.0 },
        ),
    ];
    match transport {
        "absent" => trial(round as u32, Outcome::Unsupported, &[]),
        _ => trial(round as u32, Outcome::Measured, &metrics),
    }
}

/// Makes the run of the study with these claims.
fn run(claims: &str) -> RunData {
    fixture::run(&format!("{STUDY}{claims}"), |cell, round| {
        measured(cell, round as usize)
    })
}

fn claims(toml: &str) -> Vec<ClaimResult> {
    checked(&run(toml))
}

/// Checks the claims of a run.
fn checked(data: &RunData) -> Vec<ClaimResult> {
    let trials = trials_by_cell(data);
    let index = Index::of(data, &trials);
    let (comparisons, ..) = claims::all(&index);
    all(&index, &cells::all(&index, &trials), &comparisons)
}

/// Returns the claim of these keys.
fn claim(keys: &str) -> ClaimResult {
    let mut found = claims(&format!("[[claim]]\ntext = \"it is so\"\n{keys}"));
    assert_eq!(found.len(), 1);
    found.remove(0)
}

macro_rules! outcomes {
    ($($name:ident: $keys:literal => $outcome:ident;)+) => {$(
        #[test]
        fn $name() {
            let found = claim($keys);
            assert_eq!(found.outcome, $outcome, "{found:#?}");
        }
    )+};
}

outcomes! {
    an_order_comes_out: "condition = 'plain'\norder = ['fast', 'slow']" => ComesOut;
    an_order_of_the_slower_first_does_not: "condition = 'plain'\norder = ['slow', 'fast']" => DoesNot;
    an_order_of_what_is_the_same_does_not: "condition = 'plain'\norder = ['fast', 'alike']" => DoesNot;
    an_order_of_what_varies_too_much_is_undecided: "condition = 'plain'\norder = ['fast', 'noisy']" => Undecided;
    an_order_with_an_unsupported_transport_is_not_measured: "condition = 'plain'\norder = ['fast', 'absent']" => NotMeasured;
    an_order_that_one_cell_contradicts_does_not: "order = ['fast', 'slow']" => DoesNot;
    groups_of_an_order_have_no_order_among_them: "condition = 'plain'\norder = [['fast', 'alike'], 'slow']" => ComesOut;
    what_is_smaller_is_better_by_a_cost: "condition = 'plain'\nmetric = 'cpu_host_ratio'\norder = ['fast', 'slow']" => ComesOut;
    an_order_of_conditions_comes_out: "transport = 'fast'\norder = [{condition = 'plain'}, {condition = 'lossy'}]" => ComesOut;
    an_order_of_conditions_that_are_the_same_does_not: "transport = 'slow'\nworkload = 'whole'\norder = [{condition = 'plain'}, {condition = 'lossy'}]" => DoesNot;
    an_order_of_workloads_does_not: "transport = 'fast'\norder = [{workload = 'part'}, {workload = 'whole'}]" => DoesNot;
    nothing_lost_is_ahead_of_a_loss: "condition = 'plain'\nmetric = 'message_loss_ratio'\norder = ['fast', 'slow']" => ComesOut;
    a_loss_is_not_ahead_of_nothing_lost: "condition = 'plain'\nmetric = 'message_loss_ratio'\norder = ['slow', 'fast']" => DoesNot;
    what_lost_nothing_is_the_same: "condition = 'plain'\nmetric = 'message_loss_ratio'\norder = ['fast', 'alike']" => DoesNot;
    nothing_lost_beside_a_loss_that_may_be_none_is_undecided: "condition = 'plain'\nmetric = 'message_loss_ratio'\norder = ['fast', 'noisy']" => Undecided;
    a_loss_that_may_be_none_beside_nothing_lost_is_undecided: "condition = 'plain'\nmetric = 'message_loss_ratio'\norder = ['noisy', 'fast']" => Undecided;
    the_last_is_worse_than_all_others: "condition = 'plain'\ntransport = ['fast', 'alike', 'slow']\nlast = 'slow'" => ComesOut;
    the_first_is_better_than_all_others: "condition = 'plain'\ntransport = ['fast', 'alike', 'slow']\nfirst = 'slow'" => DoesNot;
    the_first_is_compared_with_the_whole_study: "condition = 'plain'\nfirst = 'fast'" => DoesNot;
    values_of_a_sweep_are_chosen: "condition = 'far'\nwhere = {'condition.delay' = '..20ms'}\norder = ['fast', 'slow']" => ComesOut;

    an_order_in_most_cells_comes_out: "in_most = true\norder = ['fast', 'slow']" => ComesOut;
    an_order_in_half_of_the_cells_does_not: "in_most = true\ncondition = ['plain', 'lossy']\norder = ['fast', 'slow']" => DoesNot;
    an_order_in_most_cells_is_undecided: "in_most = true\ncondition = ['plain', 'lossy']\norder = ['fast', 'noisy']" => Undecided;
    an_order_in_most_cells_is_not_measured: "in_most = true\ncondition = 'plain'\norder = ['fast', 'absent']" => NotMeasured;

    the_same_comes_out: "condition = 'plain'\nsame = {of = ['fast', 'alike'], within = '3%'}" => ComesOut;
    the_same_does_not: "condition = 'plain'\nsame = {of = ['fast', 'slow'], within = '10%'}" => DoesNot;
    the_same_is_undecided: "condition = 'plain'\nsame = {of = ['fast', 'noisy']}" => Undecided;
    the_same_is_not_measured: "condition = 'plain'\nsame = {of = ['fast', 'absent']}" => NotMeasured;
    a_wider_margin_makes_the_same: "transport = 'fast'\nsame = {of = [{workload = 'whole'}, {workload = 'part'}], within = '20%'}" => ComesOut;

    a_ratio_comes_out: "condition = 'plain'\nratio = {of = 'fast', to = 'slow', at_least = 1.8, at_most = 2.2}" => ComesOut;
    a_ratio_does_not: "condition = 'plain'\nratio = {of = 'fast', to = 'slow', at_least = 2.5}" => DoesNot;
    a_ratio_is_undecided: "condition = 'plain'\nratio = {of = 'fast', to = 'noisy', at_most = 1.1}" => Undecided;
    a_ratio_is_not_measured: "condition = 'plain'\nratio = {of = 'absent', to = 'fast', at_most = 1.1}" => NotMeasured;
    a_ratio_of_conditions_comes_out: "transport = 'fast'\nratio = {of = {condition = 'lossy'}, to = {condition = 'plain'}, at_least = 0.45, at_most = 0.55}" => ComesOut;
    a_ratio_is_of_values_and_not_of_what_is_better: "condition = 'plain'\nmetric = 'cpu_host_ratio'\nratio = {of = 'slow', to = 'fast', at_least = 2.8, at_most = 3.2}" => ComesOut;

    counts_that_are_the_same_in_all_trials_have_a_ratio: "transport = 'fast'\ncondition = 'plain'\nmetric = 'messages_sent'\nratio = {of = {workload = 'part'}, to = {workload = 'whole'}, at_least = 0.9, at_most = 0.9}" => ComesOut;
    counts_that_are_the_same_in_all_trials_have_a_trend: "transport = 'fast'\ncondition = 'plain'\nmetric = 'messages_sent'\ntrend = {is = 'falls', over = ['whole', 'part']}" => ComesOut;

    two_values_of_nothing_have_a_ratio_of_one: "condition = 'plain'\nmetric = 'message_loss_ratio'\nratio = {of = 'fast', to = 'alike', at_least = 0.9, at_most = 1.1}" => ComesOut;
    two_values_of_nothing_have_no_other_ratio: "condition = 'plain'\nmetric = 'message_loss_ratio'\nratio = {of = 'fast', to = 'alike', at_least = 1.1}" => DoesNot;

    a_value_comes_out: "transport = 'fast'\ncondition = 'plain'\nworkload = 'whole'\nvalue = {at_least = '90Mbit/s', at_most = '110Mbit/s'}" => ComesOut;
    a_value_does_not: "transport = 'fast'\ncondition = 'plain'\nvalue = {at_least = '110Mbit/s'}" => DoesNot;
    a_value_is_undecided: "transport = 'noisy'\ncondition = 'plain'\nvalue = {at_least = '90Mbit/s'}" => Undecided;
    a_value_is_not_measured: "transport = 'absent'\ncondition = 'plain'\nvalue = {at_least = '90Mbit/s'}" => NotMeasured;
    a_metric_that_no_trial_has_is_not_measured: "transport = 'fast'\nmetric = 'min_rtt_ns'\nvalue = {at_least = '1ms'}" => NotMeasured;
    nothing_is_lost: "transport = 'fast'\nmetric = 'message_loss_ratio'\nvalue = {at_most = '0%'}" => ComesOut;
    something_is_lost: "transport = 'slow'\nmetric = 'message_loss_ratio'\nvalue = {at_most = '0%'}" => DoesNot;
    every_trial_is_whole: "transport = 'fast'\nmetric = 'whole_transfer_ratio'\nvalue = {at_least = '100%', every_trial = true}" => ComesOut;
    one_trial_is_not_whole: "transport = 'noisy'\nmetric = 'whole_transfer_ratio'\nvalue = {at_least = '100%', every_trial = true}" => DoesNot;
    a_share_of_five_is_undecided: "transport = 'fast'\nmetric = 'whole_transfer_ratio'\nvalue = {at_least = '90%'}" => Undecided;

    a_falling_trend_comes_out: "transport = 'fast'\ncondition = 'far'\ntrend = {is = 'falls', over = 'condition.delay'}" => ComesOut;
    a_trend_of_the_wrong_direction_does_not: "transport = 'fast'\ntrend = {is = 'rises', over = 'condition.delay'}" => DoesNot;
    a_trend_of_noise_is_undecided: "transport = 'noisy'\ntrend = {is = 'falls', over = 'condition.delay'}" => Undecided;
    a_trend_is_not_measured: "transport = 'absent'\ntrend = {is = 'falls', over = 'condition.delay'}" => NotMeasured;
    a_trend_of_what_is_the_same_does_not: "transport = 'slow'\nworkload = 'whole'\ntrend = {is = 'rises', over = ['plain', 'lossy']}" => DoesNot;
    a_step_back_is_no_trend: "transport = 'slow'\ntrend = {is = 'rises', over = ['far, 10 ms each way', 'far, 30 ms each way', 'far, 20 ms each way', 'lossy']}" => DoesNot;
    conditions_are_a_parameter: "transport = 'fast'\ntrend = {is = 'falls', over = ['plain', 'lossy']}" => ComesOut;
    a_steady_line_comes_out: "condition = 'plain'\nworkload = 'whole'\ntrend = {is = 'steady', over = ['fast', 'alike']}" => ComesOut;
    a_steady_line_does_not: "transport = 'fast'\ntrend = {is = 'steady', over = 'condition.delay', within = '20%'}" => DoesNot;
    a_ratio_falls_along_a_parameter: "workload = 'whole'\ntrend = {is = 'falls', of = 'fast', to = 'slow', over = 'condition.delay'}" => ComesOut;
    a_ratio_does_not_rise_along_a_parameter: "trend = {is = 'rises', of = 'fast', to = 'slow', over = 'condition.delay'}" => DoesNot;
    a_ratio_of_noise_is_undecided: "trend = {is = 'falls', of = 'fast', to = 'noisy', over = ['plain', 'lossy']}" => Undecided;

    a_ratio_rises_along_a_parameter: "workload = 'whole'\ntrend = {is = 'rises', of = 'slow', to = 'fast', over = 'condition.delay'}" => ComesOut;
    a_ratio_does_not_fall_along_a_parameter: "trend = {is = 'falls', of = 'slow', to = 'fast', over = 'condition.delay'}" => DoesNot;
    a_ratio_that_falls_once_does_not_rise: "workload = 'whole'\ntrend = {is = 'rises', of = 'slow', to = 'fast', over = ['far, 10 ms each way', 'far, 30 ms each way', 'far, 20 ms each way']}" => DoesNot;
    a_ratio_that_rises_once_does_not_fall: "workload = 'whole'\ntrend = {is = 'falls', of = 'fast', to = 'slow', over = ['far, 10 ms each way', 'far, 30 ms each way', 'far, 20 ms each way']}" => DoesNot;
    a_ratio_that_stays_neither_falls: "trend = {is = 'falls', of = 'fast', to = 'alike', over = 'condition.delay'}" => Undecided;
    a_ratio_that_stays_neither_rises: "trend = {is = 'rises', of = 'fast', to = 'alike', over = 'condition.delay'}" => Undecided;
    a_ratio_is_steady: "trend = {is = 'steady', of = 'fast', to = 'alike', over = 'condition.delay', within = '5%'}" => ComesOut;
    a_ratio_is_not_steady: "trend = {is = 'steady', of = 'fast', to = 'slow', over = 'condition.delay', within = '20%'}" => DoesNot;
    a_ratio_of_noise_may_be_steady: "trend = {is = 'steady', of = 'fast', to = 'noisy', over = ['plain', 'lossy'], within = '5%'}" => Undecided;
    a_ratio_that_nearly_doubles_may_be_steady_within_as_much: "workload = 'whole'\ntrend = {is = 'steady', of = 'slow', to = 'fast', over = ['far, 10 ms each way', 'far, 20 ms each way'], within = '90%'}" => Undecided;
    a_ratio_that_nearly_doubles_is_not_steady_within_a_half: "workload = 'whole'\ntrend = {is = 'steady', of = 'slow', to = 'fast', over = ['far, 10 ms each way', 'far, 20 ms each way'], within = '50%'}" => DoesNot;
    a_steady_line_of_noise_is_undecided: "trend = {is = 'steady', over = ['fast', 'noisy']}" => Undecided;

    a_crossing_comes_out: "crossing = {of = 'slow', past = 'fast', over = 'condition.delay', from = '20ms', to = '30ms'}" => ComesOut;
    a_crossing_at_another_place_does_not: "crossing = {of = 'slow', past = 'fast', over = 'condition.delay', from = '10ms', to = '20ms'}" => DoesNot;
    a_crossing_of_noise_is_undecided: "crossing = {of = 'noisy', past = 'fast', over = ['plain', 'far, 30 ms each way'], from = 'plain', to = 'far, 30 ms each way'}" => Undecided;
    a_crossing_is_not_measured: "crossing = {of = 'absent', past = 'fast', over = 'condition.delay', from = '20ms', to = '30ms'}" => NotMeasured;

    what_no_run_shows_is_said: "not_seen = 'a judgement'" => NotSeen;
}

/// By hand: at 30 ms the transports are 30 and 60.
#[test]
fn a_check_names_the_cells_and_the_figures_that_decide() {
    let found = claim("workload = 'whole'\ncondition = 'far'\norder = ['fast', 'slow']");
    let [_, _, at_30_ms] = &found.checks[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(at_30_ms.outcome, DoesNot);
    let start = "`far, 30 ms each way`, `whole`: `fast` is behind `slow`: ";
    assert!(at_30_ms.text.starts_with(start), "{}", at_30_ms.text);
    let cells = [
        ["fast", "far, 30 ms each way", "whole"],
        ["slow", "far, 30 ms each way", "whole"],
    ];
    assert_eq!(at_30_ms.cells, cells.map(|cell| cell.map(str::to_owned)));
    assert!(
        found.found.starts_with("1 of 3, such as `far, 30"),
        "{}",
        found.found
    );
}

/// By hand: `slow` is ahead at 30 ms and the same with losses, of either workload. A place has a check for each of two pairs.
#[test]
fn a_claim_about_most_cells_counts_places_and_names_an_exception() {
    let found = claim("in_most = true\norder = [['fast', 'alike'], 'slow']");
    assert_eq!((found.outcome, found.checks.len()), (ComesOut, 20));
    let start = "6 of 10, such as `plain`, `whole`: `fast` is ahead of `slow`: ";
    assert!(found.found.starts_with(start), "{}", found.found);
    let exception = "; but `lossy`, `whole`: `fast` and `slow` are the same";
    assert!(found.found.ends_with(exception), "{}", found.found);
}

/// A claim adds nothing to the family of the ranking.
#[test]
fn claims_change_nothing_of_the_comparisons() {
    let comparisons = |claims: &str| {
        let data = run(claims);
        let index = Index::of(&data, &trials_by_cell(&data));
        claims::all(&index)
    };
    let claim = "[[claim]]\ntext = 'a'\ntransport = 'fast'\nmetric = 'cpu_host_ratio'\n\
                 trend = {is = 'falls', over = ['plain', 'lossy']}";
    assert_eq!(comparisons(claim), comparisons(""));
}

#[test]
fn the_line_about_all_claims_has_russian_forms() {
    let all = claims(
        "[[claim]]\ntext = \"a\"\ncondition = 'plain'\norder = ['fast', 'slow']\n\
         [[claim]]\ntext = \"b\"\ncondition = 'plain'\norder = ['slow', 'fast']\n\
         [[claim]]\ntext = \"c\"\nnot_seen = 'a judgement'\n",
    );
    let text = || line(&all).expect("a line");
    assert_eq!(
        text(),
        "1 of 2 claims come out, 1 does not, 1 more cannot be seen here"
    );
    let russian = with(Language::Russian, text);
    assert!(
        !russian.contains(|c: char| c.is_ascii_alphabetic()),
        "{russian}"
    );
}

/// Of an interval that is too wide to be shown the end nearer to no difference is, if there is a difference beyond it.
#[test]
fn a_wide_interval_on_one_side_of_no_difference_shows_its_end() {
    for (interval, text, change) in [
        ([0.005, 0.0744], Some("a / b < 0.075"), Some("< −92.5 %")),
        ([1e-9, 2.14e-4], Some("a / b < 0.00022"), Some("< −99.9 %")),
        ([13.2, 90.0], Some("a / b > 13"), Some("> +1200 %")),
        ([132.0, 900.0], Some("a / b > 130"), Some("> +12900 %")),
        ([0.9, 90.0], None, None),
        ([0.2, 1.0], None, None),
        ([1.0, 90.0], None, None),
    ] {
        let ratio = Ratio {
            value: Some(interval[0] * 2.0),
            interval: Some(interval),
            conclusion: Conclusion::Undecided,
        };
        assert_eq!(ratio.text("a / b").as_deref(), text);
        assert_eq!(ratio.change_text().as_deref(), change);
    }
}

/// One round decides nothing, and its ratio is shown all the same. By hand: 100.4 / 49.8.
#[test]
fn a_ratio_of_one_round_is_shown_without_an_interval() {
    let keys = "condition = 'plain'\nworkload = 'whole'\n";
    let claims = format!(
        "[[claim]]\ntext = 'a'\n{keys}ratio = {{of = 'fast', to = 'slow', at_least = 1.8}}\n\
         [[claim]]\ntext = 'b'\n{keys}order = ['fast', 'slow']\n"
    );
    let mut data = run(&claims);
    data.trials.retain(|trial| trial.round == 0);
    let found = checked(&data);
    let texts: Vec<(ClaimOutcome, &str)> =
        found.iter().map(|it| (it.outcome, &*it.found)).collect();
    let expected = [
        (
            Undecided,
            "`plain`, `whole`: `fast` / `slow` = 2.02 (no interval)",
        ),
        (
            Undecided,
            "`plain`, `whole`: `fast` against `slow`: 2.02 × (no interval)",
        ),
    ];
    assert_eq!(texts, expected);
}

/// By hand: 18.7 is the end that is nearer to no difference.
#[test]
fn the_lead_of_a_wide_interval_is_its_nearer_end() {
    for (interval, text) in [
        (Some([18.7, 80.0]), Some("> 18 ×")),
        (Some([1.2, 80.0]), None),
        (Some([2.9, 3.1]), Some("3.00 × [2.90, 3.10]")),
        (None, Some("3.00 × (no interval)")),
    ] {
        let ratio = Ratio {
            value: Some(3.0),
            interval,
            conclusion: Conclusion::Faster,
        };
        assert_eq!(ratio.lead_text().as_deref(), text);
    }
}

/// The same end of an interval is shown once.
#[test]
fn an_interval_without_width_is_not_shown() {
    let text = |interval| {
        let ratio = Ratio {
            value: Some(1.5),
            interval: Some(interval),
            conclusion: Conclusion::Undecided,
        };
        [ratio.text("a / b"), ratio.change_text()]
    };
    let texts = |[ratio, change]: [&str; 2]| [ratio, change].map(|it| Some(it.to_owned()));
    assert_eq!(text([1.5; 2]), texts(["a / b = 1.50", "+50.0 %"]));
    assert_eq!(
        text([1.4, 1.6]),
        texts(["a / b = 1.50 [1.40, 1.60]", "+50.0 % [+40.0, +60.0]"])
    );
}

/// Returns the texts of the checks of a claim.
fn texts(keys: &str) -> Vec<String> {
    let found = claim(keys);
    found.checks.into_iter().map(|check| check.text).collect()
}

macro_rules! texts {
    ($($name:ident: $keys:literal => $texts:expr;)+) => {$(
        #[test]
        fn $name() {
            assert_eq!(texts($keys), $texts);
        }
    )+};
}

texts! {
    counts_that_are_the_same_in_all_trials_have_no_interval: "transport = 'fast'\ncondition = 'plain'\nmetric = 'messages_sent'\ntrend = {is = 'falls', over = ['whole', 'part']}" => ["`fast`, `plain`: from `whole` to `part`: −10.0 %"];
    an_order_tells_how_far_ahead: "condition = 'plain'\nworkload = 'whole'\norder = ['fast', 'slow']" => ["`plain`, `whole`: `fast` is ahead of `slow`: 2.00 × [1.95, 2.05]"];
    an_order_of_costs_tells_how_far_ahead: "condition = 'plain'\nworkload = 'whole'\nmetric = 'cpu_host_ratio'\norder = ['fast', 'slow']" => ["`plain`, `whole`: `fast` is ahead of `slow`: 3.00 × [2.97, 3.03]"];
    a_wide_interval_of_a_ratio_has_both_values: "condition = 'plain'\nworkload = 'whole'\norder = ['fast', 'noisy']" => ["`plain`, `whole`: `fast` against `noisy`: 100.0 Mbit/s against 96.4 Mbit/s, too few rounds"];
    an_order_of_nothing_lost_has_both_values: "condition = 'plain'\nworkload = 'whole'\nmetric = 'message_loss_ratio'\norder = ['fast', 'slow']" => ["`plain`, `whole`: `fast` is ahead of `slow`: 0 % against 2.00 % [1.99, 2.01]"];
    an_unsupported_transport_has_its_outcome: "condition = 'plain'\nworkload = 'whole'\norder = ['fast', 'absent']" => ["`absent`, `plain`, `whole`: unsupported"];
    a_metric_that_is_not_there_is_named: "transport = 'fast'\ncondition = 'plain'\nworkload = 'whole'\nmetric = 'min_rtt_ns'\nvalue = {at_least = '1ms'}" => ["`fast`, `plain`, `whole` has no figure of minimum RTT"];
    a_value_has_its_interval: "transport = 'fast'\ncondition = 'plain'\nworkload = 'whole'\nvalue = {at_least = '90Mbit/s'}" => ["`fast`, `plain`, `whole`: 100.0 Mbit/s [99.6, 100.4]"];
    a_value_without_width_has_none: "transport = 'fast'\ncondition = 'plain'\nworkload = 'whole'\nmetric = 'message_loss_ratio'\nvalue = {at_most = '0%'}" => ["`fast`, `plain`, `whole`: 0 %"];
    a_trend_has_its_ends: "transport = 'fast'\nworkload = 'whole'\ntrend = {is = 'falls', over = 'condition.delay'}" => ["`fast`, `whole`: from `far, 10 ms each way` to `far, 30 ms each way`: −66.7 % [−67.1, −66.3]"];
    a_trend_has_its_step_back: "transport = 'fast'\nworkload = 'whole'\ntrend = {is = 'falls', over = ['plain', 'far, 30 ms each way', 'far, 10 ms each way']}" => ["`fast`, `whole`: from `plain` to `far, 10 ms each way`: −10.0 % [−11.1, −8.92]; `fast`, `whole`: from `far, 30 ms each way` to `far, 10 ms each way`: +200.0 % [+196.5, +203.6]"];
    a_steady_line_has_the_first_of_its_gravest_pairs: "transport = 'fast'\nworkload = 'whole'\ntrend = {is = 'steady', over = ['plain', 'far, 10 ms each way', 'far, 30 ms each way'], within = '20%'}" => ["`fast`, `whole`: from `plain` to `far, 30 ms each way`: −70.0 % [−70.2, −69.8]"];
    a_trend_of_a_ratio_has_both_ends: "workload = 'whole'\ntrend = {is = 'falls', of = 'fast', to = 'slow', over = 'condition.delay'}" => ["`whole`: `fast`, `far, 10 ms each way` / `slow`, `far, 10 ms each way` = 2.25 [2.19, 2.31], `fast`, `far, 30 ms each way` / `slow`, `far, 30 ms each way` = 0.5 [0.487, 0.514]"];
    a_trend_of_no_loss_has_values: "workload = 'whole'\nmetric = 'message_loss_ratio'\ntransport = 'fast'\ntrend = {is = 'rises', over = ['plain', 'lossy']}" => ["`fast`, `whole`: from `plain` to `lossy`: 0 % against 0 %"];
}

/// A study with one entry of each part: the cell has the name of its transport.
#[test]
fn the_only_cell_is_named_by_its_transport() {
    let study = "rounds = 5\n[[transport]]\ndriver = 'tcp'\n[[condition]]\nname = 'path'\n[[workload]]\nkind = 'bulk'\n\
                 [[claim]]\ntext = 'it is so'\nvalue = {at_least = '90Mbit/s'}\n";
    let data = fixture::run(study, |_, round| {
        trial(round, Outcome::Measured, &[(id::GOODPUT_BPS, 100e6)])
    });
    let found = &crate::analysis::summarise(&data).claims[0];
    assert_eq!(found.found, "`tcp`: 100.0 Mbit/s");
}
