//! Options that describe a path, common to all commands that create one.

use std::time::Duration;

use clap::Args;
use regatta_model::{Emulator, LossBy, Offloads, Placement};

use super::{
    assignment::{Assignment, Assignments, assignment, assignments},
    keys::PathKeys,
    values::{duration, named_value},
};

/// The path: what is not given is a study's, or the default.
///
/// Each option but the last ones is a key of a study's `[[condition]]`, and `docs/conditions.md`
/// says precisely what it means. Quantities may begin with a hyphen, so that a negative one is
/// refused as what it is and not as an unknown option.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Path (docs/conditions.md)")]
pub struct PathArgs {
    #[command(flatten)]
    pub keys: PathKeys,
    /// A key from the connecting host to the listening one alone, as in `rate=10Mbit/s`; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment, allow_hyphen_values = true)]
    pub forward: Vec<Assignment>,
    /// A key the other way alone; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment, allow_hyphen_values = true)]
    pub reverse: Vec<Assignment>,
    /// Change at a time of the transfer, as in `20s:rtt=250ms:reverse.rate=1Mbit/s`;
    /// repeatable
    #[arg(long, value_name = "TIME:KEY=VALUE:…", value_parser = step, allow_hyphen_values = true)]
    pub step: Vec<Step>,
    /// Emulator of the path: `netem` of the kernel, `userspace` for Regatta's own, `none` for a direct
    /// link, `loopback` for both ends on one host, or `auto`, netem where the kernel has it [default without a STUDY: auto]
    #[arg(long, value_name = "EMULATOR", value_parser = named_value::<Emulator>(), hide_possible_values = true)]
    pub emulator: Option<Emulator>,
    /// Placement of netem: `between` the hosts, or on both `ends` as in published experiments
    /// [default without a STUDY: between]
    #[arg(long, value_name = "PLACEMENT", value_parser = named_value::<Placement>(), hide_possible_values = true)]
    pub placement: Option<Placement>,
    /// Source of random loss on netem's paths: the `emulator`, or `iptables` by its statistic match
    /// [default without a STUDY: emulator]
    #[arg(long, value_name = "PROGRAM", value_parser = named_value::<LossBy>(), hide_possible_values = true)]
    pub loss_by: Option<LossBy>,
    /// Whether the hosts' offloads stay on with netem, so that loss takes whole super-packets: `on` or
    /// `off` [default without a STUDY: off]
    #[arg(long, value_name = "on|off", value_parser = named_value::<Offloads>(), hide_possible_values = true)]
    pub offloads: Option<Offloads>,
}

impl PathArgs {
    /// Whether something of the condition is given; who emulates it changes nothing of what the path is.
    pub fn describes_a_condition(&self) -> bool {
        !self.keys.0.is_empty()
            || ![&self.forward, &self.reverse]
                .into_iter()
                .all(Vec::is_empty)
            || !self.step.is_empty()
    }
}

/// Step of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: Duration,
    pub becomes: Assignments,
}

fn step(text: &str) -> Result<Step, String> {
    let (at, becomes) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` says not when or not what; write `20s:rtt=250ms`"))?;
    Ok(Step {
        at: duration(at)?,
        becomes: assignments(becomes)?,
    })
}
