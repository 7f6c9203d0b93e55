//! Machines of the tests of hosts: network namespaces of a guest.

use std::{
    fs::File,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, setns};
use regatta_bed::{
    Bed, BedError, TestBed as _,
    hosts::Connect,
    session::{SILENCE, Session},
};
use regatta_model::PathCheck;

use crate::common::{check_path, condition, executable, quantity};

/// Machine: a process in a network namespace of its own, with the interface `e0`.
#[derive(Debug)]
pub struct Machine(Child);

impl Machine {
    pub fn start() -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo up; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut up = [0; 3];
        let out = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(out, &mut up).expect("a line");
        Self(child)
    }

    /// Returns the process that holds the network.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns a way to the machine.
    pub fn enter(&self) -> Box<dyn Connect> {
        Box::new(Enter(self.id()))
    }

    /// Runs a function in the machine's network.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/proc/{}/ns/net", self.id())).expect("a network");
        // Only that thread enters it.
        thread::scope(|scope| {
            let working = scope.spawn(|| {
                setns(network, CloneFlags::CLONE_NEWNET).expect("root");
                work()
            });
            working.join().expect("no panic")
        })
    }

    /// Runs a command in the machine's network and returns its output.
    pub fn run(&self, command: &str) -> String {
        let output = Command::new("nsenter")
            .args([
                "--target",
                &self.0.id().to_string(),
                "--net",
                "--",
                "sh",
                "-c",
            ])
            .arg(command)
            .output()
            .expect("nsenter");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
struct Enter(u32);

impl Connect for Enter {
    fn connect(&self) -> Result<Session, BedError> {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.0.to_string(), "--net", "--"])
            .arg(executable())
            .arg("host-server");
        let session = Session::start(
            command,
            Duration::from_secs(60),
            SILENCE,
            &mut |_, _| Ok(()),
        );
        session.map_err(|error| BedError::Session {
            host: "the machine".into(),
            source: Box::new(error),
            hint: String::new(),
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
        (40e6..80e6).contains(&achieved(check, "round_trip_delay_ns"))
            && achieved(check, "forward_link_rate_bps") < 22e6
            && losses.iter().all(|loss| (0.005..0.2).contains(loss))
    };
    let Some((check, _)) = check_path(bed, &condition(40, 20, 0.05), |check, _| is_sound(check))
    else {
        return;
    };
    assert!(is_sound(&check), "{check:?}");
    let counters = bed.counters().expect("counters");
    assert!(counters.forward.loss_drops > 0 && counters.reverse.loss_drops > 0);
}
