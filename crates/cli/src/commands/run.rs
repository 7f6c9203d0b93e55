//! `regatta run` and `regatta resume`.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use regatta_bed::{
    Bed, StopRequest,
    guest::{self, Image},
};
use regatta_engine::{Done, Ending, EngineError, Plan, Run, RunOptions, StopRule, guest::GuestRun};
use regatta_model::{
    BedKind, Clock, OptionValue, ProblemKind, Shard, Study, TrialRecord, causes, shell::quoted,
    units::format_duration,
};
use regatta_report::pdf::{Form, Paper};
use regatta_results::{Reader, ResultsError, RunLock, RunState};
use regatta_transport::{FILE_OPTIONS, TransportError, has_noise_file, make_noise_file};

use super::{attach, report};
use crate::{
    args::{FailOn, ResumeArgs, RunArgs, ViewArgs},
    directory,
    dry_run::{checks, describe},
    exit::{Code, Failure, OrFailure as _, Result, no_bed, own_executable, refuse},
    hosts::remote,
    interrupt::Held,
    listen::{JsonLines, Listeners, Progress, ProgressFile, StoreListener, Tally},
    output::{self, Colour, OutputError, counted, typeset},
    provenance, study,
};

/// Rule of runs that end when they are decided: the report's own judgement.
pub const STOP_RULE: StopRule = StopRule {
    digest: regatta_report::digest,
    is_decided: regatta_report::is_decided,
};

/// Runs `regatta run`.
///
/// # Errors
/// Errors that prevent the study from running to its end.
pub fn run(args: &RunArgs, colour: Colour) -> Result<Code> {
    let chosen = study::choose(args)?;
    report::check_claims(args.fail_on, &chosen.study)?;
    for warning in chosen.study.warnings() {
        output::warn(&warning);
    }
    let plan = Plan::new(&chosen.study)
        .bad()
        .hint("ask for fewer `--rounds`, transports or conditions")?
        .with_stop_rule(STOP_RULE);
    checks::stop_rule(&chosen.study)?;
    checks::period(&plan)?;
    checks::path_checks(&chosen.study)?;
    let jobs = args.jobs.unwrap_or(1);
    refuse! {
        jobs > 1 && chosen.study.guest.clock != Clock::Virtual =>
            "trials that run at once share the machine, and then measure one another";
            "leave `--jobs` out, or run in virtual time with `--bed uml --clock virtual`";
        jobs > 1 && plan.study().cell_end.is_some() =>
            "guests that run at once do not know one another's trials, so that `successes` and `deadlines` cannot end their cells";
            "leave `--jobs` out, or give a number of rounds";
    }
    let done = state_of(&plan, args.shard, earlier(&plan, &args.done)?)?;
    let image = checks::kernel(&chosen)?;
    checks::kernel_congestion_controls(&chosen, image.as_ref())?;
    directory::check(args.out.as_deref())?;
    if plan.study().bed == BedKind::Uml {
        // The guest makes the bed, and would say it later.
        let (path, conditions) = (plan.study().path, &plan.study().conditions);
        regatta_bed::with_emulator_for(path, conditions).map_err(no_bed)?;
    }
    if args.dry_run {
        // The bed is made, as only its kernel knows what it can do, and taken down again.
        if plan.study().bed != BedKind::Uml {
            let (hosts_file, executable) = (args.hosts_file.as_deref(), own_executable());
            let (study, stop) = (plan.study(), StopRequest::default());
            drop(make_bed(study, hosts_file, executable, &new_id(), &stop)?);
        }
        let unsupported = checks::unsupported(plan.study());
        match args.json {
            true => describe::print_json(&plan, jobs, &done, &unsupported),
            false => describe::print(&plan, jobs, args.shard, &done, &unsupported),
        }?;
        return Ok(checks::verdict(plan.study(), &unsupported));
    }
    if plan.remaining_rounds(&done).is_empty() {
        output::err(
            "nothing is left to do: all trials are finished in the directories of `--done`",
        );
        return Ok(Code::Measured);
    }
    let held = Held::new()?;
    let dir = directory::make(args.out.as_deref(), &chosen.study.name)?;
    let options = RunOptions {
        run_id: new_id(),
        study_text: chosen.text,
        part: plan.part(args.shard, &done, provenance::node()),
        done,
        files: files_of(&dir, &chosen.study)?,
    };
    let session = RunSession {
        dir: &dir,
        store: StoreListener::new(&dir),
        json: args.json,
        silent: args.no_progress,
        colour,
        jobs,
        hosts_file: args.hosts_file.as_deref(),
        image,
        views: &args.views,
        earlier: Vec::new(),
        fail_on: args.fail_on,
    };
    let result = session.start(held, plan, options);
    if result.is_err() {
        // A run that could not start leaves nothing behind; this fails for one that did.
        let _ = std::fs::remove_dir(&dir);
    }
    result
}

/// Runs `regatta resume`.
///
/// # Errors
/// Errors that prevent the run from continuing to its end.
pub fn resume(args: &ResumeArgs, colour: Colour) -> Result<Code> {
    let held = Held::new()?;
    let dir = directory::of_run(&args.dir);
    let open = |error| Failure::bad(error).context(format!("cannot resume `{}`", dir.display()));
    // Whatever speaks against going on is found while the file is as it was.
    let claim = RunLock::new(dir).map_err(open)?;
    let header = claim.reader().header().map_err(open)?;
    let records = claim.reader().trials().map_err(open)?;
    let state = claim.reader().state().map_err(open)?;
    report::check_claims(args.fail_on, &header.study)?;
    let plan = Plan::new(&header.study).bad()?.with_stop_rule(STOP_RULE);
    let shard = header.part.shard;
    let done = match plan.done(&records).bad() {
        // Its shards may be others, too.
        Ok(_) if shard.is_some() && plan.digest() != header.part.plan_sha256 => {
            let message = "the SHA-256 of the plan is not that of the results file";
            Err(Failure::input(message, ""))
        }
        done => done,
    };
    let done = done
        .context(format!(
            "`{}` was made by another plan than this version of Regatta makes of its study",
            dir.display()
        ))
        .hint(format!(
            "resume it with Regatta {}, or run the study again",
            header.regatta_version
        ))?;
    let done = state_of(&plan, shard, done)?;
    let tally = Tally::of(&records);
    // A run that ended by its rule is complete with fewer trials than its plan, unless it was out of time.
    let nothing_left = match header.study.until {
        Some(_) => plan.is_over(&done),
        None => header.study.may_end_early() || tally.trials == plan.trials_of(&done) as usize,
    };
    if state == RunState::Complete && nothing_left {
        output::err(&format!(
            "nothing is left to do: the run is complete, with {}",
            counted(tally.trials, "trial")
        ));
        drop(claim);
        let json = args.json.then_some(JsonLines);
        return finish_part(dir, shard, (json, args.fail_on), colour, tally, None);
    }
    let Study { bed, guest, .. } = &header.study;
    let image = (*bed == BedKind::Uml).then(|| guest::find(guest.kernel.as_deref(), guest.clock));
    let image = image.transpose().map_err(checks::no_kernel)?;
    let opened = claim.open().map_err(open)?;
    let options = RunOptions {
        run_id: header.run_id,
        study_text: header.study_text,
        part: header.part,
        done,
        files: files_of(dir, &header.study)?,
    };
    RunSession {
        dir,
        store: StoreListener::resumed(dir, opened, tally),
        json: args.json,
        silent: args.no_progress,
        colour,
        jobs: 1,
        hosts_file: args.hosts_file.as_deref(),
        image,
        views: &args.views,
        earlier: records,
        fail_on: args.fail_on,
    }
    .start(held, plan, options)
}

/// Run that is about to start or to continue.
struct RunSession<'a> {
    dir: &'a Path,
    store: StoreListener,
    json: bool,
    silent: bool,
    colour: Colour,
    jobs: u32,
    /// File of the hosts, if the user names one.
    hosts_file: Option<&'a Path>,
    /// The guest's kernel, for a study that has a guest.
    image: Option<Image>,
    views: &'a ViewArgs,
    /// Trials of earlier parts of the run.
    earlier: Vec<TrialRecord>,
    /// Requirement beside the gates.
    fail_on: Option<FailOn>,
}

impl RunSession<'_> {
    fn start(self, held: Held, plan: Plan, options: RunOptions) -> Result<Code> {
        let executable = own_executable();
        let shard = options.part.shard;
        let views = attach::start(self.views, self.dir, self.earlier, self.json)?;
        let is_silent = self.silent || self.views.live;
        let estimate = describe::estimate(&plan, self.jobs, &options.done);
        let cut = describe::cut_transfers(&plan);
        let estimate = [vec![estimate], cut].concat().join("\n");
        let mut listeners = Listeners {
            store: self.store,
            progress: Progress::new(is_silent, estimate),
            file: (shard.is_some()).then(|| ProgressFile::new(self.dir, &options.part)),
            json: self.json.then_some(JsonLines),
            live: views.listener(),
        };
        let no_thread = |error| Failure::failed(error).context("cannot start a thread");
        let start = Instant::now();
        let dir = self.dir.to_owned();
        let at_once = move || {
            regatta_live::restore_terminal();
            output::err(&partial_results_message(&dir));
        };
        // The path and both hosts go before anything is drawn or computed.
        let result = match self.image {
            None => {
                let study = plan.study().clone();
                let run_id = options.run_id.clone();
                let run = Run::new(plan, options).with_progress(views.progress());
                held.stop_with(run.stopper(), at_once).map_err(no_thread)?;
                let stop = run.stop().clone();
                let bed = make_bed(&study, self.hosts_file, executable, &run_id, &stop);
                match bed {
                    Err(_) if stop.is_requested() => Err(EngineError::Stopped),
                    bed => run.run(&mut bed?, &mut listeners),
                }
            }
            Some(image) => {
                let program = executable.to_owned();
                let run =
                    GuestRun::new(plan, options, image, program, regatta_agent::runs_a_program)
                        .with_jobs(self.jobs);
                held.stop_with(run.stopper(), at_once).map_err(no_thread)?;
                make_files(run.study(), run.stop())?;
                run.run(&mut listeners, &views.progress_of_guests())
            }
        };
        let Listeners {
            mut store,
            progress,
            json,
            ..
        } = listeners;
        drop((progress, views));
        match result {
            Ok(ending) => {
                let tally = store.tally();
                drop(store);
                // By this machine's clock, whichever the run went by.
                output::err(&format!(
                    "the run took {}",
                    format_duration(Duration::from_secs(start.elapsed().as_secs().max(1)))
                ));
                let output = (json, self.fail_on);
                finish_part(self.dir, shard, output, self.colour, tally, Some(&ending))
            }
            Err(error) if !store.started() => Err(not_started(error)),
            Err(error) => {
                let failure = stopped_by(self.dir, error, &mut store, shard.is_none());
                drop(store);
                Err(failure)
            }
        }
    }
}

/// Describes the results of a run that is ended at once, and how to resume it. Removes a directory without results.
fn partial_results_message(dir: &Path) -> String {
    let shown = dir.display();
    if !dir.join(regatta_results::FILE_NAME).exists() {
        let _ = std::fs::remove_dir(dir);
        return "ended at once, before anything was measured".to_owned();
    }
    format!(
        "ended at once: the trials that had ended are kept in `{shown}`\nhint: run `regatta resume {}` to go on",
        quoted(dir)
    )
}

/// Makes the files of white noise that the senders of a study read, as far as they are not there: a guest writes no files.
fn make_files(study: &Study, stop: &StopRequest) -> Result<()> {
    for size in study.workloads.iter().filter_map(|it| it.kind.file_bytes()) {
        if !has_noise_file(size) {
            let size = regatta_model::Bytes(size);
            output::err(&format!(
                "making a file of white noise of {size}, which is kept"
            ));
        }
        make_noise_file(size, &|| stop.is_requested()).map_err(|error| match error {
            TransportError::Cancelled => Failure::failed(EngineError::Stopped),
            TransportError::Unsupported(lacks) => {
                let hint = lacks.hint.clone();
                Failure::unsupported(lacks).hint(hint)
            }
            error => Failure::failed(error),
        })?;
    }
    Ok(())
}

/// Makes the bed of a study without a guest. The stop ends the sessions with its hosts, and all waits for them.
fn make_bed(
    study: &Study,
    hosts_file: Option<&Path>,
    executable: &Path,
    run_id: &str,
    stop: &StopRequest,
) -> Result<Bed> {
    if let [a, b] = &study.hosts[..] {
        refuse! {
            study.capture.is_some() =>
                "packets are captured on the path of Regatta's own emulator, which is not between hosts";
                "leave `capture` out, and run `tcpdump` on a host";
        }
        let needs = (&*study.conditions, &*study.transports);
        let ends = remote::ends([a, b], needs, hosts_file, stop)?;
        return Bed::of_hosts(ends, study.path, &study.conditions, run_id).map_err(no_bed);
    }
    Bed::up(study.bed, study.path, &study.conditions, executable, run_id).map_err(no_bed)
}

/// A run that broke before its start.
fn not_started(error: EngineError) -> Failure {
    match error {
        EngineError::Guest(ref problem) if problem.kind == ProblemKind::Unsupported => {
            Failure::unsupported(error)
                .context("cannot make the bed")
                .hint("`regatta doctor` shows what this machine lacks")
        }
        // Another run has taken the results directory since it was looked at.
        EngineError::Listener { source }
            if matches!(
                source.downcast_ref(),
                Some(ResultsError::AlreadyExists { .. } | ResultsError::InUse { .. })
            ) =>
        {
            let hint = source.downcast_ref().and_then(ResultsError::hint);
            Failure::bad(anyhow::Error::from_boxed(source)).hint(hint.unwrap_or_default())
        }
        error => Failure::failed(error),
    }
}

/// Creates the error of a run that failed after its start: measured trials are kept, and reported
/// if possible.
fn stopped_by(
    dir: &Path,
    error: EngineError,
    store: &mut StoreListener,
    has_reports: bool,
) -> Failure {
    let causes = causes(&error);
    let displaced = match &error {
        EngineError::Listener { source } => source.downcast_ref(),
        _ => None,
    };
    let results_dir = match displaced {
        Some(ResultsError::Displaced { now, .. }) => now.directory().map(Path::to_owned),
        _ => Some(dir.to_owned()),
    };
    let stopped = format!(
        "the run stopped after {}",
        counted(store.tally().trials, "trial")
    );
    let Some(results_dir) = results_dir else {
        return failed(error).context(stopped);
    };
    // A disk that is full takes neither of these; the trials are safe without them.
    if results_dir == dir {
        let _ = store.interrupted(causes.join(": "));
    }
    if has_reports {
        let _ = regatta_report::write_all(&results_dir);
    }
    failed(error)
        .context(format!(
            "{stopped}; what was measured is kept in `{}`",
            results_dir.display()
        ))
        .hint(format!(
            "mend the cause, then run `regatta resume {}` to go on",
            quoted(&results_dir)
        ))
}

/// Returns the directory for the files of a study's trials, if it asks for any; absolute, since
/// agents may have another working directory.
fn files_of(dir: &Path, study: &Study) -> Result<Option<PathBuf>> {
    let files = directory::absolute(&dir.join("files"))?;
    let options = study.transports.iter().flat_map(|it| &it.options);
    let mut on = options.filter(|(_, value)| **value == OptionValue::Flag(true));
    let writes_files =
        study.capture.is_some() || on.any(|(name, _)| FILE_OPTIONS.contains(&&**name));
    Ok(writes_files.then_some(files))
}

/// Converts an error of the engine; events that were stored and could not be printed have their own
/// message.
fn failed(error: EngineError) -> Failure {
    match error {
        EngineError::Listener { source } if source.is::<OutputError>() => {
            Failure::failed(anyhow::Error::from_boxed(source))
        }
        error => Failure::failed(error),
    }
}

/// Writes the reports and shows the results.
///
/// # Errors
/// If the reports cannot be written or shown, or if the run was interrupted.
pub fn finish(
    dir: &Path,
    (json, fail_on): (Option<JsonLines>, Option<FailOn>),
    colour: Colour,
    mut tally: Tally,
    ending: Option<&Ending>,
) -> Result<Code> {
    let shown = dir.display();
    let again = format!("run `regatta report {}", quoted(dir));
    let written = regatta_report::write_all(dir)
        .context(format!(
            "the results are kept in `{shown}`, but their reports failed"
        ))
        .hint(format!("{again}` to make them again"))?;
    match json {
        Some(json) => json
            .summary(&shown.to_string(), &written.summary)
            .map_err(|error| report::print_error(dir, anyhow::Error::from_boxed(error)))?,
        None => report::show(dir, &written.data, &written.summary, colour)?,
    }
    // After the tables, so that a typesetter that fails hides nothing.
    if typeset::typesetter().is_none() {
        output::err(&typeset::missing_note(dir));
    } else {
        let (data, summary) = (&written.data, &written.summary);
        let form = Form::Brief;
        typeset::write_pdf(data, summary, Paper::A4, form, dir, &StopRequest::default())
            .context(format!(
                "`{shown}` is complete but for `{}`",
                form.file_name()
            ))
            .hint(format!("{again} --pdf=brief` to make it again"))?;
    }
    check_complete(dir, tally, ending)?;
    if written.data.header.study.failures_are_answers() {
        tally.failed = 0;
    }
    let missed = !written.summary.passed() || report::misses_claims(fail_on, &written.summary);
    Ok(tally.verdict(missed))
}

/// Ends a run, or a shard, of which it prints the number of trials: reports are made of the merged run.
fn finish_part(
    dir: &Path,
    shard: Option<Shard>,
    (json, fail_on): (Option<JsonLines>, Option<FailOn>),
    colour: Colour,
    tally: Tally,
    ending: Option<&Ending>,
) -> Result<Code> {
    let Some(shard) = shard.filter(|_| json.is_none()) else {
        return finish(dir, (json, fail_on), colour, tally, ending);
    };
    check_complete(dir, tally, ending)?;
    output::out(&format!(
        "shard {shard} of the plan is complete: {} in `{}`\nput all shards together with `regatta merge OUT DIR…`\n",
        counted(tally.trials, "trial"),
        dir.display()
    ))?;
    Ok(tally.verdict(false))
}

/// # Errors
/// If the run was interrupted.
fn check_complete(dir: &Path, tally: Tally, ending: Option<&Ending>) -> Result<()> {
    let Some(Ending::Interrupted { reason }) = ending else {
        return Ok(());
    };
    Err(Failure::message(format!(
        "the run is partial: {reason} after {}",
        counted(tally.trials, "trial")
    ))
    .hint(format!("run `regatta resume {}` to go on", quoted(dir))))
}

/// Returns the state from which a shard of a plan, or all of it, goes on.
fn state_of(plan: &Plan, shard: Option<Shard>, done: Done) -> Result<Done> {
    let Some(shard) = shard else { return Ok(done) };
    plan.shard(shard, done).bad()
}

/// Returns the trials that earlier runs of a plan have finished. One that cannot be read has none.
///
/// # Errors
/// For a run of another plan.
fn earlier(plan: &Plan, dirs: &[PathBuf]) -> Result<Done> {
    let digest = match dirs {
        [] => return Ok(Done::default()),
        _ => plan.digest(),
    };
    let mut records = Vec::new();
    for dir in dirs {
        let shown = dir.display();
        let read = Reader::open(dir)
            .and_then(|reader| Ok((reader.header()?.part.plan_sha256, reader.trials()?)));
        match read {
            Ok((of_plan, trials)) if of_plan == digest => records.extend(trials),
            Ok(_) => {
                return Err(Failure::input(
                    format!("`{shown}` is a run of another plan"),
                    "name runs of the same study with the same options",
                ));
            }
            Err(error) => {
                let reason = causes(&error).join(": ");
                output::err(&format!(
                    "warning: nothing of `{shown}` is left out: {reason}"
                ));
            }
        }
    }
    let done = plan.done(&records).bad()?;
    Ok(done.only_finished())
}

/// 16 random bytes, hexadecimal.
pub fn new_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_race_for_a_directory_is_an_input_error() {
        let dir = PathBuf::from("out");
        let taken = [
            ResultsError::InUse { dir: dir.clone() },
            ResultsError::AlreadyExists {
                dir,
                found: "results.sqlite".to_owned(),
            },
        ];
        for error in taken {
            let source = error.into();
            let failure = not_started(EngineError::Listener { source });
            assert_eq!(Code::from(&failure), Code::Input);
        }
    }
}
