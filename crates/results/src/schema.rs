//! The tables of a results file.
//!
//! | table | one row is |
//! |---|---|
//! | `run` | the run: identifier, version, start, study (JSON and as the user wrote it), bed, state |
//! | `host` | one host of the run: `sender`, `receiver` |
//! | `host_fact` | one fact about one host |
//! | `trial` | one attempt at a trial: its position in the plan, its parts, its outcome |
//! | `reason` | one cause of an outcome other than `measured`, outermost first |
//! | `metric` | one value of one trial; a value that was not measured has no row |
//! | `metric_definition` | name, unit, title and definition of a metric, as of the version that wrote the file |
//! | `series` | one sampled quantity of one trial at one end |
//! | `histogram` | one distribution of one trial (HdrHistogram V2, base64) |
//! | `fact` | one fact that was read back in one trial |
//! | `warning` | one warning, of a trial or (where `trial` is null) of the run |
//! | `path_check` | one self-check of the path under one condition, at one step of its schedule |
//! | `path_quantity` | one quantity of a path check: asked, achieved, tolerance |
//! | `host_samples` | samples of one host: of a few seconds between trials, or of one trial |
//! | `host_sample_names` | names of the values of samples |
//! | `part` | one run that the file is made of, as a part of its plan: one, or of a merged file several |
//! | `part_fact` | one fact about a host that differs between the parts of a merged file |
//! | `part_trial` | the part of one trial, in a merged file |
//! | `phrase` | template and arguments of a text of the other tables |
//! | `parameter` | value of one sweep for one transport, condition or workload that it made |
//!
//! Times are nanoseconds, since the Unix epoch where the name says `unix`. Seeds are decimal text,
//! because SQLite's integers end at 2^63 − 1. In `series`, `t_ns` is a blob of little-endian
//! 64-bit signed integers and `value` a blob of as many little-endian IEEE 754 doubles (NumPy:
//! `frombuffer(t_ns, "<i8")`, `frombuffer(value, "<f8")`). In `path_quantity` an infinite bound is
//! SQLite's `Inf`, and null stands for a value that is not a number.
//!
//! In `host_samples`, `unix_ns` and `monotonic_ns` are blobs like `t_ns`, by the host's clocks. `value_zlib`
//! is compressed (zlib): little-endian IEEE 754 single-precision numbers, all samples of the first name,
//! then all of the second, and so on; NaN stands for a value that was not measured. `names` refers to
//! `host_sample_names`, which has them as a JSON array. `trial` is the trial during which the samples were
//! taken, or null; it has no row in `trial` if it was given up.
//!
//! `trial` counts from 0 by the plan. An invalid trial is repeated: `attempt` is 2 or 3 then, and
//! `trial` that of the first attempt plus the number of trials in the plan for each earlier one. The
//! last attempt of a transport, condition and workload in a round counts. A path check with a text in
//! `spoiled` is not used. `checksum` is the CRC-32 of the stored record of the run, of a trial, of a
//! path check, of a warning about the run, of samples or of their names, of a parameter, of a part, in all tables: it detects a changed bit that leaves the
//! file a sound database. It is null for records of version 1, which has none of the columns `attempt`,
//! `checksum`, `step_at_ns` and `spoiled`.
//!
//! In `parameter`, `value` is in `unit` (null if the values are no quantities), and `name` is in `trial`
//! under the column that `part` names.
//!
//! In `part`, `shard` and `shards` are null for a run of the whole plan. `plan_sha256` is the digest of
//! the study and of all trials of its plan. A run that was begun before version 5 has no row there.
//!
//! Since version 6 the name of a metric says its statistic (`round_trip_delay_mean_ns`, before that
//! `round_trip_delay_ns`): an older Regatta would miss the delays of such a file. Readers take the earlier
//! names of older files for those of now.
//!
//! Since version 7 a warning has its template and the values of its arguments in `content_json`; in the rows of older files
//! that is null.
//!
//! Since version 8 reasons, hints of trials, facts, beds and the reason of an interruption have their template and the
//! values of its arguments in `phrase`, by the English text that their tables hold. Texts without a row there are of other
//! programs.
//!
//! SQLite's `application_id` ([`APPLICATION_ID`]) identifies the file, and `user_version`
//! ([`VERSION`]) is the version of its tables.

/// Application identifier, `RGTA` in ASCII, which `file results.sqlite` shows.
pub const APPLICATION_ID: i32 = 0x5247_5441;

/// Version of the tables that this Regatta writes, and the highest that it reads.
pub const VERSION: i32 = 8;

pub(crate) const TABLES: &str = "
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    run_id TEXT NOT NULL,
    regatta_version TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    study TEXT NOT NULL,
    study_json TEXT NOT NULL,
    study_text TEXT NOT NULL,
    bed TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'interrupted')),
    state_reason TEXT NOT NULL,
    checksum INTEGER
) STRICT;
CREATE TABLE host (
    host TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE host_fact (
    host TEXT NOT NULL REFERENCES host (host),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (host, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE metric_definition (
    name TEXT PRIMARY KEY,
    unit TEXT NOT NULL,
    title TEXT NOT NULL,
    definition TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE trial (
    trial INTEGER PRIMARY KEY,
    round INTEGER NOT NULL,
    transport TEXT NOT NULL,
    condition TEXT NOT NULL,
    workload TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    seed TEXT NOT NULL,
    outcome TEXT NOT NULL
        CHECK (outcome IN ('measured', 'unsupported', 'failed', 'timed_out', 'invalid')),
    hint TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    checksum INTEGER
) STRICT;
CREATE TABLE reason (
    trial INTEGER NOT NULL REFERENCES trial (trial),
    position INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE metric (
    trial INTEGER NOT NULL REFERENCES trial (trial),
    name TEXT NOT NULL REFERENCES metric_definition (name),
    value REAL NOT NULL,
    PRIMARY KEY (trial, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE series (
    trial INTEGER NOT NULL REFERENCES trial (trial),
    position INTEGER NOT NULL,
    side TEXT NOT NULL,
    name TEXT NOT NULL,
    samples INTEGER NOT NULL,
    t_ns BLOB NOT NULL CHECK (length(t_ns) = 8 * samples),
    value BLOB NOT NULL CHECK (length(value) = 8 * samples),
    PRIMARY KEY (trial, position)
) STRICT;
CREATE TABLE histogram (
    trial INTEGER NOT NULL REFERENCES trial (trial),
    position INTEGER NOT NULL,
    side TEXT NOT NULL,
    name TEXT NOT NULL,
    hdr_v2_base64 TEXT NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT;
CREATE TABLE fact (
    trial INTEGER NOT NULL REFERENCES trial (trial),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (trial, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE warning (
    id INTEGER PRIMARY KEY,
    trial INTEGER REFERENCES trial (trial),
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    hint TEXT NOT NULL,
    checksum INTEGER
) STRICT;
CREATE INDEX warning_of_trial ON warning (trial);
CREATE TABLE path_check (
    id INTEGER PRIMARY KEY,
    condition TEXT NOT NULL,
    checked_unix_ns INTEGER NOT NULL,
    within INTEGER NOT NULL CHECK (within IN (0, 1)),
    step_at_ns INTEGER NOT NULL DEFAULT 0,
    spoiled TEXT,
    checksum INTEGER
) STRICT;
CREATE TABLE path_quantity (
    path_check INTEGER NOT NULL REFERENCES path_check (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    asked REAL,
    achieved REAL,
    lowest REAL,
    highest REAL,
    n INTEGER NOT NULL,
    within INTEGER NOT NULL CHECK (within IN (0, 1)),
    PRIMARY KEY (path_check, position)
) STRICT, WITHOUT ROWID;
";

/// Statements that convert tables of version 1 to version 2.
pub(crate) const FROM_1_TO_2: &str = "
ALTER TABLE trial ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
ALTER TABLE trial ADD COLUMN checksum INTEGER;
ALTER TABLE run ADD COLUMN checksum INTEGER;
ALTER TABLE warning ADD COLUMN checksum INTEGER;
ALTER TABLE path_check ADD COLUMN step_at_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE path_check ADD COLUMN spoiled TEXT;
ALTER TABLE path_check ADD COLUMN checksum INTEGER;
PRAGMA user_version = 2;
";

/// Tables that version 3 added.
pub(crate) const SINCE_3: &str = "
CREATE TABLE host_sample_names (
    id INTEGER PRIMARY KEY,
    names TEXT NOT NULL,
    checksum INTEGER
) STRICT;
CREATE TABLE host_samples (
    id INTEGER PRIMARY KEY,
    host TEXT NOT NULL REFERENCES host (host),
    trial INTEGER,
    names INTEGER NOT NULL REFERENCES host_sample_names (id),
    samples INTEGER NOT NULL,
    unix_ns BLOB NOT NULL CHECK (length(unix_ns) = 8 * samples),
    monotonic_ns BLOB NOT NULL CHECK (length(monotonic_ns) = 8 * samples),
    value_zlib BLOB NOT NULL,
    checksum INTEGER
) STRICT;
";

/// Table that version 4 added.
pub(crate) const SINCE_4: &str = "
CREATE TABLE parameter (
    id INTEGER PRIMARY KEY,
    part TEXT NOT NULL CHECK (part IN ('transport', 'condition', 'workload')),
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    value REAL,
    unit TEXT,
    text TEXT NOT NULL,
    checksum INTEGER,
    UNIQUE (part, name, key)
) STRICT;
";

/// Tables that version 5 added.
pub(crate) const SINCE_5: &str = "
CREATE TABLE part (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    plan_sha256 TEXT NOT NULL,
    shard INTEGER,
    shards INTEGER,
    trials INTEGER NOT NULL,
    node TEXT NOT NULL,
    regatta_version TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    bed TEXT NOT NULL,
    checksum INTEGER
) STRICT;
CREATE TABLE part_fact (
    part INTEGER NOT NULL REFERENCES part (id),
    host TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (part, host, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE part_trial (
    trial INTEGER PRIMARY KEY REFERENCES trial (trial),
    part INTEGER NOT NULL REFERENCES part (id)
) STRICT;
CREATE INDEX part_trial_of_part ON part_trial (part);
";

/// Column that version 7 added.
pub(crate) const SINCE_7: &str = "ALTER TABLE warning ADD COLUMN content_json TEXT";

/// Table that version 8 added.
pub(crate) const SINCE_8: &str = "
CREATE TABLE phrase (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE,
    content_json TEXT NOT NULL,
    checksum INTEGER
) STRICT;
";
