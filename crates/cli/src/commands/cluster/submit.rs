//! `regatta submit`: a plan as an array of jobs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use regatta_bed::guest::{self, Image};
use regatta_engine::{Done, Plan};
use regatta_model::{BedKind, Clock, Shard, Study, shell::quoted, units::format_duration};
use regatta_process::create_replacing;

use super::{
    Jobs, LOGS, MERGE_SCRIPT, MERGED, PDF, SHARDS, SUBMISSION, Submission, script::Script,
    shards_script, slurm, write,
};
use crate::{
    args::SubmitArgs,
    directory,
    dry_run::checks,
    exit::{Code, Failure, OrFailure as _, Result, own_executable, refuse},
    output::{self, counted, typeset},
    study::{self, StoredStudy, registry},
};

/// Memory of a guest's daemon, in MiB.
const DAEMON_MIB: u32 = 256;

/// Memory of the controller and the agents, in MiB.
const CONTROLLER_MIB: u32 = 512;

/// Time of a shard by the estimate, of which the true one may be half: a scheduler starts a job in a
/// second or so.
const OF_SHARD: Duration = Duration::from_secs(600);

/// Minimum time limit of a shard.
const MIN_LIMIT: Duration = Duration::from_secs(1800);

/// Runs `regatta submit`.
///
/// # Errors
/// If the study cannot be divided, the directory cannot be made, or Slurm refuses the scripts.
pub fn submit(args: &SubmitArgs) -> Result<Code> {
    let dir = check_arguments(args)?;
    let mut chosen = study::choose(&args.run)?;
    prefer_virtual_time(args, &mut chosen.study)?;
    let plan = Plan::new(&chosen.study).bad()?;
    checks::path_checks(&chosen.study)?;
    let image = checks::kernel(&chosen)?;
    let jobs = args.run.jobs.unwrap_or(1);
    let is_virtual = chosen.study.guest.clock == Clock::Virtual;
    refuse! {
        jobs > 1 && !is_virtual => "trials that run at once share the machine, and then measure one another";
            "leave `--jobs` out";
    }
    let total = plan.estimate(&Done::default(), jobs).time;
    let shards = args.shards.unwrap_or_else(|| {
        let most = slurm::most_tasks().min(plan.most_shards());
        ((total.as_secs() / OF_SHARD.as_secs()) as u32).clamp(1, most.max(1))
    });
    let first = Shard {
        number: 1,
        of: shards,
    };
    plan.shard(first, Done::default()).bad()?;
    let shard_time = total / shards;
    let typesetter = typeset::typesetter();
    let script = Script {
        dir: &dir,
        study: &chosen.study.name,
        trials: plan.trials().len(),
        shards,
        at_once: args.at_once,
        jobs,
        memory_mib: match chosen.study.bed {
            BedKind::Uml => {
                let guest = regatta_engine::guest::memory_mib(&chosen.study) + DAEMON_MIB;
                CONTROLLER_MIB + guest * jobs
            }
            BedKind::Netns | BedKind::Hosts => 2 * CONTROLLER_MIB,
        },
        // A shard that needs more is stopped before it, and its next start goes on, so that it need not
        // be safe.
        limit: (shard_time * 3).max(MIN_LIMIT),
        exclusive: !is_virtual,
        bed: match (chosen.study.bed, is_virtual) {
            (BedKind::Uml, true) => "--bed uml --clock virtual",
            (BedKind::Uml, false) => "--bed uml",
            _ => "--bed netns",
        },
        has_kernel: image.is_some(),
        has_typesetter: typesetter.is_some(),
        slurm_args: &args.slurm_arg,
    };
    let mut submission = Submission {
        study: chosen.study.name.clone(),
        plan_sha256: plan.digest(),
        shards,
        trials: plan.trials().len() as u32,
        jobs: None,
    };
    prepare(&dir, &script, image.as_ref())?;
    match typesetter {
        // The merged run has its PDF on every node with Python.
        Some(typesetter) => {
            let to = dir.join(PDF);
            typesetter.copy_to(&to).cannot("write", &to)?;
        }
        None => output::err(&typeset::missing_note(&dir.join(MERGED))),
    }
    let stored = StoredStudy {
        study: chosen.study.clone(),
        study_text: chosen.text,
    };
    write(&dir.join("study.json"), &serde_json::to_string(&stored)?)?;
    output::out(&format!(
        "{} in {} of about {} each, in `{}`\n",
        counted(plan.trials().len(), "trial"),
        counted(shards as usize, "shard"),
        format_duration(Duration::from_secs(shard_time.as_secs().max(1))),
        dir.display()
    ))?;
    if args.write_only {
        submission.write(&dir)?;
        return output::show(&format!(
            "submit them with `sbatch {}`, and then `sbatch {}`\n",
            shards_script(&dir).display(),
            dir.join(MERGE_SCRIPT).display()
        ));
    }
    let jobs = submit_all(&dir)?;
    submission.jobs = Some(jobs.clone());
    submission.write(&dir)?;
    let Jobs {
        preflight,
        shards,
        merge,
    } = &jobs;
    output::show(&format!(
        "jobs: {preflight} checks a node, {shards} runs the shards after it, {merge} merges them\nsee how far they are with `regatta status {}`\n",
        quoted(&dir)
    ))
}

/// Returns the directory of the submission, absolute, and refuses options that have no meaning here.
fn check_arguments(args: &SubmitArgs) -> Result<PathBuf> {
    let run = &args.run;
    let Some(out) = &run.out else {
        return Err(Failure::input(
            "the directory of the submission is missing",
            "add `--out DIR`, a directory that all nodes share",
        ));
    };
    let mut refused = [
        (run.shard.is_some(), "--shard"),
        (!run.done.is_empty(), "--done"),
        (run.json, "--json"),
        (run.dry_run, "--dry-run"),
        (run.capture.is_some(), "--capture"),
    ]
    .into_iter();
    if let Some((_, option)) = refused.find(|(is_given, _)| *is_given) {
        return Err(Failure::input(
            format!("`{option}` is an option of `regatta run`, not of a submission"),
            format!("leave `{option}` out"),
        ));
    }
    let dir = directory::absolute(out)?;
    // Slurm reads names of files with these as patterns, or as two options.
    let shown = dir.display().to_string();
    let is_bad = |c: &char| c.is_whitespace() || c.is_control() || "%\"'\\$`".contains(*c);
    if let Some(bad) = shown.chars().find(is_bad) {
        return Err(Failure::input(
            format!("`{shown}` has `{bad}` in its name, which Slurm does not take"),
            "choose another `--out`",
        ));
    }
    if let Some(bad) = args.slurm_arg.iter().find(|arg| arg.contains('\n')) {
        return Err(Failure::input(
            format!("`{bad}` is more than one line"),
            "give each option its own `--slurm-arg`",
        ));
    }
    refuse! {
        dir.join(SUBMISSION).exists() => "`{shown}` holds a submission already";
            "see how far it is with `regatta status {}`, or choose another `--out`", quoted(&dir);
    }
    Ok(dir)
}

/// Makes a study run in virtual time where it can, unless the command line sets the clock: nodes are
/// then exchangeable, and shards need not have theirs alone.
fn prefer_virtual_time(args: &SubmitArgs, study: &mut Study) -> Result<()> {
    refuse! {
        study.bed == BedKind::Hosts =>
            "the bed `hosts` is of two machines that are reached by SSH, and a job has one node";
            "run it with `regatta run`, or choose another `--bed`";
    }
    let is_chosen = args.run.clock.is_some() || args.run.bed.is_some();
    if is_chosen || study.guest.clock == Clock::Virtual {
        return Ok(());
    }
    let mut virtual_study = study.clone();
    virtual_study.bed = BedKind::Uml;
    virtual_study.guest.clock = Clock::Virtual;
    let possible = (virtual_study.check_guest())
        .map_err(|mistake| mistake.to_string())
        .and_then(|()| registry::check_endings(&virtual_study).map_err(|wrong| wrong.message));
    let reason = match possible {
        Err(mistake) => mistake,
        Ok(()) => match guest::find(study.guest.kernel.as_deref(), Clock::Virtual) {
            Err(error) => error.to_string(),
            Ok(_) => {
                *study = virtual_study;
                output::err(
                    "it runs in virtual time, so that all nodes give the same results and can be shared; there are \
                     no figures of CPU time then\nhint: `--clock real` or `--bed netns` measures them, with each \
                     shard alone on its node",
                );
                return Ok(());
            }
        },
    };
    output::err(&format!(
        "it runs in real time, each shard alone on its node, as virtual time is not possible: {reason}"
    ));
    Ok(())
}

/// Makes the directory, with the program, the kernel and the scripts.
fn prepare(dir: &Path, script: &Script<'_>, image: Option<&Image>) -> Result<()> {
    for path in [dir.to_owned(), dir.join(SHARDS), dir.join(LOGS)] {
        fs::create_dir_all(&path).cannot("write", &path)?;
    }
    let copy = |from: &Path, name: &str| {
        let to = dir.join(name);
        let copied = fs::File::open(from)
            .and_then(|mut program| io::copy(&mut program, &mut create_replacing(&to, 0o777)?));
        copied.cannot("write", &to)
    };
    copy(own_executable(), "regatta")?;
    if let Some(image) = image {
        copy(&image.path, "linux")?;
    }
    write(&dir.join("preflight.sbatch"), &script.preflight())?;
    write(&shards_script(dir), &script.shards())?;
    write(&dir.join(MERGE_SCRIPT), &script.merge())
}

/// Submits all scripts, each after the one before. If Slurm refuses one, those before it are cancelled.
fn submit_all(dir: &Path) -> Result<Jobs> {
    let preflight = slurm::submit(&dir.join("preflight.sbatch"), &[])?;
    let after = [
        format!("--dependency=afterok:{preflight}"),
        "--kill-on-invalid-dep=yes".to_owned(),
    ];
    let shards =
        slurm::submit(&shards_script(dir), &after).inspect_err(|_| slurm::cancel(&[&preflight]))?;
    let after = [format!("--dependency=afterany:{shards}")];
    let merge = slurm::submit(&dir.join(MERGE_SCRIPT), &after)
        .inspect_err(|_| slurm::cancel(&[&preflight, &shards]))?;
    Ok(Jobs {
        preflight,
        shards,
        merge,
    })
}
