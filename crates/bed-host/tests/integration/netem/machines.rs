//! Machines of the tests of hosts: network namespaces of a guest.

use std::{
    fs::File,
    io::Write as _,
    os::fd::AsRawFd as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, setns, unshare};
use regatta_bed::{
    Bed, BedError, TestBed as _,
    hosts::Connect,
    session::{SILENCE, Session},
};
use regatta_model::{PacketCounter, PathCheck};
use regatta_process::Preparation;

use crate::common::{check_path, condition, executable, quantity};

/// Machine: a network namespace, with the interface `e0`.
#[derive(Debug)]
pub struct Machine(File);

impl Machine {
    pub fn start() -> Self {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("root");
            Self(File::open("/proc/thread-self/ns/net").expect("a network"))
        };
        // Only that thread enters it.
        thread::spawn(make).join().expect("no panic")
    }

    /// Returns the name of the network for `ip`.
    pub fn netns(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Returns a way to the machine.
    pub fn enter(&self) -> Box<dyn Connect> {
        Box::new(Enter(self.0.try_clone().expect("a descriptor")))
    }

    /// Runs a function in the machine's network.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        // Only that thread enters it.
        thread::scope(|scope| {
            let working = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("root");
                work()
            });
            working.join().expect("no panic")
        })
    }

    /// Runs `ip` or `tc`, given with its options, in the machine's network on commands, one on each line, and returns its
    /// output. One process for all of them, as each takes a guest tens of milliseconds.
    pub fn run(&self, program: &str, commands: &str) -> String {
        let output = self.within(|| {
            let mut words = program.split(' ');
            let mut process = Command::new(words.next().expect("a program"))
                .args(words.chain(["-batch", "-"]))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect(program);
            let mut input = process.stdin.take().expect("a pipe");
            input.write_all(commands.as_bytes()).expect("it reads");
            drop(input);
            process.wait_with_output().expect("an end")
        });
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {commands}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[derive(Debug)]
struct Enter(File);

impl Connect for Enter {
    fn connect(&self) -> Result<Session, BedError> {
        let mut command = Command::new(executable());
        command.arg("host-server");
        Preparation {
            namespaces: vec![(self.0.as_raw_fd(), CloneFlags::CLONE_NEWNET)],
            ..Preparation::default()
        }
        .apply(&mut command);
        let session = Session::start(
            command,
            Duration::from_secs(60),
            SILENCE,
            &mut |_, _| Ok(()),
        );
        session.map_err(|error| BedError::Session {
            host: "the machine".into(),
            source: Box::new(error),
            hint: regatta_model::Text::default(),
        })
    }
}

/// Checks a bed under delay, rate and loss by its path check and its counters.
#[track_caller]
pub fn check_shaping(bed: &mut Bed) {
    // No packet may have come back.
    let achieved =
        |check: &PathCheck, name: &str| quantity(check, name).map_or(f64::NAN, |it| it.achieved);
    let is_sound = |check: &PathCheck| {
        // The guest's clock is kept by a busy machine: no figure is exact.
        let losses = ["forward_loss_ratio", "reverse_loss_ratio"].map(|name| achieved(check, name));
        (40e6..80e6).contains(&achieved(check, "round_trip_delay_mean_ns"))
            && achieved(check, "forward_link_rate_bps") < 22e6
            && losses.iter().all(|loss| (0.005..0.2).contains(loss))
    };
    let Some((check, _)) = check_path(bed, &condition(40, 20, 0.05), |check, _| is_sound(check))
    else {
        return;
    };
    assert!(is_sound(&check), "{check:?}");
    let counters = bed.counters().expect("counters");
    assert!(
        counters.forward.packets[PacketCounter::Loss] > 0
            && counters.reverse.packets[PacketCounter::Loss] > 0
    );
}
