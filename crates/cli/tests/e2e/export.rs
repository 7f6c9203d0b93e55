//! Export of all tables, and the examples of docs/export.md.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use regatta_model::{Outcome, metric::id};
use regatta_report::RunData;
use regatta_results::Store;
use serde_json::Value;

use crate::{
    happy::assert_fits,
    help::{Bench, Done},
};

#[path = "../../../report/tests/integration/common/mod.rs"]
mod common;

const PAGE: &str = include_str!("../../../../docs/export.md");
const SCHEMA: &str = include_str!("../../../../schemas/dictionary.schema.json");

/// Returns the blocks of the page in one language.
fn blocks(language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{language}") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push(block.join("\n") + "\n");
        }
    }
    found
}

/// Writes the run of the report's tests into `results`.
pub fn store(bench: &Bench) -> RunData {
    let data = common::full();
    let mut store = Store::create(&bench.path("results"), &data.header).expect("a new directory");
    for trial in &data.trials {
        store.add_trial(trial).expect("a new trial");
    }
    for check in &data.path_checks {
        store.add_path_check(check).expect("a check");
    }
    store.set_state(&data.state).expect("a state");
    data
}

/// Writes the run of the report's tests into `results`, and runs the commands of the page.
fn exported(bench: &Bench) -> RunData {
    let data = store(bench);
    let commands = blocks("sh").concat();
    assert_eq!(commands.lines().count(), 2, "{commands}");
    for command in commands.lines() {
        let arguments: Vec<&str> = command.split(' ').collect();
        assert_eq!(arguments[0], "regatta");
        bench.run(&arguments[1..]).assert_code(0);
    }
    data
}

/// Returns the mean goodput of a cell, in bit/s.
fn goodput(data: &RunData, transport: &str, condition: &str) -> f64 {
    let of_cell = data.trials.iter().filter(|trial| {
        trial.outcome == Outcome::Measured
            && trial.transport == transport
            && trial.condition == condition
    });
    let values: Vec<f64> = of_cell
        .map(|trial| trial.measurements.metrics[id::GOODPUT_BPS])
        .collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn run(mut command: Command, needs: &str) -> Done {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}\n{needs}"));
    let done = Done::from(output);
    done.assert_code(0);
    done
}

/// Runs a program in Python in the environment of `make export-readers`, with the module `regatta` of the wheel.
fn python(bench: &Bench, program: &str) -> Done {
    let directory = env::var_os("REGATTA_EXPORT_READERS").map_or_else(
        || Path::new(&env::var_os("HOME").expect("HOME")).join(".cache/regatta/export-readers"),
        PathBuf::from,
    );
    let mut command = bench.command(directory.join("bin/python"));
    let regatta = Path::new(env!("CARGO_BIN_EXE_regatta"));
    let beside = regatta.parent().expect("a directory").as_os_str();
    let rest = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([beside.into()].into_iter().chain(env::split_paths(&rest)));
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/python/src");
    command.args(["-c", program]).envs([
        ("PATH", path.expect("a path")),
        ("PYTHONPATH", module.into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ]);
    run(
        command,
        "hint: run `make export-readers`, then the test again",
    )
}

fn last_line(done: &Done) -> &str {
    done.stdout
        .trim_end()
        .lines()
        .next_back()
        .unwrap_or_default()
}

/// Checks that the last line is a number of bits per second close to this one.
#[track_caller]
fn assert_ends_with(done: &Done, expected: f64) {
    let found: f64 = last_line(done).parse().expect(&done.stdout);
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found}, not {expected}: {}",
        done.stdout
    );
}

#[test]
fn pandas_example_of_the_page_runs() {
    let bench = Bench::new();
    let data = exported(&bench);
    let [program, _] = &blocks("python")[..] else {
        panic!("two blocks in Python");
    };
    let check = "print(run.dictionary['tables'][0]['name'], len(run.metric))\n\
                 print(float(goodput.loc[('loss-5', 'tcp'), 'mean']))\n";
    let done = python(&bench, &(program.clone() + check));
    assert!(done.stdout.contains("quic-quinn"), "{}", done.stdout);
    assert_ends_with(&done, goodput(&data, "tcp", "loss-5"));
}

#[test]
fn trials_of_the_module_have_the_columns_of_sweeps() {
    let done = python(
        &Bench::new(),
        "import pandas as pd, regatta\n\
         run = regatta.Run({\n\
         \x20   'trial': pd.DataFrame({'trial': [0, 1], 'transport': ['tcp:cc=bbr', 'udp'], 'condition': ['a', 'b'],\n\
         \x20       'workload': ['w', 'w'], 'outcome': ['measured'] * 2, 'is_last_attempt': [True] * 2}),\n\
         \x20   'metric': pd.DataFrame({'trial': [0, 1], 'name': ['goodput_bps'] * 2, 'value': [1e6, 2e6]}),\n\
         \x20   'parameter': pd.DataFrame({'part': ['condition', 'condition', 'transport'], 'name': ['a', 'b', 'tcp:cc=bbr'],\n\
         \x20       'key': ['loss', 'loss', 'cc'], 'value': [0.01, 0.02, None], 'text': ['1 %', '2 %', 'bbr']})}, {})\n\
         trials = run.trials()\n\
         print(trials['condition.loss'].tolist(), trials['transport.cc'].fillna('-').tolist(), trials.goodput_bps.tolist())\n",
    );
    assert_eq!(
        last_line(&done),
        "[0.01, 0.02] ['bbr', '-'] [1000000.0, 2000000.0]"
    );
}

#[test]
fn duckdb_example_of_the_page_runs() {
    let bench = Bench::new();
    let data = exported(&bench);
    let [_, program] = &blocks("python")[..] else {
        panic!("two blocks in Python");
    };
    let check = "print(duckdb.sql(\"SELECT avg(value) FROM 'tables/trial.parquet' JOIN 'tables-csv/metric.csv' \
                 USING (trial) WHERE name = 'goodput_bps' AND outcome = 'measured' AND transport = 'udp' \
                 AND condition = 'baseline'\").fetchall()[0][0])\n";
    let done = python(&bench, &(program.clone() + check));
    // Neither table is empty.
    let (goodputs, delays) = done.stdout.split_once("p99_ms").expect(&done.stdout);
    assert!(goodputs.contains("goodput_mbps"), "{}", done.stdout);
    for table in [goodputs, delays] {
        assert!(table.contains("quic-quinn"), "{}", done.stdout);
    }
    assert_ends_with(&done, goodput(&data, "udp", "baseline"));
}

#[test]
fn r_example_of_the_page_runs() {
    let bench = Bench::new();
    let data = exported(&bench);
    let [program] = &blocks("r")[..] else {
        panic!("one block in R");
    };
    let check = "of <- goodput$transport == 'tcp' & goodput$condition == 'baseline'\n\
                 cat(sprintf('%.17g\\n', mean(goodput$value[of])))\n";
    let mut command = bench.command("Rscript");
    command.args(["--vanilla", "-e", &(program.clone() + check)]);
    let done = run(
        command,
        "hint: run `scripts/need Rscript`, then the test again",
    );
    assert!(done.stdout.contains("quic-quinn"), "{}", done.stdout);
    assert_ends_with(&done, goodput(&data, "tcp", "baseline"));
}

#[test]
fn both_formats_have_the_rows_and_types_of_the_dictionary() {
    let bench = Bench::new();
    exported(&bench);
    let text = std::fs::read_to_string(bench.path("tables/dictionary.json")).expect("a file");
    let dictionary: Value = serde_json::from_str(&text).expect("JSON");
    assert_fits(SCHEMA, &dictionary);
    // Each table as Parquet by pandas and DuckDB, and as CSV by pandas.
    let done = python(
        &bench,
        "import json, duckdb, pandas as pd, pyarrow.parquet as pq\n\
         types = {'int64': 'int64', 'uint64': 'uint64', 'float64': 'double', 'float32': 'float', 'text': 'string', 'boolean': 'bool'}\n\
         for table in json.load(open('tables/dictionary.json'))['tables']:\n\
         \x20   name, columns = table['name'], [column['name'] for column in table['columns']]\n\
         \x20   file = pq.ParquetFile(f'tables/{name}.parquet')\n\
         \x20   assert json.loads(file.metadata.metadata[b'regatta.table'])['name'] == name\n\
         \x20   for column, field in zip(table['columns'], file.schema_arrow, strict=True):\n\
         \x20       assert str(field.type) == types[column['type']], (name, column, field)\n\
         \x20       assert field.nullable == column['nullable'], (name, column, field)\n\
         \x20   frames = [pd.read_parquet(f'tables/{name}.parquet'), pd.read_csv(f'tables-csv/{name}.csv')]\n\
         \x20   for frame in frames:\n\
         \x20       assert list(frame.columns) == columns, name\n\
         \x20       assert len(frame) == table['rows'], name\n\
         \x20   assert len(duckdb.sql(f\"SELECT * FROM 'tables/{name}.parquet'\")) == table['rows'], name\n\
         \x20   print(name, table['rows'])\n",
    );
    let rows: BTreeMap<&str, u64> = done
        .stdout
        .lines()
        .map(|line| line.split_once(' ').expect("two words"))
        .map(|(name, rows)| (name, rows.parse().expect("a number")))
        .collect();
    for table in [
        "trial",
        "metric",
        "sample",
        "histogram_bucket",
        "fact",
        "host_fact",
    ] {
        assert!(rows[table] > 1, "{table}: {rows:?}");
    }
}

#[test]
fn export_errors_are_reported() {
    let bench = Bench::new();
    exported(&bench);
    let done = bench.run(&["export", "nowhere"]);
    done.assert_code(2);
    done.assert_stderr_contains("there is no file or directory `nowhere");
    bench.write("file", "");
    let done = bench.run(&["export", "results", "--out", "file"]);
    done.assert_code(1);
    done.assert_stderr_contains("cannot create `file`");
    let done = bench.run(&["export", "results", "--format", "xlsx"]);
    done.assert_code(2);
    done.assert_stderr_contains("parquet, csv");
    // Without `--out` the files are beside the results.
    bench.run(&["export", "results"]).assert_code(0);
    assert!(bench.path("results/export/trial.parquet").is_file());
}
