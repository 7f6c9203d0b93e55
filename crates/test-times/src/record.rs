//! Line that each test appends to the file of its test run.

use std::{
    fmt::{self, Display},
    str::FromStr,
    time::Duration,
};

/// Name of the file in the directory of the test run.
pub const FILE_NAME: &str = "times.tsv";

/// Times of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Group of the table.
    pub group: String,
    /// Budget of the group, in seconds of CPU time.
    pub budget_s: u32,
    /// Test program, as nextest names it.
    pub binary: String,
    /// Name of the test with its modules.
    pub test: String,
    /// Time from the start of the test's process to its end.
    pub wall: Duration,
    /// User and system time of the test's process and all its descendants.
    pub cpu: Duration,
    /// CPU time of the [calculation](crate::reference::calculation) before the test.
    pub calculation: Duration,
    /// Exit code, or number of the signal that ended the test, negated.
    pub status: i32,
}

impl Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            budget_s,
            binary,
            test,
            wall,
            cpu,
            calculation,
            status,
        } = self;
        let (wall_s, cpu_s) = (wall.as_secs_f64(), cpu.as_secs_f64());
        let calculation_s = calculation.as_secs_f64();
        writeln!(
            f,
            "{group}\t{budget_s}\t{binary}\t{test}\t{wall_s:.4}\t{cpu_s:.4}\t{calculation_s:.6}\t{status}"
        )
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let parsed = || {
            let mut fields = line.split('\t');
            let record = Self {
                group: fields.next()?.to_owned(),
                budget_s: fields.next()?.parse().ok()?,
                binary: fields.next()?.to_owned(),
                test: fields.next()?.to_owned(),
                wall: seconds(fields.next()?)?,
                cpu: seconds(fields.next()?)?,
                calculation: seconds(fields.next()?)?,
                status: fields.next()?.parse().ok()?,
            };
            fields.next().is_none().then_some(record)
        };
        parsed().ok_or_else(|| format!("`{line}` is no line of {FILE_NAME}"))
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let record = Record {
            group: "guests".into(),
            budget_s: 1200,
            binary: "regatta-cli::e2e".into(),
            test: "guests::matrix::a".into(),
            wall: Duration::from_millis(1250),
            cpu: Duration::from_micros(1_300_100),
            calculation: Duration::from_micros(1_234),
            status: -9,
        };
        let line = record.to_string();
        assert_eq!(
            line,
            "guests\t1200\tregatta-cli::e2e\tguests::matrix::a\t1.2500\t1.3001\t0.001234\t-9\n"
        );
        assert_eq!(line.trim_end().parse(), Ok(record));
        for wrong in [
            "",
            "guests\t1200",
            "guests\t1200\ta\tb\t1\t-1\t0\t0",
            "guests\t1\ta\tb\t1\t1\t0\t0\t0",
        ] {
            wrong.parse::<Record>().expect_err(wrong);
        }
    }
}
