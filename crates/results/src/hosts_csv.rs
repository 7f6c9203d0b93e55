//! `hosts.csv`: the samples of the hosts, one row for each.

use std::io::Write;

use regatta_model::HostSamples;

use crate::{Reader, ResultsError, cell::cell};

/// Name of the file with one row for each sample of a host.
pub const HOSTS_FILE_NAME: &str = "hosts.csv";

/// Writer of rows of samples.
///
/// Columns: `host`, `trial` (number of the record; empty between trials), `unix_ns`, `monotonic_ns`,
/// then one for each name of [`regatta_model::host_sample::QUANTITIES`] that occurs. An empty field
/// was not measured.
pub struct HostsCsv<W: Write> {
    csv: csv::Writer<W>,
    columns: Vec<String>,
}

impl<W: Write> HostsCsv<W> {
    /// Writes the head, with a column for each name of any of the lists.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn new<'a>(
        out: W,
        lists: impl IntoIterator<Item = &'a [String]>,
    ) -> Result<Self, ResultsError> {
        let mut columns: Vec<String> = Vec::new();
        for list in lists {
            for name in list {
                if !columns.contains(name) {
                    columns.push(name.clone());
                }
            }
        }
        let mut csv = csv::Writer::from_writer(out);
        let fixed = ["host", "trial", "unix_ns", "monotonic_ns"].map(str::to_owned);
        csv.write_record(fixed.into_iter().chain(columns.iter().cloned().map(cell)))?;
        Ok(Self { csv, columns })
    }

    /// Writes samples.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn add(&mut self, batch: &HostSamples) -> Result<(), ResultsError> {
        let places: Vec<Option<usize>> = (self.columns.iter())
            .map(|column| batch.position(column))
            .collect();
        let host = cell(batch.host.clone());
        let trial = batch
            .trial
            .map_or_else(String::new, |trial| trial.to_string());
        for sample in &batch.samples {
            let times = [sample.unix_ns, sample.monotonic_ns].map(|ns| ns.to_string());
            let value = |place: &Option<usize>| {
                let value = place.and_then(|place| *sample.values.get(place)?);
                value.map_or_else(String::new, |value| value.to_string())
            };
            self.csv.write_record(
                [host.clone(), trial.clone()]
                    .into_iter()
                    .chain(times)
                    .chain(places.iter().map(value)),
            )?;
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(mut self) -> Result<(), ResultsError> {
        Ok(self.csv.flush().map_err(csv::Error::from)?)
    }
}

/// Writes the samples of a run, in the order in which they were stored.
///
/// # Errors
/// Errors of reading and writing.
pub fn hosts_csv(reader: &Reader, out: &mut dyn Write) -> Result<(), ResultsError> {
    let source = reader.source();
    let lists = source.host_sample_names()?;
    let mut csv = HostsCsv::new(out, lists.iter().map(Vec::as_slice))?;
    let mut written = Ok(());
    source.host_samples(&mut |batch| {
        if written.is_ok() {
            written = csv.add(&batch);
        }
    })?;
    written?;
    csv.finish()
}
