//! `regatta plan --detect`: the number of rounds that detects a difference.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use regatta_engine::Plan;
use regatta_model::Study;
use regatta_report::{
    RunData,
    analysis::{POWER, PairSpread, pair_spreads, run_spreads, simultaneous_confidence},
};
use regatta_results::FILE_NAME;

use crate::{
    args::PlanArgs,
    directory::RESULTS,
    dry_run::describe,
    exit::{Code, Failure, OrFailure as _, Result, refuse},
    output, study,
};

/// Runs `regatta plan`.
///
/// # Errors
/// The study or the run cannot be read, or there is no run with the variation between its rounds.
pub fn plan(args: &PlanArgs) -> Result<Code> {
    refuse! {
        args.detect.0 <= 0.0 => "a difference that is to be detected is above zero";
            "it has no sign: write for example `--detect 5%`";
    }
    let own = Path::new(&args.study);
    let (study, pilot) = if own.join(FILE_NAME).exists() && args.pilot.is_none() {
        (None, own.to_owned())
    } else {
        let study = study::read(&args.study)?.file.study;
        let pilot = args.pilot.clone().or_else(|| newest(&study.name));
        let pilot = pilot.ok_or_else(|| {
            Failure::input(
                format!("no run shows how much the rounds of `{}` differ", study.name),
                format!(
                    "run a pilot with `regatta run {} --rounds 5 --out pilot`, then add `--pilot pilot`",
                    args.study
                ),
            )
        })?;
        (Some(study), pilot)
    };
    let data = regatta_report::load(&pilot).bad()?;
    let study = study.unwrap_or_else(|| data.header.study.clone());
    let spreads = spreads_of(&study, &data);
    let measured = match &study.transports[..] {
        [only] => format!("`{}` was measured", only.label),
        _ => "two of these transports were measured".to_owned(),
    };
    refuse! {
        spreads.is_empty() => "`{}` has no two rounds in which {measured}", pilot.display();
            "run two rounds or more of this study, five rather than two";
    }
    let mut text = text(&study, &spreads, &pilot, args.detect.0);
    if let Ok(plan) = Plan::new(&study) {
        let cut = describe::cut_transfers(&plan);
        text.extend(cut.iter().map(|line| format!("{line}\n")));
    }
    output::show(&text)
}

/// Returns the newest directory of a run of a study; their names end with the time.
fn newest(study: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(RESULTS).ok()?.filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .filter(|dir| dir.join(FILE_NAME).exists())
        .filter(|dir| {
            let name = dir.file_name().and_then(|name| name.to_str());
            let time = name.and_then(|name| name.strip_prefix(study)?.strip_prefix('-'));
            time.is_some_and(|time| time.starts_with("20"))
        })
        .max()
}

/// Returns the spreads of those pairs that the study has too. A study of one transport has none: its runs are compared with
/// one another.
fn spreads_of(study: &Study, data: &RunData) -> Vec<PairSpread> {
    let transport = |label: &str| study.transports.iter().any(|t| t.label == label);
    let spreads = match study.transports.len() {
        1 => run_spreads(data),
        _ => pair_spreads(data),
    };
    (spreads.into_iter())
        .filter(|spread| transport(&spread.a) && transport(&spread.b))
        .filter(|spread| study.conditions.iter().any(|c| c.name == spread.condition))
        .filter(|spread| study.workloads.iter().any(|w| w.name == spread.workload))
        .collect()
}

fn text(study: &Study, spreads: &[PairSpread], pilot: &Path, difference: f64) -> String {
    let confidence = simultaneous_confidence(spreads.len());
    let needed = |spread: &PairSpread| spread.rounds_to_detect(1.0 + difference, confidence);
    let rounds_text = |rounds: Option<usize>| match rounds {
        Some(rounds) => rounds.to_string(),
        None => format!("over {}", PairSpread::MAX_ROUNDS),
    };
    let mut text = format!(
        "Rounds of `{}` that detect a difference of {} % with a power of {:.0} %, false claims in the whole run \
         at most 5 %:\n\n",
        study.name,
        regatta_report::format::number(difference * 100.0),
        POWER * 100.0
    );
    let mut most = Some(2);
    for workload in &study.workloads {
        for condition in &study.conditions {
            let cell = format!("{}, {}", condition.name, workload.name);
            // The pair that differs most from round to round decides.
            let here = spreads
                .iter()
                .filter(|s| s.condition == condition.name && s.workload == workload.name);
            let Some(widest) = here.max_by(|a, b| a.deviation.total_cmp(&b.deviation)) else {
                let _ = writeln!(text, "  {cell}: not in the pilot");
                continue;
            };
            let rounds = needed(widest);
            most = most.zip(rounds).map(|(most, rounds)| most.max(rounds));
            let varies = regatta_report::format::number(widest.deviation.exp_m1() * 100.0);
            let (rounds, a, b) = (rounds_text(rounds), &widest.a, &widest.b);
            let other = match a == b {
                true => "another run of it".to_owned(),
                false => format!("`{b}`"),
            };
            let _ = writeln!(
                text,
                "  {cell}: {rounds} rounds (`{a}` against {other} varies by {varies} % from round to round)"
            );
        }
    }
    let least = spreads.iter().map(|spread| spread.n).min().unwrap_or(0);
    let roughly = match least {
        ..10 => ", which know it roughly: take some rounds more",
        _ => "",
    };
    let of_each = match study.transports.len() {
        1 => " in each of the two runs that `regatta compare` compares",
        _ => "",
    };
    let _ = writeln!(
        text,
        "\nAll of it: {} rounds{of_each}. The spread is that of `{}`, of {least} rounds{roughly}.",
        rounds_text(most),
        pilot.display()
    );
    text
}
