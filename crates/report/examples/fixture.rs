//! Writes the reports of the tests' fixed results, for inspection: `cargo run -p regatta-report
//! --example fixture -- DIR`. `regatta-typeset < job.json > report.pdf` makes their PDF. Given a
//! result directory, writes its reports again.

#[path = "../tests/common/mod.rs"]
mod common;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use regatta_report::{
    RunData,
    language::{self, Language},
    pdf::{self, Paper},
    summarise, terminal,
};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("a directory is needed")?);
    if dir.join(regatta_results::FILE_NAME).exists() {
        // A result directory: its own reports are made again.
        let written = regatta_report::write_all(&dir)?;
        let options = terminal::TerminalOptions::default();
        print!(
            "{}",
            terminal::render(&written.summary, &written.data, &options)
        );
        return Ok(());
    }
    for (name, data) in [
        ("full", common::full()),
        ("on-hosts", common::on_hosts()),
        ("one-round", common::one_round()),
        ("one-trial", common::one_trial()),
        ("empty", common::empty()),
        ("unsupported", common::unsupported()),
        ("hostile", common::hostile()),
    ] {
        for language in [Language::English, Language::Russian] {
            let dir = dir.join(name).join(language.tag());
            language::with(language, || write(&data, &dir))?;
        }
    }
    Ok(())
}

/// Writes the reports of a run, and shows its tables.
fn write(data: &RunData, dir: &Path) -> Result<(), Box<dyn Error>> {
    let summary = summarise(data);
    fs::create_dir_all(dir)?;
    regatta_report::write_html(data, &summary, dir)?;
    regatta_report::write_summary(&summary, dir)?;
    fs::write(dir.join("job.json"), pdf::job(data, &summary, Paper::A4)?)?;
    println!("== {}", dir.display());
    let options = terminal::TerminalOptions::default();
    print!("{}", terminal::render(&summary, data, &options));
    Ok(())
}
