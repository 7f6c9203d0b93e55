//! Checks of a run before anything of it starts: `regatta run --dry-run` makes the same ones.

use std::{collections::BTreeSet, time::Duration};

use regatta_bed::guest::{self, Image, ImageError};
use regatta_engine::Plan;
use regatta_model::{
    BedKind, Clock, Condition, GuestSetup, Study, Transport, Until, Workload, causes,
    units::format_duration,
};
use regatta_path_daemon::check::longest;
use regatta_process::loads_modules;
use regatta_telemetry::{congestion_controls, has_congestion_control};

use serde::Serialize;

use crate::{
    exit::{Code, Failure, Result, did_you_mean, limit_hint, refuse},
    study::{Chosen, ReadStudy, registry},
};

/// Checks that the rounds of a series fit into its period.
///
/// # Errors
/// If the estimate of a round is longer than the period.
pub fn period(plan: &Plan) -> Result<()> {
    let Some((round, every)) = plan.too_long_for_its_period() else {
        return Ok(());
    };
    let [round, every] = [round.as_secs() + 1, every.as_secs()].map(Duration::from_secs);
    Err(Failure::input(
        format!(
            "a round of the series takes about {}, and the next one begins after {}",
            format_duration(round),
            format_duration(every)
        ),
        "write a longer `every`, a shorter `deadline`, or fewer transports, conditions or workloads",
    ))
}

/// Longest check of a path in real time.
const LONGEST_CHECK: Duration = Duration::from_secs(3600);

/// Checks that the paths of a study can be checked before its trials.
///
/// # Errors
/// For the first condition under which a check takes longer than an hour, in virtual time than 30 days.
pub fn path_checks(study: &Study) -> Result<()> {
    if study.path.emulator.is_absent() {
        return Ok(());
    }
    let most = match study.guest.clock {
        Clock::Virtual => Condition::LONGEST_TIME,
        Clock::Real => LONGEST_CHECK,
    };
    for condition in &study.conditions {
        let steps = condition.fixed_steps();
        let steps = steps.iter().map(|(_, step)| longest(step));
        let takes = steps.fold(Duration::ZERO, Duration::saturating_add);
        let shown = [takes, most].map(|it| format_duration(Duration::from_secs(it.as_secs())));
        refuse! {
            takes > most =>
                "the path of the condition `{}` cannot be checked in time: the packets of a check take {}, and {} are allowed",
                condition.name, shown[0], shown[1];
                "write a shorter delay or a higher rate, such as `--rtt 1s` or `--rate 1Mbit/s`";
        }
    }
    Ok(())
}

/// Checks that the rule by which a study ends can end it.
///
/// # Errors
/// For one transport, of which nothing can be decided, and for a time limit in virtual time.
pub fn stop_rule(study: &Study) -> Result<()> {
    refuse! {
        study.until == Some(Until::Decided) && study.transports.len() == 1 =>
            "one transport has no other against which it could be decided";
            "name a second transport, give a number of rounds, or write `until = \"3%\"`";
        study.time_limit.is_some() && study.guest.clock == Clock::Virtual =>
            "a run in virtual time does not depend on the speed of this machine, and a time limit would make it so";
            "leave `for` out, and give `at_most`";
    }
    Ok(())
}

/// Finds the guest's kernel that a study runs on; `None` for a study without a guest.
///
/// # Errors
/// If there is none, or if the one that is named is no kernel which can run the study: with the place
/// in the file that names it.
pub fn kernel(chosen: &Chosen) -> Result<Option<Image>> {
    let GuestSetup { kernel, clock, .. } = &chosen.study.guest;
    if chosen.study.bed != BedKind::Uml {
        return Ok(None);
    }
    let error = match guest::find(kernel.as_deref(), *clock) {
        Ok(image) => return Ok(Some(image)),
        Err(error) => error,
    };
    // A limit of this process is no mistake of the study.
    let is_mistake = kernel.is_some() && limit_hint(&error).is_none();
    let read = chosen.read.as_ref();
    let read = read.filter(|it| is_mistake && it.file.study.guest.kernel == *kernel);
    let in_file = read.and_then(|read| {
        let message = causes(&error).join(": ");
        read.file.kernel_error(message, error.hint())
    });
    Err(in_file.map_or_else(|| no_kernel(error), Failure::bad))
}

/// Without a kernel there is no guest; a wrong one was named.
pub fn no_kernel(error: ImageError) -> Failure {
    let (hint, is_bad_input) = (error.hint(), error.is_bad_input());
    let failure = match limit_hint(&error) {
        None if is_bad_input => Failure::bad(error),
        _ => Failure::unsupported(error),
    };
    failure.context("cannot make the bed").hint(hint)
}

/// Checks that the kernel which runs the trials has the congestion controls that the user named, on
/// the command line or in a study file. `image` is the guest's kernel of a study that has one.
///
/// The names of a built-in study are not the user's: there a kernel that lacks one makes its trials
/// *unsupported*, as do those that a kernel cannot report before the run.
///
/// # Errors
/// The first that the kernel does not have.
pub fn kernel_congestion_controls(chosen: &Chosen, image: Option<&Image>) -> Result<()> {
    if chosen.study.bed == BedKind::Hosts {
        // The kernels are those of the hosts, whose agents report it.
        return Ok(());
    }
    let mut known = BTreeSet::new();
    for transport in &chosen.study.transports {
        let Some((option, name)) = registry::kernel_congestion_control(transport) else {
            continue;
        };
        if known.contains(name) {
            continue;
        }
        let read = (chosen.read.as_ref())
            .and_then(|read| Some((read, position_of(transport, &read.file.study)?)));
        if read.is_some_and(|(read, _)| read.is_builtin()) {
            continue;
        }
        known.insert(name);
        let Some(others) = others_than(name, image) else {
            continue;
        };
        let kernel = match image {
            Some(_) => "the guest's kernel",
            None => "this host's kernel",
        };
        let message = format!(
            "the transport `{}` asks for the congestion control `{name}`, which {kernel} does not have",
            transport.label
        );
        let hint = congestion_control_hint(name, &others, image.is_some());
        return Err(match read {
            Some((ReadStudy { file, .. }, position)) => {
                Failure::bad(file.transport_error(position, Some(option), message, hint))
            }
            None => Failure::input(message, hint),
        });
    }
    Ok(())
}

/// Transport, or one with a workload, that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnsupportedCell {
    /// Label of the transport.
    pub transport: String,
    /// Name of the workload; `None` if it is the transport with any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The reason, as text.
    pub reason: String,
    /// Command or setting that may help; empty if nothing can be done.
    pub hint: String,
}

/// Returns what of a study ends *unsupported*, as far as it is known before the run: transports that cannot do a
/// workload, and where this machine runs the trials those whose program, kernel module or congestion control it lacks.
pub fn unsupported(study: &Study) -> Vec<UnsupportedCell> {
    let mut cells = Vec::new();
    for transport in &study.transports {
        let Some(driver) = regatta_agent::find_driver(&transport.driver) else {
            continue;
        };
        let mut add = |workload: Option<&Workload>, reason, hint| {
            cells.push(UnsupportedCell {
                transport: transport.label.clone(),
                workload: workload.map(|it| it.name.clone()),
                reason,
                hint,
            });
        };
        if study.bed == BedKind::Netns
            && let Err(lacks) = driver.supported(&transport.options)
        {
            add(None, lacks.reason.to_string(), lacks.hint.to_string());
            continue;
        }
        for (named, workload) in study.works_of(&transport.label) {
            if let Err(cannot) = driver.applicable(&transport.options, &workload.kind) {
                add(
                    Some(named),
                    cannot.reason.to_string(),
                    cannot.hint.to_string(),
                );
            }
        }
    }
    cells
}

/// Returns the exit code of a dry run: that of a run in which nothing is supported if that is known.
pub fn verdict(study: &Study, unsupported: &[UnsupportedCell]) -> Code {
    let cannot = |transport: &Transport| {
        let of_transport = (unsupported.iter()).filter(|it| it.transport == transport.label);
        let of_transport: Vec<_> = of_transport.collect();
        of_transport.iter().any(|it| it.workload.is_none())
            || of_transport.len() == study.works_of(&transport.label).count()
    };
    match study.transports.iter().all(cannot) {
        true => Code::Unsupported,
        false => Code::Measured,
    }
}

/// Position in a study of the transport that this one is, whatever its label is by now.
fn position_of(transport: &Transport, study: &Study) -> Option<usize> {
    study.transports.iter().position(|written| {
        written.driver == transport.driver && written.options == transport.options
    })
}

/// Names of the congestion controls that a kernel has instead of one that it lacks: the guest's, or
/// this host's. `None` if it has that one, or if this is unknown.
fn others_than(name: &str, image: Option<&Image>) -> Option<Vec<String>> {
    match image {
        Some(image) => {
            let names = image.congestion_controls.as_ref()?;
            let lacking = !names.contains(&name);
            lacking.then(|| names.iter().map(|&name| name.to_owned()).collect())
        }
        None => (has_congestion_control(name) == Some(false)).then(congestion_controls),
    }
}

fn congestion_control_hint(name: &str, others: &[String], in_guest: bool) -> String {
    let list = others.join(", ");
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let near = did_you_mean(name, &others);
    if !near.is_empty() {
        return format!("{near}the kernel has: {list}");
    }
    let lower = name.to_lowercase();
    let mut known = guest::CONGESTION_CONTROLS.iter();
    if lower != name && known.any(|(_, it)| *it == lower) {
        return format!("names of congestion controls have no capitals: write `{lower}`");
    }
    let choice = format!("choose one that the kernel has: {list}");
    if in_guest || !guest::CONGESTION_CONTROLS.iter().any(|(_, it)| *it == name) {
        return choice;
    }
    let load = match loads_modules() {
        true => format!(", load it with `sudo modprobe tcp_{name}`"),
        false => String::new(),
    };
    format!("{choice}{load}, or run with `--bed uml`, whose kernel has `{name}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(congestion_controls: Option<Vec<&'static str>>) -> Image {
        Image {
            path: "linux".into(),
            release: "6.12".to_owned(),
            travels_in_time: true,
            congestion_controls,
        }
    }

    #[test]
    fn congestion_controls_of_the_own_guest_kernel_are_checked() {
        let image = guest(Some(vec!["reno", "cubic"]));
        assert_eq!(others_than("cubic", Some(&image)), None);
        let others = others_than("bbr", Some(&image)).expect("it lacks `bbr`");
        assert_eq!(others, ["reno", "cubic"]);
        let hint = congestion_control_hint("bbr", &others, true);
        assert_eq!(hint, "choose one that the kernel has: reno, cubic");
    }

    #[test]
    fn capitals_of_a_congestion_control_are_noticed() {
        let others = ["cubic".to_owned(), "bbr".to_owned()];
        let hint = congestion_control_hint("BBR", &others, false);
        assert_eq!(hint, "did you mean `bbr`? the kernel has: cubic, bbr");
        let hint = congestion_control_hint("BBR", &others[..1], false);
        assert!(hint.ends_with("write `bbr`"), "{hint}");
    }

    #[test]
    fn congestion_controls_of_a_user_kernel_are_unknown() {
        assert_eq!(others_than("brutal", Some(&guest(None))), None);
    }
}
