//! Time, memory and size of the reports of large runs, each in a process of its own:
//!
//! ```text
//! cargo run --release -p regatta-report --example scale -- make DIR     # writes DIR/long, DIR/swept, DIR/swept-again
//! cargo run --release -p regatta-report --example scale -- report DIR/long
//! cargo run --release -p regatta-report --example scale -- compare DIR/swept DIR/swept-again
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

use std::{error::Error, fs, path::Path, time::Instant};

use common::scale;
use regatta_report::{compare, html, load, summarise, terminal};
use regatta_results::{
    Reader,
    tables::{TableFormat, export_tables},
};

/// Prints the time of a step and the memory that was needed up to its end.
fn timed<T>(what: &str, step: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = step();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {seconds:.2} s, {} MB at most",
        scale::peak_megabytes()
    );
    result
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make", dir] => make(Path::new(dir)),
        ["report", dir] => report(Path::new(dir))?,
        ["compare", a, b] => compared([a, b])?,
        _ => return Err("`make DIR`, `report DIR` or `compare DIR DIR` is asked for".into()),
    }
    Ok(())
}

fn make(dir: &Path) {
    let study = timed("study of 10 000 cells read and expanded", || {
        scale::swept_study(100, 50, 3)
    });
    timed("run of 1 000 000 samples stored", || {
        scale::store(&scale::run(scale::long_study(), 10_000), &dir.join("long"));
    });
    timed("two runs of 10 000 cells stored", || {
        let data = scale::run(study, 10);
        scale::store(&data, &dir.join("swept"));
        let mut again = data;
        again.header.run_id = "again".to_owned();
        scale::store(&again, &dir.join("swept-again"));
    });
}

fn report(dir: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = fs::metadata(dir.join(regatta_results::FILE_NAME))?.len();
    println!("results file: {:.1} MB", bytes as f64 / 1e6);
    let data = timed("load", || load(dir))?;
    let summary = timed("summarise", || summarise(&data));
    let json = timed("summary.json", || serde_json::to_string_pretty(&summary))?;
    let text = timed("terminal", || {
        terminal::render(&summary, &data, &terminal::TerminalOptions::default())
    });
    let page = timed("report.html", || html::render(&data, &summary))?;
    println!(
        "summary.json {:.2} MB, terminal {} lines, report.html {:.2} MB",
        json.len() as f64 / 1e6,
        text.lines().count(),
        page.len() as f64 / 1e6
    );
    drop((data, summary, json, text, page));
    timed("everything (write_all)", || regatta_report::write_all(dir))?;
    let out = dir.join("export");
    for format in [TableFormat::Parquet, TableFormat::Csv] {
        timed(&format!("export as {}", format.ending()), || {
            export_tables(&Reader::open(dir)?, &out, &[format])
        })?;
    }
    Ok(())
}

fn compared(dirs: [&str; 2]) -> Result<(), Box<dyn Error>> {
    let mut runs = Vec::new();
    for dir in dirs {
        runs.push((dir.to_owned(), timed("load", || load(Path::new(dir)))?));
    }
    let comparison = timed("compare", || compare::compare(&runs, None))?;
    let text = timed("terminal", || {
        compare::render(&comparison, &terminal::TerminalOptions::default())
    });
    let page = timed("compare.html", || html::compare::render(&comparison))?;
    println!(
        "terminal {} lines, compare.html {:.2} MB",
        text.lines().count(),
        page.len() as f64 / 1e6
    );
    Ok(())
}
