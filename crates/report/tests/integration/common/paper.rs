//! Typesetting of reports, and what tools say about them.

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use regatta_model::directories;
use regatta_report::{
    RunData, Summary,
    pdf::{self, Form, Paper, Typesetter},
    summarise,
};
use serde_json::{Value, json};

/// Typesets a report; returns its document in the job, and the PDF.
pub fn typeset(data: &RunData, paper: Paper) -> (Value, Vec<u8>) {
    let document = document(data, &summarise(data), paper);
    let pdf = typeset_document(&document);
    (document, pdf)
}

/// Returns the document of a report.
pub fn document(data: &RunData, summary: &Summary, paper: Paper) -> Value {
    document_of(data, summary, paper, Form::Full)
}

/// Returns the document of a report in a form.
pub fn document_of(data: &RunData, summary: &Summary, paper: Paper, form: Form) -> Value {
    let job = pdf::job(data, summary, paper, form).expect("a job");
    let mut job: Value = serde_json::from_str(&job).expect("JSON");
    job["documents"][0].take()
}

/// Typesets a document as PDF.
pub fn typeset_document(document: &Value) -> Vec<u8> {
    let files = typeset_job(&json!({ "documents": [document] }).to_string());
    files.into_iter().next().expect("a file")
}

/// Typesets a job; returns its files.
pub fn typeset_job(job: &str) -> Vec<Vec<u8>> {
    let output = run_typesetter(job);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let files = pdf::files(&output.stdout).expect("a whole output");
    files.into_iter().map(<[u8]>::to_vec).collect()
}

/// Runs the typesetter of `REGATTA_PDF`, or that of `make pdf`, with a job.
pub fn run_typesetter(job: &str) -> Output {
    let made = || Some(directories::cache()?.join("pdf"));
    let named = std::env::var_os("REGATTA_PDF").map(PathBuf::from);
    let typesetter = named
        .or_else(made)
        .and_then(|directory| Typesetter::installed_in(&directory))
        .expect("a typesetter: run `make pdf`");
    let mut child = typesetter
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the typesetter starts");
    let mut input = child.stdin.take().expect("a pipe");
    input
        .write_all(job.as_bytes())
        .expect("the typesetter reads");
    drop(input);
    child.wait_with_output().expect("the typesetter ends")
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
