//! Figures as files: names, sizes, legible texts, values of the summary, and what the typesetter makes of them.

mod common;

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Command, Stdio},
};

use regatta_model::metric::id;
use regatta_report::{
    figure_files::{FigureFiles, figure_files, index},
    format::Scale,
    summarise,
};

fn files() -> Vec<FigureFiles> {
    let data = common::full();
    figure_files(&data, &summarise(&data))
}

fn file<'a>(files: &'a [FigureFiles], name: &str) -> &'a FigureFiles {
    let found = files.iter().find(|file| file.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        panic!("no `{name}` in {names:?}")
    })
}

#[test]
fn every_figure_has_a_name_of_its_own_and_a_line_in_the_list() {
    let files = files();
    let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert!(files.len() >= 10, "{names:?}");
    assert_eq!(names.len(), files.len(), "{names:?}");
    let list = index(&files);
    assert_eq!(list.lines().count(), files.len() + 1);
    for name in names {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(is_plain), "{name}");
        assert!(list.contains(&format!("\n{name},")), "{name}");
    }
}

#[test]
fn a_figure_fits_a_column_and_its_texts_are_legible() {
    for file in files() {
        let [width, height] = file.size_mm;
        assert!([85.0, 175.0].contains(&width), "{}: {width}", file.name);
        assert!(height > 20.0, "{}: {height}", file.name);
        assert!(!file.svg.contains("var(--"), "{}: colours", file.name);
        // A panel has 420 units in a column of 85 mm.
        let points = 85.0 / 420.0 / 25.4 * 72.0;
        for size in file.svg.split("font-size=\"").skip(1) {
            let size: f64 = size
                .split('"')
                .next()
                .expect("a size")
                .parse()
                .expect("a number");
            assert!(size * points >= 7.0, "{}: {size}", file.name);
        }
    }
}

#[test]
fn the_values_are_those_of_the_summary() {
    let data = common::full();
    let summary = summarise(&data);
    let files = files();
    let figure = file(&files, "mean-goodput-bps");
    let cells = summary.cells.iter().filter(|cell| cell.n > 0);
    let mut seen = 0;
    for cell in cells {
        let Some((value, Some([low, high]))) = cell.shown(id::GOODPUT_BPS) else {
            continue;
        };
        let start = format!("{},{},mean,,", cell.condition, cell.transport);
        let line = figure.csv.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{start}: {}", figure.csv));
        let numbers: Vec<f64> = line[start.len()..]
            .split(',')
            .map(|number| number.parse().expect("a number"))
            .collect();
        let scale = Scale {
            divisor: 1e6,
            unit: "Mbit/s",
        };
        let expected = [value, low, high].map(|value| scale.apply(value));
        for (number, expected) in numbers.iter().zip(expected) {
            assert!((number / expected - 1.0).abs() < 1e-8, "{line}: {expected}");
        }
        let trials = format!("{},{},trial,", cell.condition, cell.transport);
        let trials = figure.csv.lines().filter(|line| line.starts_with(&trials));
        assert_eq!(trials.count() as u64, cell.n, "{start}");
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
    assert!(
        figure.caption.contains("value, low, high: goodput, Mbit/s"),
        "{}",
        figure.caption
    );
}

#[test]
fn a_line_has_its_band_in_the_same_row() {
    let files = files();
    let figure = file(&files, "time-goodput-bps");
    let mut rows = 0;
    for line in figure.csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 8, "{line}");
        assert_eq!(fields[2], "line", "{line}");
        let [value, low, high] = [4, 5, 6].map(|n| fields[n].parse::<f64>().expect("a number"));
        assert!(low <= value && value <= high, "{line}");
        rows += 1;
    }
    assert!(rows > 20, "{rows}");
    assert!(
        figure.caption.contains("x: time since"),
        "{}",
        figure.caption
    );
}

/// Runs the typesetter with a job.
fn typeset(arguments: &[&str], job: &str) -> Vec<u8> {
    let program = std::env::var_os("REGATTA_TYPESET").expect(
        "REGATTA_TYPESET names the typesetter: run `make typeset`, and the tests by `make tests`",
    );
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the typesetter starts");
    let mut input = child.stdin.take().expect("a pipe");
    input
        .write_all(job.as_bytes())
        .expect("the typesetter reads");
    drop(input);
    let output = child.wait_with_output().expect("the typesetter ends");
    assert!(output.status.success(), "the typesetter succeeds");
    output.stdout
}

#[test]
fn pdf_and_png_have_the_size_of_the_figure_and_the_same_bytes_again() {
    let [files, again] = [files(), files()];
    let [figure, again] = [&files, &again].map(|files| file(files, "mean-goodput-bps"));
    assert_eq!((&figure.svg, &figure.csv), (&again.svg, &again.csv));

    let pdf = typeset(&[], &figure.pdf_job("run").expect("a job"));
    assert_eq!(pdf, typeset(&[], &again.pdf_job("run").expect("a job")));
    let mut on_disk = tempfile::NamedTempFile::new().expect("a temporary file");
    on_disk.write_all(&pdf).expect("a writable file");
    let said = |program: &str, more: &[&str]| {
        let output = Command::new(program)
            .arg(on_disk.path())
            .args(more)
            .output();
        String::from_utf8(output.expect("poppler-utils").stdout).expect("UTF-8")
    };
    let info = said("pdfinfo", &[]);
    let points = figure.size_mm.map(|length| length / 25.4 * 72.0);
    let size = info
        .lines()
        .find(|line| line.starts_with("Page size"))
        .expect("a size");
    let sizes: Vec<f64> = size
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        sizes
            .iter()
            .zip(points)
            .all(|(size, points)| (size - points).abs() < 0.1),
        "{info}"
    );
    assert!(
        info.lines()
            .any(|line| line.starts_with("Pages") && line.ends_with(" 1")),
        "{info}"
    );
    let text = said("pdftotext", &["-"]);
    assert!(
        text.contains("goodput, Mbit/s"),
        "text can be searched: {text}"
    );

    let png = typeset(&["--png"], &figure.png_job().expect("a job"));
    assert_eq!(png, typeset(&["--png"], &again.png_job().expect("a job")));
    let dots = |from: usize| u32::from_be_bytes(png[from..from + 4].try_into().expect("4 bytes"));
    let expected = figure.size_mm.map(|length| (length / 25.4 * 600.0).round());
    for (dots, expected) in [dots(16), dots(20)].into_iter().zip(expected) {
        assert!(
            (f64::from(dots) - expected).abs() <= 1.0,
            "{dots}: {expected}"
        );
    }
}
