//! `regatta merge`: one run of the shards of a plan.

use std::{collections::BTreeMap, convert::identity, fs, path::Path};

use regatta_engine::Plan;
use regatta_model::{Outcome, Shard, shell::quoted};
use regatta_results::{
    merge::{Merge, MergeError, Merged, Refused},
    replace,
};

use super::{cluster::merged_run, run};
use crate::{
    args::MergeArgs,
    exit::{Code, Failure, OrFailure as _, Result},
    listen::Tally,
    output::{self, Colour, counted},
};

/// Name of the file with the shards that still have to be run, one in each line.
const MISSING_SHARDS: &str = "missing-shards.txt";

/// Runs `regatta merge`.
///
/// # Errors
/// If a file cannot be merged, or the merged run cannot be written.
pub fn merge(args: &MergeArgs, colour: Colour) -> Result<Code> {
    let merge = Merge::open(&args.parts).map_err(|error| match error {
        MergeError::Nothing { refused } => refusal(&refused),
        error => merged_run::not_merged(error),
    })?;
    if !merge.refused.is_empty() {
        if !args.skip_bad {
            return Err(refusal(&merge.refused));
        }
        for refused in &merge.refused {
            output::err(&format!("warning: {}", refused.message()));
        }
    }
    let (plan, merged) = merged_run::write(&merge, &args.out)?;
    output::err(&format!(
        "{} of {} trials are merged, from {}{}",
        merged.trials,
        plan.trials().len(),
        counted(merge.parts().count(), "file"),
        match merged.duplicates {
            0 => String::new(),
            several => format!("; {several} were in several files, and were taken once"),
        }
    ));
    let tally = Tally {
        trials: merged.trials as usize,
        measured: count(&merged, Outcome::Measured),
        failed: count(&merged, Outcome::Failed),
        unsupported: count(&merged, Outcome::Unsupported),
    };
    let shards = missing_shards(&merge, &plan, &merged.missing);
    // The report of a large plan needs the memory.
    drop((merge, plan));
    let code = match args.no_report {
        true => tally.verdict_without_gates(),
        false => run::finish(&args.out, (None, None), colour, tally, None)?,
    };
    report_missing(&args.out, &merged, &shards)?;
    Ok(match merged.missing.is_empty() {
        true => code,
        false => Code::Incomplete,
    })
}

fn count(merged: &Merged, outcome: Outcome) -> usize {
    merged.outcomes.get(outcome.name()).copied().unwrap_or(0) as usize
}

/// Makes one error of all files that cannot be merged.
fn refusal(refused: &[Refused]) -> Failure {
    let lines: Vec<String> = refused.iter().map(Refused::message).collect();
    let message = format!(
        "{} cannot be merged, and nothing was written:\n  {}",
        counted(refused.len(), "file"),
        lines.join("\n  ")
    );
    let hint = if refused.iter().all(Refused::is_of_other_version) {
        "merge them with the Regatta that wrote them; or leave them out with `--skip-bad`, and run their shards again with this one"
    } else if refused.iter().all(Refused::is_copy) {
        "leave it out, or give `--skip-bad`: its trials are in the other file, and none is missing then"
    } else {
        "leave them out with `--skip-bad`: trials that no other file has are then missing, and the shards to run again are told"
    };
    Failure::input(message, hint)
}

/// Returns the shards that have a missing trial, by the number of shards that most files have.
fn missing_shards(merge: &Merge, plan: &Plan, missing: &[u32]) -> Vec<Shard> {
    let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
    for shard in merge.parts().filter_map(|part| part.part.shard) {
        *numbers.entry(shard.of).or_default() += 1;
    }
    let most = numbers.iter().max_by_key(|(_, count)| **count);
    most.and_then(|(of, _)| plan.shards_with(missing, *of).ok())
        .unwrap_or_default()
}

/// Says what is missing, and lists the shards in a file.
fn report_missing(dir: &Path, merged: &Merged, shards: &[Shard]) -> Result<()> {
    let path = dir.join(MISSING_SHARDS);
    let lines: Vec<String> = shards.iter().map(Shard::to_string).collect();
    let written = match lines.is_empty() {
        true if path.exists() => fs::remove_file(&path),
        true => Ok(()),
        false => replace(&path, identity, |out| writeln!(out, "{}", lines.join("\n"))),
    };
    written.cannot("write", &path)?;
    if merged.missing.is_empty() {
        return Ok(());
    }
    let missing = counted(merged.missing.len(), "trial");
    output::err(&match lines.is_empty() {
        true => format!(
            "{missing} are missing\nhint: run `regatta resume {}` to run them here",
            quoted(dir)
        ),
        false => format!(
            "{missing} are missing, of these shards: {}\nhint: run each again with `--shard` (the list is in \
             `{}`), then merge again",
            lines.join(" "),
            path.display()
        ),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use regatta_results::{ResultsError, merge::Refusal};

    use super::*;

    #[test]
    fn files_of_another_version_have_a_remedy_of_their_own() {
        let hint = |refusals: Vec<Refusal>| {
            let path = PathBuf::from("shard-1");
            let refused = refusals.into_iter().map(|refusal| Refused {
                path: path.clone(),
                refusal,
            });
            refusal(&Vec::from_iter(refused)).message_and_hint().1
        };
        let other = || {
            Refusal::Results(ResultsError::OtherVersion {
                path: PathBuf::from("shard-1"),
                found: 5,
                writer: None,
            })
        };
        assert!(hint(vec![other()]).starts_with("merge them with the Regatta"));
        assert!(hint(vec![other(), Refusal::Merged]).starts_with("leave them out"));
    }
}
