//! Captures of trials: one file each, a fact that names it, and the transfer's time according to
//! it.

use std::{fs, ops::ControlFlow, path::PathBuf, time::Duration};

use regatta_bed::{
    BedError,
    capture::{self, CaptureOrder, CaptureSummary, Captured},
};
use regatta_model::{
    Condition, Direction, Measurements, TrialRecord, Warning, WorkloadKind, metric::id, reason,
    warning,
};

use super::transfer_time::Frame;
use crate::{
    error::EngineError, impossible::SUPER_PACKET_BYTES, plan::PlannedTrial, run::TrialRunner,
};

/// Name of the directory for files in the run's directory, as the results name it.
const FILES: &str = "files";

/// Fact that names the file of a trial's capture, relative to the run's directory.
const FILE_FACT: &str = "capture_file";

/// Driver whose transfers are found by their SYN.
const TCP: &str = "tcp";

/// Fact of a driver whose datagrams show where a transfer begins: the first bytes of the datagram that begins it, as
/// `d1:0a:…`.
const BEGIN_FACT: &str = "frame_conn";

/// Fact of such a driver: the first bytes of the datagram with the receiver's acknowledgement.
const END_FACT: &str = "frame_rcvd";

/// Longest part of a file's name that comes from a label or a name, in bytes.
const LONGEST_PART: usize = 60;

/// Capture that was begun, with the reason if it was refused.
pub(crate) struct Capturing {
    file: PathBuf,
    /// Path of the file, relative to the run's directory.
    shown: String,
    refused: Option<BedError>,
}

impl TrialRunner<'_> {
    /// Starts a capture of the path, if the study asks for one.
    pub(crate) fn start_capture(&mut self, trial: &PlannedTrial) -> Result<(), EngineError> {
        let (Some(setup), Some(files)) = (self.plan.study().capture, &self.options.files) else {
            return Ok(());
        };
        let names = self.plan.names(trial.cell);
        // The packets of a competition are in one file.
        let names = match self.plan.flow(trial.cell) {
            Some(_) => &names[1..],
            None => &names[..],
        };
        let round = trial.round + 1;
        let parts: Vec<String> = names.iter().map(|it| plain(it)).collect();
        let name = format!("{}.round-{round}.pcapng", parts.join("."));
        let shown: Vec<&str> = names.iter().map(|it| it.as_str()).collect();
        let directory = format!("trial-{:04}", trial.index + 1);
        let file = files.join(&directory).join(&name);
        // Files of a trial that was cut off are of that trial; an error that prevents these from being made is
        // reported with the file.
        let _ = fs::create_dir_all(files.join(&directory));
        let _ = fs::remove_file(&file);
        let order = CaptureOrder {
            file: file.clone(),
            snap_bytes: setup.snap_bytes,
            title: format!("{}, round {round}", shown.join(" · ")),
        };
        let refused = match self.bed.start_capture(order) {
            Ok(()) => None,
            // The trial can be measured without.
            Err(error @ BedError::Refused { .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
        self.capturing = Some(Capturing {
            file,
            shown: format!("{FILES}/{directory}/{name}"),
            refused,
        });
        Ok(())
    }

    /// Ends the capture, and adds its figures and warnings to the trial's record. Flows of a competition share one, from which
    /// no figures of theirs are taken.
    pub(crate) fn end_capture(
        &mut self,
        trials: &[PlannedTrial],
        records: &mut [TrialRecord],
    ) -> Result<(), EngineError> {
        let Some(Capturing {
            file,
            shown,
            refused,
        }) = self.capturing.take()
        else {
            return Ok(());
        };
        if let Some(error) = refused {
            let why = reason::chain(error.reasons());
            let warning = warning::no_capture(why, error.hint());
            for record in records {
                record.measurements.warnings.push(warning.clone());
            }
            return Ok(());
        }
        let summary = self.bed.end_capture()?.unwrap_or_default();
        for record in &mut *records {
            let measured = &mut record.measurements;
            measured.warnings.extend(missing(&summary));
            measured.facts.insert(FILE_FACT.to_owned(), shown.clone());
        }
        if let ([trial], [record]) = (trials, &mut *records) {
            let direction = self.plan.workload(trial.cell).kind.direction();
            add_bytes(&file, direction, record);
            if let Some(frame) = self.frame(trial, record) {
                add_time(&file, &frame, self.plan.condition(trial.cell), record);
            }
        }
        if self.plan.study().capture.is_some_and(|it| it.times_only) {
            // A file that stays is in nobody's way.
            let _ = fs::remove_file(&file);
            let _ = file.parent().map(fs::remove_dir);
            for record in records {
                record.measurements.facts.remove(FILE_FACT);
            }
        }
        Ok(())
    }

    /// Returns the packets between which the time of a trial's transfer runs; `None` if it has no such
    /// time.
    fn frame(&self, trial: &PlannedTrial, record: &TrialRecord) -> Option<Frame> {
        let WorkloadKind::Bulk { options, .. } = &self.plan.workload(trial.cell).kind else {
            return None;
        };
        let fact = |name: &str| bytes(record.measurements.facts.get(name)?);
        if let (Some(begin), Some(end)) = (fact(BEGIN_FACT), fact(END_FACT)) {
            return Some(Frame::Datagrams { begin, end });
        }
        let is_one_way = options.direction == Direction::Forward && options.flows == 1;
        (self.plan.transport(trial.cell).driver == TCP && is_one_way).then_some(Frame::Tcp)
    }
}

/// Adds the bytes that the path brought to the receiving host according to its capture.
fn add_bytes(file: &std::path::Path, direction: Direction, record: &mut TrialRecord) {
    let mut bytes = 0;
    let read = capture::read(file, |packet| {
        bytes += brought_bytes(&packet, direction);
        ControlFlow::Continue(())
    });
    let measurements = &mut record.measurements;
    match read {
        Ok(()) => {
            measurements
                .metrics
                .insert(id::CAPTURED_BYTES, bytes as f64);
        }
        Err(error) => {
            let warning = warning::capture_unreadable(error.to_string().into());
            measurements.warnings.push(warning);
        }
    }
}

/// Returns the bytes of a packet that left the path at a receiving host; zero of another one.
fn brought_bytes(packet: &Captured<'_>, direction: Direction) -> u64 {
    let is_data = match direction {
        Direction::Forward => packet.forward,
        Direction::Reverse => !packet.forward,
        Direction::Both => true,
    };
    if is_data && packet.passed() {
        packet.size.into()
    } else {
        0
    }
}

/// Whether the path can carry bytes of data in a time, in one of its directions.
fn carries(condition: &Condition, bytes: f64, time_ns: u64) -> bool {
    let time = Duration::from_nanos(time_ns);
    let forward = condition.capacity_bytes(|it| it.forward, time);
    let reverse = condition.capacity_bytes(|it| it.reverse, time);
    (forward.zip(reverse))
        .is_none_or(|(forward, reverse)| bytes <= forward.max(reverse) + SUPER_PACKET_BYTES)
}

/// Adds the time of a transfer according to its capture, and its rate if the transfer was whole. A time in which the path
/// cannot carry what was delivered is that of other packets.
fn add_time(
    file: &std::path::Path,
    frame: &Frame,
    condition: &Condition,
    record: &mut TrialRecord,
) {
    let is_whole = record.is_whole();
    let Measurements {
        metrics, warnings, ..
    } = &mut record.measurements;
    match frame.time_ns(file) {
        Ok(Some(time_ns))
            if is_whole
                && (metrics.get(id::BYTES_DELIVERED))
                    .is_some_and(|bytes| !carries(condition, *bytes, time_ns)) =>
        {
            let reason = reason::capture_rules_out().into();
            warnings.push(warning::capture_unreadable(reason));
        }
        Ok(Some(time_ns)) => {
            metrics.insert(id::CAPTURED_TRANSFER_TIME_NS, time_ns as f64);
            if let Some(bytes) = metrics.get(id::BYTES_DELIVERED)
                && is_whole
                && time_ns > 0
            {
                let rate = bytes * 8e9 / time_ns as f64;
                metrics.insert(id::CAPTURED_GOODPUT_BPS, rate);
            }
        }
        // The acknowledgement never came, or the capture does not hold it.
        Ok(None) => {}
        Err(error) => warnings.push(warning::capture_unreadable(error.to_string().into())),
    }
}

fn missing(summary: &CaptureSummary) -> Option<Warning> {
    let CaptureSummary {
        missed, failure, ..
    } = summary;
    match failure {
        Some(failure) => Some(warning::capture_ended(*missed, failure.clone())),
        None => (*missed > 0).then(|| warning::capture_misses(*missed)),
    }
}

/// Converts a label or a name into a part of a file's name.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        let fits = character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '=' | '%');
        if fits {
            plain.push(character);
        } else if !plain.is_empty() && !plain.ends_with('-') {
            plain.push('-');
        }
        if plain.len() >= LONGEST_PART {
            break;
        }
    }
    match plain.trim_end_matches('-') {
        // A name that begins with a dot would be hidden.
        "" => "_".to_owned(),
        plain => plain.to_owned(),
    }
}

/// Parses bytes such as `d1:0a`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    text.split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_bytes_are_of_packets_that_reached_a_receiving_host() {
        let brought = |forward, comment, direction| {
            let packet = Captured {
                forward,
                unix_ns: 1,
                size: 1500,
                bytes: &[],
                comment,
            };
            brought_bytes(&packet, direction)
        };
        let passed = "passed in 1 ms";
        assert_eq!(brought(true, passed, Direction::Forward), 1500);
        assert_eq!(brought(true, "lost at random", Direction::Forward), 0);
        assert_eq!(brought(false, passed, Direction::Forward), 0);
        assert_eq!(brought(false, passed, Direction::Reverse), 1500);
        assert_eq!(brought(true, passed, Direction::Both), 1500);
    }

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(plain("tcp:cc=bbr"), "tcp-cc=bbr");
        assert_eq!(
            plain("30 ms, 100 Mbit/s, 5 % loss"),
            "30-ms-100-Mbit-s-5-%-loss"
        );
        assert_eq!(plain("../../etc"), "etc");
        assert_eq!(plain(".."), "_");
        assert!(plain(&"ä b".repeat(100)).len() <= LONGEST_PART);
    }

    /// A mistaken packet made 2.7 Tbit/s of 1 MB over 100 Mbit/s.
    #[test]
    fn a_path_carries_no_more_than_its_rate() {
        let study = crate::tests::fake_bed::study(1, 1, 1);
        let condition = &study.conditions[0];
        assert!(!carries(condition, 1e6, 3));
        assert!(!carries(condition, 1e6, 60_000_000));
        assert!(carries(condition, 1e6, 82_000_000));
    }

    #[test]
    fn bytes_are_hexadecimal() {
        assert_eq!(bytes("d1:0a"), Some(vec![0xd1, 10]));
        assert_eq!(bytes("d1:zz"), None);
    }
}
