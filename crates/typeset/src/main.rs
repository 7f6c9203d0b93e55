//! `regatta-typeset`: reads a [`Job`] as JSON from standard input, writes the PDF to standard output. With `--png` it
//! reads a [`FigureJob`] and writes a PNG.
//!
//! `regatta report` starts it for `--pdf` and `--figures`. It is a program of its own, so that what is sent to hosts
//! stays small.

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use regatta_typeset::Typesetter;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Allocator of a program that does little but allocate on several threads: a PDF takes four fifths of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Document to typeset.
#[derive(Deserialize)]
struct Job {
    /// Typst source.
    template: String,
    /// Content of `page.json`, which the template reads.
    page: Box<RawValue>,
    /// Identity of the document.
    identity: String,
}

/// Figure to draw as PNG.
#[derive(Deserialize)]
struct FigureJob {
    /// Document in SVG.
    svg: String,
    /// Resolution.
    dots_per_inch: f32,
}

fn main() -> ExitCode {
    match typeset() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("regatta-typeset: {error}");
            ExitCode::FAILURE
        }
    }
}

fn typeset() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    if std::env::args().nth(1).as_deref() == Some("--png") {
        let job: FigureJob = serde_json::from_str(&text).map_err(|error| {
            format!("standard input is not a job of `regatta report --figures`: {error}")
        })?;
        io::stdout().write_all(&regatta_typeset::png(&job.svg, job.dots_per_inch)?)?;
        return Ok(());
    }
    let job: Job = serde_json::from_str(&text).map_err(|error| {
        format!("standard input is not a job of `regatta report --pdf`: {error}")
    })?;
    let pdf = Typesetter::default().pdf(&job.template, job.page.get().to_owned(), &job.identity)?;
    io::stdout().write_all(&pdf)?;
    Ok(())
}
