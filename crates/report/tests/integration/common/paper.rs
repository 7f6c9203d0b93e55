//! Typesetting of reports, and what tools say about them.

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

/// Typesets a report; returns its job and the PDF.
pub fn typeset(data: &RunData, paper: Paper) -> (Value, Vec<u8>) {
    let job = pdf::job(data, &summarise(data), paper).expect("a job");
    let pdf = typeset_job(&job);
    (serde_json::from_str(&job).expect("JSON"), pdf)
}

/// Typesets a job by the program of `REGATTA_TYPESET`.
pub fn typeset_job(job: &str) -> Vec<u8> {
    let program = std::env::var_os("REGATTA_TYPESET").expect(
        "REGATTA_TYPESET names the typesetter: run `make typeset`, and the tests by `make tests`",
    );
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
    output.stdout
}

/// Returns the output of `pdftotext` or `pdfinfo` about a PDF, without spaces.
pub fn text_of(program: &str, pdf: &[u8]) -> String {
    let arguments: &[&str] = match program {
        "pdftotext" => &["-"],
        _ => &[],
    };
    run(program, pdf, arguments).split_whitespace().collect()
}

/// Returns the output of a tool of poppler-utils about a PDF.
pub fn run(program: &str, pdf: &[u8], arguments: &[&str]) -> String {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(pdf).expect("a writable file");
    let (options, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.len() > 1);
    let output = Command::new(program)
        .args(options)
        .arg(file.path())
        .args(names)
        .output()
        .expect("poppler-utils");
    String::from_utf8(output.stdout).expect("UTF-8")
}
