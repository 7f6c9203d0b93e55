//! Definitions of the exported tables: those of the results file with its columns, and what it has packed row by row.

use regatta_model::{
    Unit, host_sample,
    table::{Column, Kind},
};

use crate::{
    schema::{
        FactTable, HostFactTable, MetricDefinitionTable, MetricTable, ParameterTable,
        PartFactTable, PartTable, PartTrialTable, PathCheckTable, PathQuantityTable, PhraseTable,
        ReasonTable, RunTable, TrialTable, WarningTable,
    },
    stored::{self, Stored as _},
};

/// Exported table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name of the file without its ending.
    pub name: &'static str,
    /// Contents of a row, without a full stop.
    pub meaning: &'static str,
    /// Origin of the rows.
    pub(super) rows: Rows,
}

/// Origin of the rows of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    /// Rows of a table of the results file.
    Stored {
        table: stored::Table,
        /// Column that is computed.
        computed: Option<Computed>,
        /// Rest of the query behind `SELECT … FROM`; empty for all rows in the order of the key.
        from: &'static str,
    },
    /// Rows that are computed, with these columns.
    Computed(Packed, fn() -> Vec<Column>),
}

/// Column that is computed by SQL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computed {
    /// Name of the column after it.
    before: &'static str,
    sql: &'static str,
    column: fn() -> Column,
}

/// Packed column or list from which the rows of an exported table are computed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packed {
    /// Series of the trials.
    Series,
    /// Histograms of the trials.
    Histograms,
    /// Samples of the hosts, which have a column for each quantity that occurs behind the others.
    HostSamples,
    /// Definitions of the series.
    SeriesDefinitions,
}

/// Column of an exported table with the expression of SQL that it is read by.
pub(super) struct StoredColumn {
    pub sql: String,
    /// Column of the results file; of another name than in the export only where this has a reference.
    pub column: Column,
}

/// Returns the exported columns of a table of the results file.
pub(super) fn stored_columns(
    table: &stored::Table,
    computed: Option<Computed>,
) -> Vec<StoredColumn> {
    let mut exported = Vec::new();
    for mut column in table.columns() {
        if let Some(computed) = computed.filter(|it| it.before == column.name) {
            exported.push(StoredColumn {
                sql: computed.sql.to_owned(),
                column: (computed.column)(),
            });
        }
        if let Some(name) = column.exported.clone() {
            let sql = std::mem::replace(&mut column.name, name).into_owned();
            exported.push(StoredColumn { sql, column });
        }
    }
    exported
}

impl Table {
    const fn of(table: stored::Table) -> Self {
        Self::with(table, None, "")
    }

    const fn with(table: stored::Table, computed: Option<Computed>, from: &'static str) -> Self {
        Self {
            name: table.name,
            meaning: table.meaning,
            rows: Rows::Stored {
                table,
                computed,
                from,
            },
        }
    }

    const fn packed(
        name: &'static str,
        meaning: &'static str,
        rows: Packed,
        columns: fn() -> Vec<Column>,
    ) -> Self {
        Self {
            name,
            meaning,
            rows: Rows::Computed(rows, columns),
        }
    }
}

fn integer(name: &'static str, meaning: &'static str) -> Column {
    Column::new(Kind::Integer, name, meaning)
}

fn time(name: &'static str, meaning: &'static str) -> Column {
    integer(name, meaning).in_unit(Unit::Nanoseconds)
}

fn text(name: &'static str, meaning: &'static str) -> Column {
    Column::new(Kind::Text, name, meaning)
}

/// Reference to a row of `trial`.
fn trial() -> Column {
    integer("trial", "number of the attempt in `trial`")
}

fn unit() -> Column {
    text("unit", "unit of the value")
}

fn value() -> Column {
    Column::new(Kind::Real, "value", "value in `unit`")
}

/// Creates a column that some runs have.
pub(super) fn of_some_runs(
    kind: Kind,
    name: String,
    unit: Option<Unit>,
    meaning: String,
) -> Column {
    Column {
        unit,
        ..Column::new(kind, name, meaning).nullable()
    }
}

/// Returns the column of one quantity of host samples; a file of another build may hold one that this one does not know.
pub(super) fn host_column(name: String) -> Column {
    let (unit, meaning) = match host_sample::find(&name) {
        Some((quantity, member)) => {
            let of = member.map_or_else(String::new, |member| {
                format!(" ({} `{member}`)", quantity.group.name())
            });
            let since = match quantity.kind {
                host_sample::Kind::State => "",
                host_sample::Kind::Share | host_sample::Kind::Count => {
                    ", since the previous sample"
                }
            };
            let meaning = format!("{}{of}{since}", quantity.definition);
            (Some(quantity.unit), meaning)
        }
        None => (None, "a quantity of another version of Regatta".to_owned()),
    };
    of_some_runs(Kind::Single, name, unit, meaning)
}

/// Whether an attempt is the one that counts.
const IS_LAST_ATTEMPT: Computed = Computed {
    before: "round",
    sql: "attempt = max(attempt) OVER (PARTITION BY round, transport, condition, workload)",
    column: || {
        Column::new(
            Kind::Boolean,
            "is_last_attempt",
            "whether this is the attempt that counts; earlier ones are `invalid`",
        )
    },
};

/// Unit of a metric, as of its definition.
const METRIC_UNIT: Computed = Computed {
    before: "value",
    sql: "unit",
    column: || unit().nullable(),
};

/// Largest finite number: what is not finite was not stored by Regatta, and is no measurement.
const FINITE: &str = "metric LEFT JOIN metric_definition USING (name)
    WHERE abs(value) <= 1.7976931348623157e308 ORDER BY trial, name";

/// The exported tables.
pub(super) const TABLES: &[Table] = &[
    Table::of(RunTable::TABLE),
    Table::of(HostFactTable::TABLE),
    Table::of(MetricDefinitionTable::TABLE),
    Table::packed(
        "series_definition",
        "definition of a quantity that is sampled over time",
        Packed::SeriesDefinitions,
        || {
            vec![
                text("name", "name of the series"),
                unit(),
                text("title", "short title for axes"),
                text("definition", "quantity that is sampled"),
            ]
        },
    ),
    Table::with(TrialTable::TABLE, Some(IS_LAST_ATTEMPT), ""),
    Table::of(ReasonTable::TABLE),
    Table::of(ParameterTable::TABLE),
    Table::with(MetricTable::TABLE, Some(METRIC_UNIT), FINITE),
    Table::packed(
        "sample",
        "one sample of a series of an attempt, in the order of the series and of time",
        Packed::Series,
        || {
            vec![
                trial(),
                text(
                    "side",
                    "where it was sampled: `sender`, `receiver` or `path`",
                ),
                text("name", "name of the series, see `series_definition`"),
                unit().nullable(),
                time(
                    "t_ns",
                    "time of the sample since the first connect call of the trial; a rate is of the interval that ends then",
                ),
                value(),
            ]
        },
    ),
    Table::packed(
        "histogram_bucket",
        "one bucket with values of an HdrHistogram of an attempt",
        Packed::Histograms,
        || {
            vec![
                trial(),
                text("side", "end that measured: `sender` or `receiver`"),
                text("name", "name of the quantity, which ends in its unit"),
                integer(
                    "lowest",
                    "lowest value of the bucket, in the unit that `name` ends in",
                ),
                integer("highest", "highest value of the bucket, in the same unit"),
                Column::new(Kind::Unsigned, "count", "number of values in the bucket")
                    .in_unit(Unit::Count),
            ]
        },
    ),
    Table::of(FactTable::TABLE),
    Table::of(WarningTable::TABLE),
    Table::of(PhraseTable::TABLE),
    Table::of(PathCheckTable::TABLE),
    Table::of(PathQuantityTable::TABLE),
    Table::of(PartTable::TABLE),
    Table::of(PartFactTable::TABLE),
    Table::of(PartTrialTable::TABLE),
    Table::packed(
        "host_sample",
        "one sample of a monitored host (bed `hosts` only), with a column for each quantity that occurs",
        Packed::HostSamples,
        || {
            vec![
                text("host", "`sender` or `receiver`"),
                integer(
                    "trial",
                    "number of the attempt in `trial` that was under way; absent between trials",
                )
                .nullable(),
                time(
                    "unix_ns",
                    "time of the sample by the host's clock, since the Unix epoch",
                ),
                time(
                    "monotonic_ns",
                    "time of the sample by the host's monotonic clock",
                ),
            ]
        },
    ),
];
