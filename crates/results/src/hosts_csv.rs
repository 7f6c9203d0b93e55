//! `hosts.csv`: the samples of the hosts, one row for each.

use std::{
    fs::{File, OpenOptions},
    io::{Seek as _, Write},
    path::PathBuf,
};

use regatta_model::HostSamples;
use regatta_process::open_regular;

use crate::{
    Reader, ResultsError,
    cell::cell,
    host_samples::add_new,
    replace::replace,
    tables::{CsvTable, RowWriter as _, sample_rows},
};

/// Name of the file with one row for each sample of a host.
pub const HOSTS_FILE_NAME: &str = "hosts.csv";

/// Writes a row for each sample.
fn write_rows(
    csv: &mut CsvTable<impl Write>,
    columns: &[String],
    batch: &HostSamples,
) -> Result<(), ResultsError> {
    let columns = columns.iter().map(String::as_str);
    sample_rows(batch, columns, &mut |row| {
        Ok(csv.write(row).map_err(csv::Error::from)?)
    })
}

fn head(columns: &[String]) -> impl Iterator<Item = String> {
    let fixed = ["host", "trial", "unix_ns", "monotonic_ns"].map(str::to_owned);
    fixed.into_iter().chain(columns.iter().cloned().map(cell))
}

/// `hosts.csv` that grows with the samples, so that a process that is killed loses none of those that it has added.
#[derive(Debug)]
pub struct GrowingHostsCsv {
    path: PathBuf,
    columns: Vec<String>,
    /// The file and the length of its whole rows; `None` before the first sample.
    rows: Option<(File, u64)>,
}

impl GrowingHostsCsv {
    /// Begins a file that is created with the first sample.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            columns: Vec::new(),
            rows: None,
        }
    }

    /// Writes samples. A quantity that occurs for the first time adds a column, which is empty in the rows before.
    ///
    /// # Errors
    /// Errors of writing, such as a full disk; the file then has the whole rows of what was added before.
    pub fn add(&mut self, batches: &[HostSamples]) -> Result<(), ResultsError> {
        let known = self.columns.len();
        for batch in batches {
            add_new(&mut self.columns, &batch.names);
        }
        if self.columns.len() > known {
            self.widen().inspect_err(|_| self.columns.truncate(known))?;
        }
        let Some((file, length)) = &mut self.rows else {
            return Ok(());
        };
        let mut csv = CsvTable::new(Vec::new());
        for batch in batches {
            write_rows(&mut csv, &self.columns, batch)?;
        }
        let rows = csv.into_inner().map_err(csv::Error::from)?;
        if let Err(error) = file.write_all(&rows) {
            // A part of a row would be read as a row.
            let _ = file.set_len(*length);
            return Err(csv::Error::from(error).into());
        }
        *length += rows.len() as u64;
        Ok(())
    }

    /// Writes the file again with all columns.
    fn widen(&mut self) -> Result<(), ResultsError> {
        let former = self.rows.as_mut().map(|(file, _)| {
            file.rewind()?;
            file.try_clone()
        });
        let former = former.transpose().map_err(csv::Error::from)?;
        let former = former.map(csv::Reader::from_reader);
        let width = head(&self.columns).count();
        replace(&self.path, csv::Error::from, |out| {
            let mut csv = csv::Writer::from_writer(out);
            csv.write_record(head(&self.columns))?;
            for row in former.into_iter().flat_map(csv::Reader::into_records) {
                let row = row?;
                let empty = std::iter::repeat_n("", width - row.len());
                csv.write_record(row.iter().chain(empty))?;
            }
            Ok(csv.flush()?)
        })?;
        let opened = open_regular(&self.path, OpenOptions::new().read(true).append(true));
        let with_length = |file: File| Ok((file.metadata()?.len(), file));
        let (length, file) = opened.and_then(with_length).map_err(csv::Error::from)?;
        self.rows = Some((file, length));
        Ok(())
    }
}

/// Writes the samples of a run, in the order in which they were stored. Columns: `host`, `trial` (number of the record;
/// empty between trials), `unix_ns`, `monotonic_ns`, then one for each name of
/// [`regatta_model::host_sample::QUANTITIES`] that occurs. An empty field was not measured.
///
/// # Errors
/// Errors of reading and writing.
pub fn hosts_csv(reader: &Reader, out: &mut dyn Write) -> Result<(), ResultsError> {
    let columns = reader.host_sample_names()?;
    let mut csv = CsvTable::with_head(out, head(&columns)).map_err(csv::Error::from)?;
    reader.each_host_samples(|batch| write_rows(&mut csv, &columns, &batch))?;
    csv.into_inner().map_err(csv::Error::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use regatta_model::HostSample;

    use super::*;

    fn batch(host: &str, names: &[&str], values: &[Option<f32>]) -> HostSamples {
        HostSamples {
            host: host.to_owned(),
            trial: None,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            samples: vec![HostSample {
                unix_ns: 2,
                monotonic_ns: 1,
                values: values.to_vec(),
            }],
        }
    }

    #[test]
    fn a_growing_file_has_the_columns_of_all_added_samples() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(HOSTS_FILE_NAME);
        let mut csv = GrowingHostsCsv::new(path.clone());
        csv.add(&[]).unwrap();
        assert!(!path.exists());
        csv.add(&[batch("a", &["x"], &[Some(1.0)])]).unwrap();
        csv.add(&[batch("b", &["y", "x"], &[Some(3.0), None])])
            .unwrap();
        csv.add(&[batch("a", &["x"], &[Some(2.0)])]).unwrap();
        let expected = "host,trial,unix_ns,monotonic_ns,x,y\na,,2,1,1,\nb,,2,1,,3\na,,2,1,2,\n";
        assert_eq!(fs::read_to_string(path).unwrap(), expected);
    }

    /// The name belongs to a link when a column is added: rows are neither read from there nor written to it.
    #[test]
    fn a_link_in_the_place_of_a_growing_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = [HOSTS_FILE_NAME, "other"].map(|name| directory.path().join(name));
        let mut csv = GrowingHostsCsv::new(path.clone());
        csv.add(&[batch("a", &["x"], &[Some(1.0)])]).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&other, "host\n").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        csv.add(&[batch("a", &["y"], &[Some(1.0)])]).unwrap_err();
        assert_eq!(fs::read_to_string(other).unwrap(), "host\n");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_growing_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(HOSTS_FILE_NAME);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut csv = GrowingHostsCsv::new(path);
        csv.add(&[batch("a", &["x"], &[Some(1.0)])]).unwrap_err();
    }
}
