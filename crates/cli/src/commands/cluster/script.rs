//! Scripts for `sbatch`, which can also be submitted by hand.

use std::{path::Path, time::Duration};

use regatta_model::shell::quoted;

use super::{LOGS, MERGE_LOG, MERGE_STATUS, MERGED, PDF, PREFLIGHT_LOG, PREFLIGHT_STATUS, SHARDS};
use crate::output::typeset::VARIABLE as TYPESETTER_VARIABLE;

/// Time before the time limit at which a shard is asked to stop. The trial under way is given up, so
/// that it needs seconds.
const NOTICE: Duration = Duration::from_secs(120);

/// Request for nodes and the parts of the scripts that follow from the study.
pub struct Script<'a> {
    /// Directory of the submission, absolute.
    pub dir: &'a Path,
    /// Name of the study.
    pub study: &'a str,
    /// Number of trials of the plan.
    pub trials: usize,
    /// Number of shards.
    pub shards: u32,
    /// Maximum number of shards that run at once.
    pub at_once: Option<u32>,
    /// Guests at once in each shard; 1 for other beds.
    pub jobs: u32,
    /// Memory of a shard, in MiB.
    pub memory_mib: u32,
    /// Time limit of a shard.
    pub limit: Duration,
    /// Whether a shard has its node alone.
    pub exclusive: bool,
    /// Options of `regatta run` for the bed.
    pub bed: &'a str,
    /// Whether the directory holds a kernel for the guests.
    pub has_kernel: bool,
    /// Whether the directory holds the typesetter of PDF.
    pub has_typesetter: bool,
    /// Further options for `sbatch`.
    pub slurm_args: &'a [String],
}

impl Script<'_> {
    fn head(&self, name: &str, comment: &str, log: &str, own: &[String]) -> String {
        let mut text = format!(
            "#!/bin/bash\n{comment}\n#SBATCH --job-name=regatta-{name}-{}\n",
            self.study
        );
        for option in own {
            text += &format!("#SBATCH {option}\n");
        }
        let log = self.dir.join(LOGS).join(log);
        text += &format!(
            "#SBATCH --open-mode=append\n#SBATCH --output={}\n",
            log.display()
        );
        for option in self.slurm_args {
            text += &format!("#SBATCH {option}\n");
        }
        text += &format!("set -u\ndir={}\n", quoted(self.dir));
        if self.has_kernel {
            text += "export REGATTA_UML_KERNEL=$dir/linux\n";
        }
        if self.has_typesetter {
            text += &format!("export {TYPESETTER_VARIABLE}=$dir/{PDF}\n");
        }
        text
    }

    /// Options for what a shard needs of its node.
    fn resources(&self) -> Vec<String> {
        let mut options = vec!["--nodes=1".to_owned(), "--ntasks=1".to_owned()];
        match self.exclusive {
            true => options.push("--exclusive".to_owned()),
            false => options.extend([
                format!("--cpus-per-task={}", self.jobs),
                format!("--mem={}M", self.memory_mib),
            ]),
        }
        options
    }

    /// Returns the script that checks a node before all shards are started.
    pub fn preflight(&self) -> String {
        let mut options = self.resources();
        options.push("--time=10".to_owned());
        let comment =
            "# Checks that a node can run the shards: one short trial on the bed of the study.";
        self.head("check", comment, PREFLIGHT_LOG, &options)
            + &format!(
                r#"work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
echo "check of $(hostname)"
"$dir/regatta" run --transport tcp --size 100kB --rtt 10ms --rate 100Mbit/s --rounds 1 {bed} \
  --out "$work/run" --no-progress
code=$?
if [ $code -ne 0 ]; then
  echo "$(hostname) cannot run the shards (exit status $code). What it lacks of what the study needs:"
  "$dir/regatta" doctor --fix-hints --study "$dir/study.json"
fi
echo $code >"$dir/{PREFLIGHT_STATUS}"
exit $code
"#,
                bed = self.bed
            )
    }

    /// Returns the script of the array of shards.
    pub fn shards(&self) -> String {
        let throttle = self
            .at_once
            .map_or_else(String::new, |most| format!("%{most}"));
        let minutes = self.limit.as_secs().div_ceil(60) + NOTICE.as_secs().div_ceil(60);
        let mut options = self.resources();
        options.extend([
            format!("--array=1-{}{throttle}", self.shards),
            format!("--time={minutes}"),
            "--requeue".to_owned(),
            format!("--signal=B:USR1@{}", NOTICE.as_secs()),
        ]);
        let comment = format!(
            "# Shards of `{}`: {} trials in {} shards. By hand: `sbatch shards.sbatch`, or some of them:\n\
             # `sbatch --array=3,17 shards.sbatch`.",
            self.study, self.trials, self.shards
        );
        let jobs = match self.jobs {
            1 => String::new(),
            jobs => format!(" --jobs {jobs}"),
        };
        self.head("shards", &comment, "shard-%a.log", &options)
            + &format!(
                r#"shards={shards}
shard=${{SLURM_ARRAY_TASK_ID:?submit this script with sbatch}}

# A directory for each start. What runs on a node that Slurm has lost can go on beside its next start, and two
# processes must not write one results file.
done=()
for start in {{0..9999}}; do
  out=$dir/{SHARDS}/$shard.$start
  if mkdir "$out" 2>/dev/null; then break; fi
  if [ ! -d "$out" ]; then echo "cannot make $out"; exit 1; fi
  if [ -e "$out/results.sqlite" ]; then done+=(--done "$out"); fi
done
echo "shard $shard/$shards, start $start, on $(hostname), job $SLURM_JOB_ID"

stopped=
"$dir/regatta" run "$dir/study.json" --shard "$shard/$shards" ${{done[@]+"${{done[@]}}"}} \
  --out "$out" --no-progress{jobs} &
run=$!
# Slurm sends USR1 before the time limit. The run keeps what it has measured, and the next start goes on. Who cancels
# the job sends TERM.
trap 'signalled=yes; stopped=yes; kill -TERM $run' USR1
trap 'signalled=yes; kill -TERM $run' TERM
# A signal ends a wait, with a code of its own; the run's comes from the next one, also if it has ended meanwhile.
while
  signalled=
  wait $run
  code=$?
  [ -n "$signalled" ]
do :; done
# A run that could not start has removed its directory.
mkdir -p "$out" && echo $code >"$out/exit-status"
# This task alone, and only if something is left of its shard.
if [ -n "$stopped" ] && [ $code -ne 0 ] && ! grep -qs '"state":"complete"' "$out/progress.json"; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$shard"
fi
exit $code
"#,
                shards = self.shards,
            )
    }

    /// Returns the script that merges what the shards have left.
    pub fn merge(&self) -> String {
        // A million trials need less than 1 GB.
        let memory = 512 + self.trials / 1000;
        let options = [
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            format!("--mem={memory}M"),
            "--time=120".to_owned(),
        ];
        let comment = "# Merges what the shards have left. Can be run at any time, and again.";
        self.head("merge", comment, MERGE_LOG, &options)
            + &format!(
                r#""$dir/regatta" merge "$dir/{MERGED}" "$dir"/{SHARDS}/*/results.sqlite --skip-bad
code=$?
echo $code >"$dir/{MERGE_STATUS}"
if [ $code -eq 3 ]; then
  list=$(cut -d/ -f1 "$dir/{MERGED}/missing-shards.txt" | paste -sd,)
  echo "run the missing shards with: sbatch --array=$list $dir/shards.sbatch"
fi
exit $code
"#
            )
    }
}
