//! `report.pdf`: every figure of the page's tables is on the paper, in any script, and the same bytes come again.

mod common;

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use regatta_report::{
    RunData,
    pdf::{self, Paper},
    summarise,
};
use serde_json::Value;

/// Typesets a report by the program of `REGATTA_TYPESET`; returns its job and the PDF.
fn typeset(data: &RunData, paper: Paper) -> (Value, Vec<u8>) {
    let program = std::env::var_os("REGATTA_TYPESET").expect(
        "REGATTA_TYPESET names the typesetter: run `make typeset`, and the tests by `make tests`",
    );
    let job = pdf::job(data, &summarise(data), paper).expect("a job");
    let mut child = Command::new(program)
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
    (serde_json::from_str(&job).expect("JSON"), output.stdout)
}

/// Returns what `pdftotext` or `pdfinfo` says about a PDF, without spaces.
fn said(program: &str, pdf: &[u8]) -> String {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(pdf).expect("a writable file");
    let mut command = Command::new(program);
    command.arg(file.path());
    if program == "pdftotext" {
        command.arg("-");
    }
    let output = command.output().expect("poppler-utils");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.split_whitespace().collect()
}

/// Calls `check` with the text of each cell of the tables in `value`.
fn each_cell(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| each_cell(value, check)),
        Value::Object(fields) => {
            for key in ["text", "sub"] {
                if let Some(text) = fields.get(key).and_then(Value::as_str) {
                    check(text);
                }
            }
            fields.values().for_each(|value| each_cell(value, check));
        }
        _ => {}
    }
}

#[test]
fn every_figure_of_the_results_is_on_the_paper() {
    let (job, pdf) = typeset(&common::full(), Paper::A4);
    let paper = said("pdftotext", &pdf);
    let mut figures = 0;
    for table in [
        "means",
        "published",
        "differences",
        "loss",
        "descriptions",
        "comparisons",
    ] {
        each_cell(&job["page"][table], &mut |text| {
            figures += 1;
            let text: String = text.split_whitespace().collect();
            // Words of a cell may break anywhere; figures do not.
            if text
                .chars()
                .all(|c| c.is_ascii_digit() || "[],.–−-%".contains(c))
            {
                assert!(paper.contains(&text), "`{text}` of the table `{table}`");
            }
        });
    }
    assert!(figures > 100, "{figures} cells");
}

#[test]
fn names_keep_their_script_and_the_same_run_gives_the_same_bytes() {
    let mut data = common::full();
    data.header.study.title = "Гонка протоколов, 赛".to_owned();
    let (_, first) = typeset(&data, Paper::A4);
    let (_, second) = typeset(&data, Paper::A4);
    assert_eq!(first, second);
    assert!(said("pdftotext", &first).contains("Гонкапротоколов,\u{FFFD}"));
}

#[test]
fn pages_have_the_size_that_was_asked_for() {
    for (paper, size) in [(Paper::A4, "(A4)"), (Paper::Letter, "(letter)")] {
        let (_, pdf) = typeset(&common::full(), paper);
        let info = said("pdfinfo", &pdf);
        assert!(info.contains(size) && info.contains("Tagged:yes"), "{info}");
    }
}
