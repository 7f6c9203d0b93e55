//! Definitions of the exported tables.

use regatta_model::Unit;

use super::column::{Column, Kind};

/// Exported table. Its name is that of the table of the results file, or of one row of what that table has packed.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name of the file without its ending.
    pub name: &'static str,
    /// Contents of a row, without a full stop.
    pub meaning: &'static str,
    /// Columns; those of the quantities of host samples come after them.
    pub columns: &'static [Column],
    /// Origin of the rows.
    pub(super) rows: Rows,
}

/// Origin of the rows of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    /// Rows of the results file.
    Stored {
        /// First version of the results file with the table.
        since: i32,
        /// Rest of the query behind `SELECT … FROM`.
        from: &'static str,
    },
    /// Samples of the series of the trials.
    Samples,
    /// Buckets of the histograms of the trials.
    Histograms,
    /// Samples of the hosts.
    HostSamples,
    /// Definitions of the metrics.
    MetricDefinitions,
    /// Definitions of the series.
    SeriesDefinitions,
}

const fn stored(from: &'static str) -> Rows {
    since(1, from)
}

const fn since(since: i32, from: &'static str) -> Rows {
    Rows::Stored { since, from }
}

const fn integer(name: &'static str, meaning: &'static str) -> Column {
    Column::new(Kind::Integer, name, meaning)
}

const fn time(name: &'static str, meaning: &'static str) -> Column {
    integer(name, meaning).in_unit(Unit::Nanoseconds)
}

const fn real(name: &'static str, meaning: &'static str) -> Column {
    Column::new(Kind::Real, name, meaning)
}

const fn text(name: &'static str, meaning: &'static str) -> Column {
    Column::new(Kind::Text, name, meaning)
}

const fn boolean(name: &'static str, meaning: &'static str) -> Column {
    Column::new(Kind::Boolean, name, meaning)
}

/// Reference to a row of `trial`.
const TRIAL: Column = integer("trial", "number of the attempt in `trial`");

const UNIT: Column = text("unit", "unit of the value");

/// Largest finite number: what is not finite was not stored by Regatta, and is no measurement.
const FINITE: &str = "metric LEFT JOIN metric_definition USING (name)
    WHERE abs(value) <= 1.7976931348623157e308 ORDER BY trial, name";

/// Defines tables, one entry each: name, contents of a row, origin of the rows; columns.
macro_rules! tables {
    ($($name:literal = $meaning:literal, $rows:expr => { $($column:expr;)* })*) => {
        &[$(Table {
            name: $name,
            meaning: $meaning,
            columns: &[$($column),*],
            rows: $rows,
        }),*]
    };
}

/// The exported tables.
pub const TABLES: &[Table] = tables! {
    "run" = "the run (one row)", stored("run") => {
        text("run_id", "unique identifier of the run");
        text("regatta_version", "version of Regatta that made the run");
        time("started_unix_ns", "start of the run, since the Unix epoch, by the clock of the controller");
        text("study", "name of the study");
        text("study_json", "the study with every default filled in, as JSON");
        text("study_text", "the study as the user wrote it, or the options of the command line in that form");
        text("bed", "bed and path");
        text("state", "`running`, `complete` or `interrupted`");
        text("state_reason", "reason of an interruption, else empty");
    }
    "host_fact" = "one fact about a host: kernel, processor, sysctls, offloads, versions of every stack",
    stored("host_fact ORDER BY host, name") => {
        text("host", "`sender` or `receiver`");
        text("name", "name of the fact, such as `kernel.release`");
        text("value", "the fact, as the host reported it");
    }
    "metric_definition" = "definition of a metric, as of the version of Regatta that measured it",
    Rows::MetricDefinitions => {
        text("name", "name of the metric");
        UNIT;
        text("title", "short title for tables and axes");
        text("definition", "quantity that is measured, and between which events");
    }
    "series_definition" = "definition of a quantity that is sampled over time", Rows::SeriesDefinitions => {
        text("name", "name of the series");
        UNIT;
        text("title", "short title for axes");
        text("definition", "quantity that is sampled");
    }
    "trial" = "one attempt at a trial", stored("trial ORDER BY trial") => {
        integer("trial", "number of the attempt: of a first one the position in the plan from 0, of a repeated one that plus the number of trials in the plan for each earlier attempt");
        integer("attempt", "number of the attempt at this trial, from 1").since(2, "1");
        boolean("is_last_attempt", "whether this is the attempt that counts; earlier ones are `invalid`")
            .sql("attempt = max(attempt) OVER (PARTITION BY round, transport, condition, workload)")
            .since(2, "1");
        integer("round", "number of the round, from 0");
        text("transport", "label of the transport");
        text("condition", "name of the condition");
        text("workload", "name of the workload");
        time("started_unix_ns", "start of the trial, since the Unix epoch");
        Column::new(Kind::Unsigned, "seed", "seed of the path and of the data of the trial");
        text("outcome", "`measured`, `unsupported`, `failed`, `timed_out` or `invalid`");
        text("hint", "what to type next, or empty");
    }
    "reason" = "one cause of an outcome other than `measured`", stored("reason ORDER BY trial, position") => {
        TRIAL;
        integer("position", "position of the cause; 0 is the outermost");
        text("reason", "the cause");
    }
    "parameter" = "value of one sweep for a transport, condition or workload that it made",
    since(4, "parameter ORDER BY id") => {
        text("part", "column of `trial` that has the name: `transport`, `condition` or `workload`");
        text("name", "label of the transport, name of the condition or of the workload");
        text("key", "key of the study that is swept, such as `loss`");
        real("value", "value in `unit`; absent if the values of the sweep are no quantities of one unit").nullable();
        UNIT.nullable();
        text("text", "value as names have it");
    }
    "metric" = "one value of one attempt; a value that was not measured has no row", stored(FINITE) => {
        TRIAL;
        text("name", "name of the metric, see `metric_definition`").sql("metric.name").names_metrics();
        UNIT.nullable();
        real("value", "value in `unit`");
    }
    "sample" = "one sample of a series of an attempt, in the order of the series and of time",
    Rows::Samples => {
        TRIAL;
        text("side", "where it was sampled: `sender`, `receiver` or `path`");
        text("name", "name of the series, see `series_definition`");
        UNIT.nullable();
        time("t_ns", "time of the sample since the first connect call of the trial; a rate is of the interval that ends then");
        real("value", "value in `unit`");
    }
    "histogram_bucket" = "one bucket with values of an HdrHistogram of an attempt", Rows::Histograms => {
        TRIAL;
        text("side", "end that measured: `sender` or `receiver`");
        text("name", "name of the quantity, which ends in its unit");
        integer("lowest", "lowest value of the bucket, in the unit that `name` ends in");
        integer("highest", "highest value of the bucket, in the same unit");
        Column::new(Kind::Unsigned, "count", "number of values in the bucket").in_unit(Unit::Count);
    }
    "fact" = "one value that was read back from the running stacks in an attempt",
    stored("fact ORDER BY trial, name") => {
        TRIAL;
        text("name", "name of the fact, such as `congestion_control.sender`");
        text("value", "the fact");
    }
    "warning" = "one warning", stored("warning ORDER BY id") => {
        integer("trial", "number of the attempt in `trial`; absent for a warning about the whole run").nullable();
        text("code", "short name of the kind of warning");
        text("message", "the warning");
        text("hint", "what to type or to change, or empty");
        text("content_json", "template of message and hint, and the values of its arguments, as JSON; absent where an earlier version stored the warning").nullable().since(7, "NULL");
    }
    "phrase" = "template of a text of the other tables: of a bed, a reason, a hint of a trial, a fact", since(8, "phrase ORDER BY id") => {
        text("text", "the text in English, as the other tables have it");
        text("content_json", "template, and the values of its arguments, as JSON");
    }
    "path_check" = "one check of the path by the bed", stored("path_check ORDER BY id") => {
        integer("path_check", "number of the check").sql("id");
        text("condition", "name of the condition");
        time("step_at_ns", "step of the condition's schedule that was checked, by its time in a trial; 0 is the beginning").since(2, "0");
        time("checked_unix_ns", "time of the check, since the Unix epoch");
        boolean("within", "whether every quantity was within its tolerance");
        text("spoiled", "reason why the check is void; absent if it is valid").nullable().since(2, "NULL");
    }
    "path_quantity" = "one quantity of a check of the path",
    stored("path_quantity ORDER BY path_check, position") => {
        integer("path_check", "number of the check in `path_check`");
        integer("position", "position of the quantity in the check");
        text("name", "name of the quantity, which ends in its unit");
        real("asked", "value of the study").nullable();
        real("achieved", "value that was measured").nullable();
        real("lowest", "smallest value that is accepted, or negative infinity").nullable();
        real("highest", "largest value that is accepted, or infinity").nullable();
        integer("n", "number of packets or messages of the measurement").in_unit(Unit::Count);
        boolean("within", "whether `achieved` is from `lowest` to `highest`");
    }
    "part" = "one run that the file is made of, as a part of its plan: one, or of a merged file several",
    since(5, "part ORDER BY id") => {
        integer("part", "number of the part").sql("id");
        text("run_id", "identifier of the run");
        text("plan_sha256", "digest of the study and of all trials of its plan, hexadecimal");
        integer("shard", "number of the shard; absent for a run of the whole plan").nullable();
        integer("shards", "number of shards of the plan; absent for a run of the whole plan").nullable();
        integer("trials", "number of trials that were planned").in_unit(Unit::Count);
        text("node", "name of the machine");
        text("regatta_version", "version of Regatta that made the part");
        time("started_unix_ns", "start of the part, since the Unix epoch");
        text("bed", "bed and path");
    }
    "part_fact" = "in a merged file, one fact about a host that differs between the parts",
    since(5, "part_fact ORDER BY part, host, name") => {
        integer("part", "number of the part in `part`");
        text("host", "`sender` or `receiver`");
        text("name", "name of the fact, such as `kernel.release`");
        text("value", "the fact, as the host reported it");
    }
    "part_trial" = "in a merged file, the part of one attempt", since(5, "part_trial ORDER BY trial") => {
        TRIAL;
        integer("part", "number of the part in `part`");
    }
    "host_sample" = "one sample of a monitored host (bed `hosts` only), with a column for each quantity that occurs",
    Rows::HostSamples => {
        text("host", "`sender` or `receiver`");
        integer("trial", "number of the attempt in `trial` that was under way; absent between trials").nullable();
        time("unix_ns", "time of the sample by the host's clock, since the Unix epoch");
        time("monotonic_ns", "time of the sample by the host's monotonic clock");
    }
};
