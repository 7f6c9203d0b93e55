//! The tables of a results file. This is the one definition of their columns: the tables are created, written and read by
//! it, and checksums, merges, exports and the data dictionary are made of it. Records of the model that are rows, such as
//! [`TrialRecord`], have their columns in their own definition.
//!
//! Times are nanoseconds, since the Unix epoch where the name says `unix`. Seeds are decimal text, because SQLite's integers
//! end at 2^63 − 1. In `path_quantity` an infinite bound is SQLite's `Inf`, and null stands for a value that is not a number.
//!
//! `trial` counts from 0 by the plan. An invalid trial is repeated: `attempt` is 2 or 3 then, and `trial` that of the first
//! attempt plus the number of trials in the plan for each earlier one. The last attempt of a transport, condition and
//! workload in a round counts. A path check with a text in `spoiled` is not used. `checksum` is the CRC-32 of a stored
//! record in all tables: it detects a changed bit that leaves the file a sound database.
//!
//! Reasons, hints of trials, facts, beds and the reason of an interruption have their template and the values of its
//! arguments in `phrase`, by the English text that their tables hold. Texts without a row there are of other programs.
//!
//! SQLite's `application_id` ([`APPLICATION_ID`]) identifies the file, and `user_version` ([`VERSION`]) is the version of
//! its tables.

use regatta_model::{
    AskedAchieved, Histogram, Named as _, Part, PathCheck, Phrase, Text, TrialRecord, Unit,
    Warning, table::record,
};

use crate::stored::{self, Stored, Table};

/// Application identifier, `RGTA` in ASCII, which `file results.sqlite` shows.
pub const APPLICATION_ID: i32 = 0x5247_5441;

/// Version of the tables, the only one that this Regatta writes and reads. Versions below were never released.
pub const VERSION: i32 = 9;

record! {
    /// Number of a row in its table, in this file alone.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct RowNumber {
        pub id: Option<i64> = "number of the row", row_number();
    }
}

impl RowNumber {
    /// The next number, when a row is stored.
    pub(crate) const NEXT: Self = Self { id: None };
}

record! {
    /// Number of a path check.
    pub(crate) struct CheckNumber {
        pub id: Option<i64> = "number of the check", row_number(), exported_as("path_check");
    }
}

record! {
    /// Number of a part.
    pub(crate) struct PartNumber {
        pub id: Option<i64> = "number of the part", row_number(), exported_as("part");
    }
}

record! {
    /// Reference to a trial.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct OfTrial {
        pub trial: u32 = "number of the attempt in `trial`", constraint("REFERENCES trial (trial)");
    }
}

record! {
    /// Position in a path check.
    pub(crate) struct OfPathCheck {
        pub path_check: i64 = "number of the check in `path_check`", constraint("REFERENCES path_check (id)");
        pub position: i64 = "position of the quantity in the check";
    }
}

record! {
    /// Reference to a part.
    pub(crate) struct OfPart {
        pub part: i64 = "number of the part in `part`", constraint("REFERENCES part (id)");
    }
}

record! {
    /// Position among the rows of a trial.
    pub(crate) struct Position {
        pub position: i64 = "position among those of its trial, from 0";
    }
}

record! {
    /// Row of `run`.
    pub(crate) struct RunRow<'a> {
        pub run_id: &'a str = "unique identifier of the run";
        pub regatta_version: &'a str = "version of Regatta that made the run";
        pub started_unix_ns: i64 =
            "start of the run, since the Unix epoch, by the clock of the controller", in_unit(Unit::Nanoseconds);
        pub study: &'a str = "name of the study";
        pub study_json: &'a str = "the study with every default filled in, as JSON";
        pub study_text: &'a str =
            "the study as the user wrote it, or the options of the command line in that form";
        pub bed: Text = "bed and path";
        pub state: &'a str = "`running`, `complete` or `interrupted`",
            one_of(&["running", "complete", "interrupted"]);
        pub state_reason: Text = "reason of an interruption, else empty";
    }
}

record! {
    /// Row of `host`.
    pub(crate) struct HostRow<'a> {
        pub host: &'a str = "`sender` or `receiver`";
    }
}

record! {
    /// Row of `host_fact`.
    pub(crate) struct HostFactRow<'a> {
        pub host: &'a str = "`sender` or `receiver`", constraint("REFERENCES host (host)");
        pub name: &'a str = "name of the fact, such as `kernel.release`";
        pub value: &'a str = "the fact, as the host reported it";
    }
}

record! {
    /// Row of `metric_definition`.
    pub(crate) struct MetricDefinitionRow<'a> {
        pub name: &'a str = "name of the metric";
        pub unit: &'a str = "unit of the value";
        pub title: &'a str = "short title for tables and axes";
        pub definition: &'a str = "quantity that is measured, and between which events";
    }
}

record! {
    /// Row of `reason`, of a trial.
    pub(crate) struct ReasonRow {
        pub position: i64 = "position of the cause; 0 is the outermost";
        pub reason: Text = "the cause";
    }
}

record! {
    /// Row of `metric`, of a trial.
    pub(crate) struct MetricRow<'a> {
        pub name: &'a str = "name of the metric, see `metric_definition`",
            constraint("REFERENCES metric_definition (name)");
        pub value: f64 = "value in `unit`";
    }
}

record! {
    /// Row of `series`, of a trial.
    pub(crate) struct SeriesRow<'a> {
        pub side: &'a str = "where it was sampled: `sender`, `receiver` or `path`";
        pub name: &'a str = "name of the series, see `series_definition`";
        pub samples: i64 = "number of samples";
        pub t_ns: &'a [u8] =
            "times of the samples since the first connect call of the trial, as little-endian 64-bit signed integers",
            constraint("CHECK (length(t_ns) = 8 * samples)");
        pub value: &'a [u8] = "values of the samples, as little-endian IEEE 754 doubles",
            constraint("CHECK (length(value) = 8 * samples)");
    }
}

record! {
    /// Row of `fact`, of a trial.
    pub(crate) struct FactRow<'a> {
        pub name: &'a str = "name of the fact, such as `congestion_control.sender`";
        pub value: Text = "the fact";
    }
}

record! {
    /// Trial of a warning.
    pub(crate) struct WarningTrial {
        pub trial: Option<u32> =
            "number of the attempt in `trial`; absent for a warning about the whole run",
            constraint("REFERENCES trial (trial)");
    }
}

record! {
    /// Row of `host_sample_names`.
    pub(crate) struct HostSampleNamesRow<'a> {
        pub names: &'a str = "names of the values of samples, as a JSON array";
    }
}

record! {
    /// Row of `host_samples`.
    pub(crate) struct HostSamplesRow<'a> {
        pub host: &'a str = "`sender` or `receiver`", constraint("REFERENCES host (host)");
        pub trial: Option<u32> =
            "number of the attempt in `trial` that was under way, which has no row there if it was given up; absent between trials";
        pub names: i64 = "row of `host_sample_names`", constraint("REFERENCES host_sample_names (id)");
        pub samples: i64 = "number of samples";
        pub unix_ns: &'a [u8] =
            "times by the host's clock, since the Unix epoch, as little-endian 64-bit signed integers",
            constraint("CHECK (length(unix_ns) = 8 * samples)");
        pub monotonic_ns: &'a [u8] =
            "times by the host's monotonic clock, as little-endian 64-bit signed integers",
            constraint("CHECK (length(monotonic_ns) = 8 * samples)");
        pub value_zlib: &'a [u8] =
            "values, compressed (zlib): little-endian IEEE 754 single-precision numbers, all samples of the first name, then all of the second, and so on; NaN stands for a value that was not measured";
    }
}

record! {
    /// Row of `parameter`.
    pub(crate) struct ParameterRow<'a> {
        pub part: &'a str = "column of `trial` that has the name: `transport`, `condition` or `workload`",
            one_of(&[Part::Transport.as_str(), Part::Condition.as_str(), Part::Workload.as_str()]);
        pub name: &'a str = "label of the transport, name of the condition or of the workload";
        pub key: &'a str = "key of the study that is swept, such as `loss`";
        pub value: Option<f64> = "value in `unit`; absent if the values of the sweep are no quantities of one unit";
        pub unit: Option<&'a str> = "unit of the value";
        pub text: &'a str = "value as names have it";
    }
}

record! {
    /// Row of `part`.
    pub(crate) struct PartRow<'a> {
        pub run_id: &'a str = "identifier of the run";
        pub plan_sha256: &'a str = "digest of the study and of all trials of its plan, hexadecimal";
        pub shard: Option<u32> = "number of the shard; absent for a run of the whole plan";
        pub shards: Option<u32> = "number of shards of the plan; absent for a run of the whole plan";
        pub trials: u32 = "number of trials that were planned", in_unit(Unit::Count);
        pub node: &'a str = "name of the machine";
        pub regatta_version: &'a str = "version of Regatta that made the part";
        pub started_unix_ns: i64 = "start of the part, since the Unix epoch", in_unit(Unit::Nanoseconds);
        pub bed: &'a str = "bed and path";
    }
}

record! {
    /// Fact about a host of a part.
    pub(crate) struct PartFactRow<'a> {
        pub host: &'a str = "`sender` or `receiver`";
        pub name: &'a str = "name of the fact, such as `kernel.release`";
        pub value: &'a str = "the fact, as the host reported it";
    }
}

record! {
    /// Row of `phrase`.
    pub(crate) struct PhraseRow<'a> {
        pub text: &'a str = "the text in English, as the other tables have it", constraint("UNIQUE");
        pub content: Phrase = "template, and the values of its arguments, as JSON", named("content_json");
    }
}

/// Defines the tables, one entry each: type of the table, type of its rows, name, primary key, and contents of a row; then
/// functions of [`Table`].
macro_rules! tables {
    ($($table:ident<$lifetime:lifetime> of $row:ty = $name:literal by $key:literal: $meaning:literal $(, $modifier:ident($($argument:literal)?))*;)+) => {
        $(
            #[doc = concat!("Table `", $name, "`: a row is ", $meaning, ".")]
            #[derive(Debug)]
            pub(crate) enum $table {}

            impl Stored for $table {
                type Row<$lifetime> = $row;

                const TABLE: Table = Table::new::<Self::Row<'static>>($name, $key, $meaning)$(.$modifier($($argument)?))*;
            }
        )+

        /// All tables, each after those that it refers to.
        pub(crate) const TABLES: &[Table] = &[$($table::TABLE),+];
    };
}

tables! {
    RunTable<'r> of (RowNumber, RunRow<'r>) = "run" by "id": "the run (one row)", constraint("CHECK (id = 1)"), with_checksum();
    HostTable<'r> of HostRow<'r> = "host" by "host": "one host of the run", by_key();
    HostFactTable<'r> of HostFactRow<'r> = "host_fact" by "host, name":
        "one fact about a host: kernel, processor, sysctls, offloads, versions of every stack", by_key();
    MetricDefinitionTable<'r> of MetricDefinitionRow<'r> = "metric_definition" by "name":
        "definition of a metric, as of the version of Regatta that measured it", by_key();
    TrialTable<'r> of TrialRecord = "trial" by "trial": "one attempt at a trial", with_checksum();
    ReasonTable<'r> of (OfTrial, ReasonRow) = "reason" by "trial, position":
        "one cause of an outcome other than `measured`", by_key();
    MetricTable<'r> of (OfTrial, MetricRow<'r>) = "metric" by "trial, name":
        "one value of one attempt; a value that was not measured has no row", by_key();
    SeriesTable<'r> of (OfTrial, (Position, SeriesRow<'r>)) = "series" by "trial, position":
        "one sampled quantity of one attempt at one end";
    HistogramTable<'r> of (OfTrial, (Position, Histogram)) = "histogram" by "trial, position":
        "one distribution of one attempt";
    FactTable<'r> of (OfTrial, FactRow<'r>) = "fact" by "trial, name":
        "one value that was read back from the running stacks in an attempt", by_key();
    WarningTable<'r> of (RowNumber, (WarningTrial, Warning)) = "warning" by "id": "one warning", with_checksum();
    PathCheckTable<'r> of (CheckNumber, PathCheck) = "path_check" by "id": "one check of the path by the bed", with_checksum();
    PathQuantityTable<'r> of (OfPathCheck, AskedAchieved) = "path_quantity" by "path_check, position":
        "one quantity of a check of the path", by_key();
    HostSampleNamesTable<'r> of (RowNumber, HostSampleNamesRow<'r>) = "host_sample_names" by "id":
        "the names of the values of samples", with_checksum();
    HostSamplesTable<'r> of (RowNumber, HostSamplesRow<'r>) = "host_samples" by "id":
        "samples of one host: of a few seconds between trials, or of one trial (bed `hosts` only)", with_checksum();
    ParameterTable<'r> of (RowNumber, ParameterRow<'r>) = "parameter" by "id":
        "value of one sweep for a transport, condition or workload that it made",
        constraint("UNIQUE (part, name, key)"), with_checksum();
    PartTable<'r> of (PartNumber, PartRow<'r>) = "part" by "id":
        "one run that the file is made of, as a part of its plan: one, or of a merged file several", with_checksum();
    PartFactTable<'r> of (OfPart, PartFactRow<'r>) = "part_fact" by "part, host, name":
        "in a merged file, one fact about a host that differs between the parts", by_key();
    PartTrialTable<'r> of (OfTrial, OfPart) = "part_trial" by "trial": "in a merged file, the part of one attempt";
    PhraseTable<'r> of (RowNumber, PhraseRow<'r>) = "phrase" by "id":
        "template of a text of the other tables: of a bed, a reason, a hint of a trial, a fact", with_checksum();
}

/// Returns the tables with their columns as a table in Markdown, for the documents.
#[must_use]
pub fn markdown() -> String {
    let mut page = "| table | column | type | meaning |\n|---|---|---|---|\n".to_owned();
    for table in TABLES {
        page.push_str(&format!(
            "| **`{}`** | | | {} |\n",
            table.name, table.meaning
        ));
        for column in table.columns() {
            let kind = stored::sql_type(column.kind);
            page.push_str(&format!(
                "| | `{}` | {kind} | {} |\n",
                column.name, column.meaning
            ));
        }
    }
    page
}

/// Indexes beside those of the keys.
const INDEXES: &str = "
CREATE INDEX warning_of_trial ON warning (trial);
CREATE INDEX part_trial_of_part ON part_trial (part);
";

/// Returns the statements that create the tables.
pub(crate) fn create() -> String {
    let tables: String = TABLES.iter().map(Table::create).collect();
    tables + INDEXES
}
