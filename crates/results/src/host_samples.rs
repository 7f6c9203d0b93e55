//! Samples of the hosts: rows of `host_samples`, whose values are compressed.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use regatta_model::{HostSample, HostSamples, table::Phrases};
use rusqlite::{OptionalExtension as _, Transaction};

use crate::{
    ResultsError,
    checksum::{self, Sealed},
    insert::signed,
    run_file::RunFile,
    schema::{
        HostSampleNamesRow, HostSampleNamesTable, HostSamplesRow, HostSamplesTable, RowNumber,
    },
    write_row,
};

/// Maximum number of bytes of values in one row: a row has the samples of seconds, or of one trial. A file with
/// more was not written by Regatta.
const MAX_BYTES: usize = 1 << 30;

/// Stores samples as one row; `None` if there are none. Samples with another number of values than names are left out.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    batch: &HostSamples,
) -> rusqlite::Result<Option<Sealed>> {
    let complete = |sample: &&HostSample| sample.values.len() == batch.names.len();
    let samples: Vec<&HostSample> = batch.samples.iter().filter(complete).collect();
    if samples.is_empty() {
        return Ok(None);
    }
    let names = names_id(transaction, &batch.names)?;
    let times = |time: fn(&HostSample) -> i64| -> Vec<u8> {
        let times = samples.iter().map(|sample| time(sample));
        times.flat_map(i64::to_le_bytes).collect()
    };
    let values = compressed(batch.names.len(), &samples)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let row = HostSamplesRow {
        host: &batch.host,
        trial: batch.trial,
        names,
        samples: signed(samples.len()),
        unix_ns: &times(|sample| sample.unix_ns),
        monotonic_ns: &times(|sample| sample.monotonic_ns),
        value_zlib: &values,
    };
    let id = write_row::insert::<HostSamplesTable>(transaction, &(RowNumber::NEXT, row))?;
    checksum::HOST_SAMPLES.seal(transaction, id).map(Some)
}

/// Returns the row of a list of names, which is stored with its first samples.
fn names_id(transaction: &Transaction<'_>, names: &[String]) -> rusqlite::Result<i64> {
    let text = serde_json::to_string(names)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let known = "SELECT id FROM host_sample_names WHERE names = ?1";
    let known = transaction.query_row(known, [&text], |row| row.get("id"));
    if let Some(known) = known.optional()? {
        return Ok(known);
    }
    let row = HostSampleNamesRow { names: &text };
    let id = write_row::insert::<HostSampleNamesTable>(transaction, &(RowNumber::NEXT, row))?;
    checksum::HOST_SAMPLE_NAMES.seal(transaction, id)?;
    Ok(id)
}

/// Returns the values, all of one name after all of another, which compresses best; absent values are
/// NaN.
fn compressed(names: usize, samples: &[&HostSample]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    for name in 0..names {
        for sample in samples {
            let value = sample.values[name].unwrap_or(f32::NAN);
            encoder.write_all(&value.to_le_bytes())?;
        }
    }
    encoder.finish()
}

impl RunFile {
    /// Passes the samples of the hosts to `take`, in the order in which they were stored.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn host_samples(&self, take: &mut dyn FnMut(HostSamples)) -> Result<(), ResultsError> {
        self.each_host_samples(|batch| {
            take(batch);
            Ok(())
        })
    }

    /// Passes all rows to `take`, in the order in which they were stored.
    pub(crate) fn each_host_samples(
        &self,
        mut take: impl FnMut(HostSamples) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        let names: BTreeMap<i64, Vec<String>> = self.lists_of_names()?.into_iter().collect();
        // Row by row: the samples of a run of days need not fit into memory.
        let no_phrases = Phrases::default();
        self.each_row::<HostSamplesTable>("", [], &no_phrases, |(number, row)| {
            let names = names.get(&row.names).ok_or_else(|| {
                self.damaged(format!(
                    "names {} of host samples, which are not there",
                    row.names
                ))
            })?;
            Ok(take(self.batch(number, &row, names)?)?)
        })
    }

    /// Returns the names of the quantities of all rows, in the order in which they occurred.
    pub(crate) fn host_sample_names(&self) -> Result<Vec<String>, ResultsError> {
        let mut names = Vec::new();
        for (_, list) in self.lists_of_names()? {
            add_new(&mut names, &list);
        }
        Ok(names)
    }

    /// Reads the lists of names with the numbers of their rows, in the order in which they were stored.
    fn lists_of_names(&self) -> Result<Vec<(i64, Vec<String>)>, ResultsError> {
        let mut lists = Vec::new();
        let no_phrases = Phrases::default();
        self.each_row::<HostSampleNamesTable>("", [], &no_phrases, |(number, row)| {
            let names = serde_json::from_str(row.names).map_err(|e| {
                self.damaged(format!("the names of host samples cannot be read: {e}"))
            })?;
            lists.push((number.id.unwrap_or_default(), names));
            Ok(())
        })?;
        Ok(lists)
    }

    /// Unpacks the samples of a row.
    fn batch(
        &self,
        number: RowNumber,
        row: &HostSamplesRow<'_>,
        names: &[String],
    ) -> Result<HostSamples, ResultsError> {
        let times = |bytes: &[u8]| -> Vec<i64> {
            let chunks = bytes.as_chunks::<8>().0.iter();
            chunks.map(|chunk| i64::from_le_bytes(*chunk)).collect()
        };
        let (unix_ns, monotonic_ns) = (times(row.unix_ns), times(row.monotonic_ns));
        let length = (names.len().checked_mul(unix_ns.len()))
            .and_then(|values| values.checked_mul(4))
            .filter(|length| *length <= MAX_BYTES);
        let mut bytes = Vec::new();
        let unpacked = length.is_some_and(|length| {
            let limit = length as u64 + 1;
            let read = ZlibDecoder::new(row.value_zlib)
                .take(limit)
                .read_to_end(&mut bytes);
            read.is_ok() && bytes.len() == length
        });
        if !unpacked || unix_ns.len() != monotonic_ns.len() {
            let id = number.id.unwrap_or_default();
            let what =
                format!("row {id} of `host_samples` has other values than its names and times");
            return Err(self.damaged(what));
        }
        let values: Vec<f32> = (bytes.as_chunks::<4>().0.iter())
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect();
        let count = unix_ns.len();
        let samples = unix_ns.iter().zip(&monotonic_ns).enumerate();
        let samples = samples.map(|(position, (unix_ns, monotonic_ns))| HostSample {
            unix_ns: *unix_ns,
            monotonic_ns: *monotonic_ns,
            values: (0..names.len())
                .map(|name| Some(values[name * count + position]).filter(|v| v.is_finite()))
                .collect(),
        });
        Ok(HostSamples {
            host: row.host.to_owned(),
            trial: row.trial,
            samples: samples.collect(),
            names: names.to_vec(),
        })
    }
}

/// Adds those names that are not among the known ones yet.
pub(crate) fn add_new(known: &mut Vec<String>, names: &[String]) {
    for name in names {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}
