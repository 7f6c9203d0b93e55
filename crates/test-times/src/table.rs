//! Table of the groups and of the tests that took most CPU time.

use std::{
    collections::BTreeMap, fmt::Write as _, fs, path::Path, process::ExitCode, time::Duration,
};

use crate::{record::Record, reference::slowness};

/// Ratio of a group's CPU time, divided by the slowness of the machine, to its budget above which a check fails:
/// processors differ in more than one calculation shows, and so do runs.
const TOLERANCE: f64 = 1.5;

/// Number of tests in the table.
const TESTS: usize = 10;

/// Meaning of the budgets in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All tests have run; the table shows the budgets.
    Whole,
    /// Some of the tests have run, or other forms of them; the table shows no budgets.
    Partial,
    /// All tests have run, and a group above its budget by [`TOLERANCE`] is a failure.
    Checked,
}

/// Sums over the tests of a group.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sums {
    tests: u32,
    wall: Duration,
    cpu: Duration,
    budget_s: u32,
}

impl Sums {
    fn add(&mut self, record: &Record) {
        self.tests += 1;
        self.wall += record.wall;
        self.cpu += record.cpu;
    }

    fn is_exceeded(&self, slowness: f64) -> bool {
        self.cpu.as_secs_f64() > TOLERANCE * slowness * f64::from(self.budget_s)
    }
}

/// Prints the table of a file of records on standard output, and with [`Form::Checked`] errors on standard error.
///
/// # Errors
/// Error message if the file cannot be read.
pub fn print(form: Form, file: &Path) -> Result<ExitCode, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let records: Vec<Record> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    let groups = sums(&records)?;
    print!("{}{}", group_table(&groups, form), test_table(&records));
    let slowness = slowness(records.iter().map(|record| record.calculation).collect());
    if form != Form::Partial {
        println!(
            "A calculation before each test took {slowness:.2} times the CPU time of the machine of the budgets."
        );
    }
    if form != Form::Checked {
        return Ok(ExitCode::SUCCESS);
    }
    let exceeded: Vec<_> = groups
        .iter()
        .filter(|(_, sums)| sums.is_exceeded(slowness))
        .collect();
    for (group, sums) in &exceeded {
        eprintln!(
            "error: the tests of the group `{group}` took {:.0} s of CPU time, more than {TOLERANCE} times their budget of {:.0} s on this machine",
            sums.cpu.as_secs_f64(),
            slowness * f64::from(sums.budget_s)
        );
    }
    if exceeded.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "hint: make the group's tests cheaper, or see \"Budgets of the tests\" in CONTRIBUTING.md"
    );
    Ok(ExitCode::FAILURE)
}

/// Returns the sums of each group.
///
/// # Errors
/// Error message if a group has two budgets: several wrapper scripts may belong to one group.
fn sums(records: &[Record]) -> Result<BTreeMap<&str, Sums>, String> {
    let mut groups: BTreeMap<&str, Sums> = BTreeMap::new();
    for record in records {
        let sums = groups.entry(&record.group).or_insert(Sums {
            budget_s: record.budget_s,
            ..Sums::default()
        });
        if sums.budget_s != record.budget_s {
            return Err(format!(
                "the group `{}` has the budgets {} s and {} s",
                record.group, sums.budget_s, record.budget_s
            ));
        }
        sums.add(record);
    }
    Ok(groups)
}

fn group_table(groups: &BTreeMap<&str, Sums>, form: Form) -> String {
    let mut by_cpu: Vec<_> = groups.iter().map(|(group, sums)| (*group, *sums)).collect();
    by_cpu.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.cpu));
    let mut all = Sums::default();
    for (_, sums) in &by_cpu {
        all.tests += sums.tests;
        all.wall += sums.wall;
        all.cpu += sums.cpu;
        all.budget_s += sums.budget_s;
    }
    by_cpu.push(("all", all));
    let mut text = format!(
        "{:<12}{:>7}{:>11}{:>10}",
        "group", "tests", "wall [s]", "CPU [s]"
    );
    text.push_str(if form == Form::Partial {
        "\n"
    } else {
        "  budget [s]\n"
    });
    for (
        group,
        Sums {
            tests,
            wall,
            cpu,
            budget_s,
        },
    ) in by_cpu
    {
        let (wall_s, cpu_s) = (wall.as_secs_f64(), cpu.as_secs_f64());
        let _ = write!(text, "{group:<12}{tests:>7}{wall_s:>11.1}{cpu_s:>10.1}");
        if form != Form::Partial {
            let _ = write!(text, "{budget_s:>12}");
        }
        text.push('\n');
    }
    text
}

fn test_table(records: &[Record]) -> String {
    let mut by_cpu: Vec<_> = records.iter().collect();
    by_cpu.sort_by_key(|record| std::cmp::Reverse(record.cpu));
    let mut text = format!(
        "{:>9}{:>10}  tests with most CPU time\n",
        "wall [s]", "CPU [s]"
    );
    for Record {
        group,
        binary,
        test,
        wall,
        cpu,
        ..
    } in by_cpu.into_iter().take(TESTS)
    {
        let (wall_s, cpu_s) = (wall.as_secs_f64(), cpu.as_secs_f64());
        let _ = writeln!(text, "{wall_s:>9.1}{cpu_s:>10.1}  {group}: {binary} {test}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(group: &str, test: &str, wall_ms: u64, cpu_ms: u64) -> Record {
        Record {
            group: group.into(),
            budget_s: if group == "unit" { 10 } else { 200 },
            binary: "regatta-model".into(),
            test: test.into(),
            wall: Duration::from_millis(wall_ms),
            cpu: Duration::from_millis(cpu_ms),
            calculation: Duration::from_millis(1),
            status: 0,
        }
    }

    #[test]
    fn a_table_shows_the_sums_of_groups_and_the_dearest_tests() {
        let records = [
            record("unit", "a", 100, 50),
            record("guests", "boot", 20_000, 12_340),
            record("unit", "b", 400, 260),
        ];
        let groups = sums(&records).expect("one budget each");
        let expected = "\
group         tests   wall [s]   CPU [s]  budget [s]
guests            1       20.0      12.3         200
unit              2        0.5       0.3          10
all               3       20.5      12.7         210
";
        assert_eq!(group_table(&groups, Form::Whole), expected);
        let partial = group_table(&groups, Form::Partial);
        assert!(
            !partial.contains("budget") && !partial.contains("200"),
            "{partial}"
        );
        let expected = " wall [s]   CPU [s]  tests with most CPU time
     20.0      12.3  guests: regatta-model boot
      0.4       0.3  unit: regatta-model b
      0.1       0.1  unit: regatta-model a
";
        assert_eq!(test_table(&records), expected);
    }

    #[test]
    fn a_budget_is_exceeded_beyond_one_and_a_half_times_it() {
        let of = |cpu_ms, slowness| {
            let records = [record("unit", "a", 1, cpu_ms)];
            sums(&records).expect("one budget")["unit"].is_exceeded(slowness)
        };
        assert!(!of(15_000, 1.0));
        assert!(of(15_001, 1.0));
        assert!(!of(15_001, 1.1));
        assert!(of(15_000, 0.9));
    }

    #[test]
    fn a_group_with_two_budgets_is_an_error() {
        let mut records = [record("unit", "a", 1, 1), record("unit", "b", 1, 1)];
        records[1].budget_s = 11;
        let error = sums(&records).expect_err("two budgets");
        assert_eq!(error, "the group `unit` has the budgets 10 s and 11 s");
    }
}
