//! Under any fault, the tree arrives complete or the transfer fails with a code; it is never silently
//! short. In simulated time, so that every fault comes at the byte of its seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use tempfile::TempDir;
use wdt_protocol::crypto::{Cipher, Key, Secret};
use wdt_protocol::files::{DirectoryOptions, DirectorySink};
use wdt_protocol::path::RelativePath;
use wdt_protocol::status::Status;
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{receiver, sender};

use crate::memory::{MemorySink, MemorySource};
use crate::random::Random;
use crate::simulated::{Cut, Outcome, Refusal, Simulation, Tee};

const DELAY: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, Debug)]
struct Mode {
    cipher: Option<Cipher>,
    checksum: bool,
}

const MODES: [Mode; 6] = [
    Mode {
        cipher: None,
        checksum: false,
    },
    Mode {
        cipher: None,
        checksum: true,
    },
    Mode {
        cipher: Some(Cipher::Aes128Ctr),
        checksum: false,
    },
    Mode {
        cipher: Some(Cipher::Aes128Ctr),
        checksum: true,
    },
    Mode {
        cipher: Some(Cipher::Aes128Gcm),
        checksum: false,
    },
    Mode {
        cipher: Some(Cipher::Aes128Gcm),
        checksum: true,
    },
];

struct Case {
    mode: Mode,
    ports: usize,
    files: BTreeMap<RelativePath, Vec<u8>>,
    sink: MemorySink,
    /// The directory of the last run.
    disk: RefCell<Option<(DirectorySink, TempDir)>>,
}

impl Case {
    fn new(mode: Mode, ports: usize, random: &mut Random) -> Self {
        let mut files = BTreeMap::new();
        for index in 0..random.below(8) + 3 {
            let size = match random.below(4) {
                0 => random.below(3),
                1 => random.below(500),
                _ => random.below(40_000),
            };
            let path = format!("d{}/f{index}", index % 3);
            let content = (0..size)
                .map(|byte| (byte * 31 + index * 7) as u8)
                .collect();
            files.insert(RelativePath::new(path.as_bytes()).unwrap(), content);
        }
        Self {
            mode,
            ports,
            files,
            sink: MemorySink::new(1 << 20),
            disk: RefCell::default(),
        }
    }

    fn url(&self) -> ConnectionUrl {
        ConnectionUrl {
            host: "localhost".to_owned(),
            ports: (0..self.ports as u16)
                .map(|index| 4000 + 7 * index)
                .collect(),
            id: b"42".to_vec(),
            version: Some(32),
            secret: self.mode.cipher.map(|cipher| Secret {
                cipher,
                key: Key::new([9; 16]),
                iv_change_bytes: 20_000,
            }),
            iv_change_bytes: 20_000,
            resumption: false,
        }
    }

    fn run(&self, simulation: Simulation) -> Outcome {
        self.run_from(simulation, &self.url())
    }

    fn run_from(&self, simulation: Simulation, sender_url: &ConnectionUrl) -> Outcome {
        let mut source = MemorySource::new();
        for (path, content) in &self.files {
            source.add(path.clone(), content.clone());
        }
        let options = sender::Options {
            block_bytes: 9000,
            checksum: self.mode.checksum,
            tag_interval_bytes: 2048,
            ..sender::Options::default()
        };
        let options = (options, receiver::Options::default());
        let temp = tempfile::tempdir().expect("a directory");
        let to_disk = DirectoryOptions {
            sync: false,
            ..DirectoryOptions::default()
        };
        let disk = DirectorySink::new(temp.path(), to_disk).expect("a sink");
        let sink = Tee(self.sink.clone(), disk.clone());
        self.disk.replace(Some((disk, temp)));
        simulation.run(source, sink, &self.url(), sender_url, options)
    }

    /// Checks the content of the directory after the same transfer.
    fn check_disk(&self, what: &str) {
        let (disk, temp) = self.disk.take().expect("it ran");
        let named = disk
            .commit()
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(named, self.files.len() as u64, "{what}");
        for (path, content) in &self.files {
            let there = std::fs::read(temp.path().join(path.as_path())).expect("a file");
            assert!(there == *content, "{what}: `{path}`");
        }
    }

    fn arrived(&self) -> bool {
        self.sink.contents() == self.files
    }

    /// Checks the conditions that hold whatever happened.
    fn check(&self, outcome: &Outcome, what: &str) {
        let (sent, received) = (&outcome.sent, &outcome.received);
        assert!(
            sent.is_err() || self.arrived(),
            "{what}: the sender was told of what is not there"
        );
        assert!(
            received.is_err() || self.arrived(),
            "{what}: silently short"
        );
        assert!(
            sent.is_err() || received.is_ok(),
            "{what}: the sender was told of success, the receiver failed: {received:?}"
        );
        if let Err(failure) = sent {
            assert_ne!(failure.status, Status::Ok, "{what}");
        }
        if let Ok(report) = received {
            self.check_disk(what);
            let bytes: usize = self.files.values().map(Vec::len).sum();
            assert_eq!(report.bytes, bytes as u64, "{what}");
        }
    }
}

fn simulation(seed: u64, cuts: Vec<Cut>) -> Simulation {
    Simulation {
        delay: DELAY,
        cuts,
        refusals: Vec::new(),
        random: Random::new(seed),
    }
}

fn both_succeed(outcome: &Outcome, what: &str) {
    if let Err(failure) = &outcome.sent {
        panic!(
            "{what}: the sender: {failure} (the receiver: {:?})",
            outcome.received
        );
    }
    if let Err(failure) = &outcome.received {
        panic!("{what}: the receiver: {failure}");
    }
}

/// Defines a test for each of [`MODES`].
macro_rules! in_every_mode {
    ($($name:ident: $check:ident;)+) => {
        $(mod $name {
            in_every_mode!(@modes $check plain = 0, plain_with_checksums = 1, ctr = 2,
                ctr_with_checksums = 3, gcm = 4, gcm_with_checksums = 5);
        })+
    };
    (@modes $check:ident $($mode:ident = $index:literal),+) => {
        $(#[test]
        fn $mode() {
            super::$check($index);
        })+
    };
}

in_every_mode! {
    without_faults_everything_arrives: everything_arrives;
    a_connection_may_be_cut_at_any_byte: any_byte_may_be_the_last;
    many_cuts_end_whole_or_with_a_code: many_cuts_may_come;
}

fn everything_arrives(mode: usize) {
    let seed = mode as u64;
    let mode = MODES[mode];
    for ports in [1, 2, 5, 64] {
        let case = Case::new(mode, ports, &mut Random::new(seed));
        let outcome = case.run(simulation(seed, Vec::new()));
        let what = format!("{mode:?} over {ports} ports");
        both_succeed(&outcome, &what);
        case.check(&outcome, &what);
        assert!(
            outcome.took < Duration::from_secs(5),
            "{what}: {:?}",
            outcome.took
        );
    }
}

/// Cuts a connection at any byte; runs every sixth seed, in this mode.
fn any_byte_may_be_the_last(mode: usize) {
    for seed in seeds(120, 960).skip(mode).step_by(MODES.len()) {
        let mut random = Random::new(seed);
        let mode = MODES[mode];
        let ports = random.below(4) as usize + 1;
        let case = Case::new(mode, ports, &mut random);
        let complete = case.run(simulation(seed, Vec::new()));
        case.sink.clear();
        let of_sender = random.below(4) > 0;
        let share = if of_sender {
            2 * complete.bytes / ports as u64
        } else {
            80
        };
        let cut = Cut {
            port: random.below(ports as u64) as usize,
            connection: 0,
            of_sender,
            after: random.below(share),
            silent: random.below(4) == 0,
        };
        let outcome = case.run(simulation(seed, vec![cut]));
        let what = format!("seed {seed}, {mode:?}, {ports} ports, {cut:?}");
        case.check(&outcome, &what);
        // The sender cannot know whether the receiver's last bytes came; with tags they are worth
        // something.
        let tags = mode.cipher == Some(Cipher::Aes128Gcm);
        if of_sender || !tags {
            both_succeed(&outcome, &what);
        }
    }
}

/// Returns the seeds of a test: `short`, or `long` where `REGATTA_LONG_TESTS` is `1`, or the number
/// in `REGATTA_FUZZ_SEEDS`.
fn seeds(short: u64, long: u64) -> std::ops::Range<u64> {
    let is_long = std::env::var_os("REGATTA_LONG_TESTS").is_some_and(|set| set == "1");
    let count = std::env::var("REGATTA_FUZZ_SEEDS").map(|text| text.parse().expect("a number"));
    0..count.unwrap_or(if is_long { long } else { short })
}

/// Cuts connections many times: the transfer succeeds whole or fails with a code. Runs every sixth
/// seed, in this mode.
fn many_cuts_may_come(mode: usize) {
    let (mut succeeded, mut all) = (0, 0);
    for seed in seeds(120, 960).skip(mode).step_by(MODES.len()) {
        let mut random = Random::new(1000 + seed);
        let mode = MODES[mode];
        let ports = random.below(3) as usize + 1;
        let case = Case::new(mode, ports, &mut random);
        let cuts = (0..random.below(8) + 2)
            .map(|index| Cut {
                port: random.below(ports as u64) as usize,
                connection: index as usize / ports,
                of_sender: random.below(3) > 0,
                after: random.below(30_000) / (random.below(20) + 1),
                silent: random.below(4) == 0,
            })
            .collect();
        // Sometimes a port is lost for good from some connection on.
        let refusals = (0..random.below(4) / 3)
            .map(|_| Refusal {
                port: random.below(ports as u64) as usize,
                from: random.below(3) as usize,
            })
            .collect();
        let outcome = case.run(Simulation {
            refusals,
            ..simulation(seed, cuts)
        });
        case.check(&outcome, &format!("seed {seed}, {mode:?}, {ports} ports"));
        succeeded += usize::from(outcome.sent.is_ok() && outcome.received.is_ok());
        all += 1;
    }
    assert!(
        2 * succeeded > all,
        "most transfers survive a few cuts, not {succeeded} of {all}"
    );
}

#[test]
fn work_of_a_refused_port_moves_to_the_others() {
    for (seed, mode) in MODES.into_iter().enumerate() {
        for from in [0, 1] {
            let case = Case::new(mode, 3, &mut Random::new(seed as u64));
            let cuts = vec![Cut {
                port: 1,
                connection: 0,
                of_sender: true,
                after: 300,
                silent: false,
            }];
            let refusals = vec![Refusal { port: 1, from }];
            let outcome = case.run(Simulation {
                refusals,
                ..simulation(seed as u64, cuts)
            });
            let what = format!("{mode:?}, refused from connection {from} on");
            both_succeed(&outcome, &what);
            case.check(&outcome, &what);
            let report = outcome.sent.unwrap();
            assert!(report.ports[1].failure.is_some(), "{what}");
        }
    }
}

#[test]
fn with_tags_failure_of_one_port_does_not_fail_all() {
    let gcm = Mode {
        cipher: Some(Cipher::Aes128Gcm),
        checksum: false,
    };
    let mut failed = 0;
    for seed in 0..20 {
        // The receiver's prologue and `D`: the sender's last tag never comes over this port.
        let cuts = vec![Cut {
            port: 1,
            connection: 0,
            of_sender: false,
            after: 24,
            silent: false,
        }];
        let refusals = vec![Refusal { port: 1, from: 1 }];
        let case = Case::new(gcm, 2, &mut Random::new(seed));
        let outcome = case.run(Simulation {
            refusals,
            ..simulation(seed, cuts)
        });
        case.check(&outcome, &format!("seed {seed}"));
        failed += usize::from(outcome.sent.is_err());
    }
    assert!(
        failed > 10,
        "what no tag has proven was believed: {failed} of 20"
    );
}

#[test]
fn transfer_fails_with_its_code_when_every_port_is_refused() {
    let case = Case::new(MODES[0], 2, &mut Random::new(1));
    let refusals = vec![Refusal { port: 0, from: 0 }, Refusal { port: 1, from: 0 }];
    let outcome = case.run(Simulation {
        refusals,
        ..simulation(1, Vec::new())
    });
    assert_eq!(outcome.sent.unwrap_err().status, Status::Connection);
    assert_eq!(outcome.received.unwrap_err().status, Status::Connection);
    assert!(
        outcome.took >= Duration::from_secs(50),
        "the receiver waits 50 s for a sender"
    );
}
