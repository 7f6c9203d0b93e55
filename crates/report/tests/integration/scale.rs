//! Reports of large runs: what they show of them, their size, and the memory that they need.

use regatta_report::{compare, html, load, summarise, terminal};
use regatta_results::{
    Reader,
    tables::{TableFormat, export_tables},
};

use crate::common::scale;

/// A million samples: the page stays small and shows the extremes, and an export needs no more memory than the report.
#[test]
fn a_million_samples_fit_into_a_page_and_half_a_gigabyte() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("long");
    {
        let data = scale::run(scale::long_study(), 10_000);
        let samples: usize = data
            .trials
            .iter()
            .flat_map(|trial| &trial.measurements.series)
            .map(|series| series.values.len())
            .sum();
        assert_eq!(samples, 1_000_000);
        scale::store(&data, &dir);
    }
    let reader = Reader::open(&dir).expect("a whole file");
    for format in [TableFormat::Parquet, TableFormat::Csv] {
        export_tables(&reader, &dir.join("tables"), &[format]).expect("a writable directory");
    }
    drop(reader);
    let data = load(&dir).expect("a whole file");
    let summary = summarise(&data);
    let page = html::render(&data, &summary).expect("a page");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.contains("min–max decimation"));
    let peak = scale::peak_megabytes();
    assert!(peak < 500, "{peak} MB");
}

/// Exports row by row: four times the samples need hardly more memory.
#[test]
fn the_memory_of_an_export_does_not_grow_with_the_samples() {
    let export = |samples: usize| {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let dir = parent.path().join("long");
        // One trial at a time in memory.
        let mut data = scale::run(scale::long_study(), samples / 100);
        data.trials
            .iter_mut()
            .for_each(|trial| trial.measurements.series.truncate(10));
        scale::store(&data, &dir);
        drop(data);
        let before = scale::peak_megabytes();
        let reader = Reader::open(&dir).expect("a whole file");
        export_tables(&reader, &dir.join("tables"), &[TableFormat::Parquet])
            .expect("a writable directory");
        scale::peak_megabytes() - before
    };
    assert!(export(200_000) < 100);
}

/// A sweep of 1000 cells: groups instead of a table for each, in little memory.
#[test]
fn a_sweep_of_a_thousand_cells_is_grouped() {
    let data = scale::run(scale::swept_study(50, 10, 2), 1);
    let summary = summarise(&data);
    assert_eq!(summary.cells.len(), 1000);
    let page = html::render(&data, &summary).expect("a page");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.matches("<svg class=\"panel\"").count() < 80);
    let text = terminal::render(&summary, &data, &terminal::TerminalOptions::default());
    assert!(text.lines().count() < 400, "{} lines", text.lines().count());
    drop((page, text, summary));

    let mut again = data.clone();
    again.header.run_id = "again".to_owned();
    let runs = [("a".to_owned(), data), ("b".to_owned(), again)];
    let comparison = compare::compare(&runs, None).expect("cells in common");
    let text = compare::render(&comparison, &terminal::TerminalOptions::default());
    assert!(
        text.lines().count() < 1000,
        "{} lines",
        text.lines().count()
    );
    let page = html::compare::render(&comparison).expect("a page");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let peak = scale::peak_megabytes();
    assert!(peak < 200, "{peak} MB");
}
