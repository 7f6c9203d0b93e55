//! Running guests: signs of life, and the last lines of their output.

use std::{
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use regatta_bed::{
    OnStop,
    guest::{Guest, GuestMessage},
};

use crate::process_output::LastLines;

/// Longest silence of a guest with a real clock, which sends a sign of life every two seconds.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// Longest time between two looks at the clock, by which this process notices that it was stopped, as when a batch system
/// suspends a job: there is no event for that.
const LOOK: Duration = Duration::from_secs(1);

/// Time between two looks from which on this process was stopped meanwhile.
const STOPPED: Duration = Duration::from_secs(2);

/// Time after the end of the receiver's guest within which the sender's may report the end of the
/// run.
const LAST_TO_TELL: Duration = Duration::from_secs(1);

/// Number of last lines of the console and of the program that explain an end.
pub(super) const LAST_LINES: usize = 8;

/// Guest of host b, where each host has a guest of its own.
pub(super) struct SecondGuest {
    pub(super) guest: Guest,
    pub(super) begun: Instant,
    /// Time that the guest took to be ready.
    pub(super) start: Option<Duration>,
    /// Time of the last message, once the guest is ready.
    pub(super) heard: Option<Instant>,
    /// Time and cause of the guest's end.
    pub(super) ended: Option<(Instant, SecondGuestEnd)>,
}

/// Reasons why the other guest ended early.
#[derive(Clone)]
pub(super) struct SecondGuestEnd {
    /// The causes, outermost first.
    pub(super) reasons: Vec<String>,
    /// Whether this machine cannot run guests at all.
    pub(super) unsupported: bool,
}

/// Running guest.
pub(super) struct Watch {
    pub(super) guest: Guest,
    pub(super) second: Option<SecondGuest>,
    /// Gets an item when a guest has said something or ended, and when the run is to stop.
    pub(super) woken: Receiver<()>,
    pub(super) _on_stop: OnStop,
    pub(super) begun: Instant,
    /// Time of the last message of a guest that is ready and has a real clock.
    pub(super) heard: Option<Instant>,
    /// Time from which on the guest is taken to hang.
    pub(super) until: Instant,
    /// Time of the last look for a message.
    pub(super) looked: Instant,
    pub(super) last_lines: LastLines,
}

impl Watch {
    pub(super) fn wait(&mut self, longest: Duration) {
        self.begun = Instant::now();
        self.until = self.begun + longest;
    }

    /// Waits until a guest has said something, one has been silent for too long, or the run is to stop; returns the
    /// message if it is this guest's. Time for which this process was stopped is no silence of the guests.
    pub(super) fn receive(&mut self) -> Option<GuestMessage> {
        let left = self.deadline().saturating_duration_since(Instant::now());
        let _ = self.woken.recv_timeout(left.min(LOOK));
        let said = self.guest.receive(Duration::ZERO);
        let since = self.looked.elapsed();
        if since > STOPPED {
            self.until += since;
            let second = self.second.iter_mut().map(|second| &mut second.heard);
            for heard in second.chain([&mut self.heard]).flatten() {
                *heard += since;
            }
        }
        self.looked = Instant::now();
        said
    }

    /// Returns the time at which a guest will have been silent for too long, or the other one's end counts.
    fn deadline(&self) -> Instant {
        let silent = |heard: Instant| heard + SILENCE;
        let second = self.second.as_ref().and_then(|second| match second.ended {
            Some((at, _)) => Some(at + LAST_TO_TELL),
            None => second.heard.map(silent),
        });
        let all = [self.heard.map(silent), second].into_iter().flatten();
        all.fold(self.until, Instant::min)
    }

    /// Reads the other guest's messages; returns its end, if it has ended early or is silent.
    pub(super) fn receive_second(&mut self) -> Option<SecondGuestEnd> {
        loop {
            let second = self.second.as_mut()?;
            if let Some((at, end)) = &second.ended {
                // It also ends with the run, of which the first guest then tells.
                return (at.elapsed() > LAST_TO_TELL).then(|| end.clone());
            }
            let Some(said) = second.guest.receive(Duration::ZERO) else {
                return is_silent(second.heard).then(|| SecondGuestEnd {
                    reasons: self.explain(&hung("the receiver's guest", SILENCE), Vec::new()),
                    unsupported: false,
                });
            };
            let (reasons, unsupported) = match said {
                GuestMessage::Heartbeat => {
                    second.heard = Some(Instant::now());
                    continue;
                }
                GuestMessage::Started { .. } => {
                    second.start = Some(second.begun.elapsed());
                    continue;
                }
                GuestMessage::Console { line }
                | GuestMessage::Output { line }
                | GuestMessage::Message { text: line } => {
                    self.last_lines.keep(format!("receiver's guest: {line}"));
                    continue;
                }
                GuestMessage::Ended { code } => {
                    let reason = format!("its program ended with exit status {code}");
                    (vec![reason], false)
                }
                GuestMessage::Failed {
                    reasons,
                    unsupported,
                    ..
                } => (reasons, unsupported),
            };
            let end = SecondGuestEnd {
                reasons: self.explain("the receiver's guest ended", reasons),
                unsupported,
            };
            self.second.as_mut()?.ended = Some((Instant::now(), end));
        }
    }

    /// Returns what happened, its causes, and the last lines of the output.
    pub(super) fn explain(&self, what: &str, causes: Vec<String>) -> Vec<String> {
        let first = [what.to_owned()].into_iter().chain(causes);
        first.chain(self.last_lines.in_words()).collect()
    }
}

/// Whether a guest that sends signs of life has sent none for [`SILENCE`].
pub(super) fn is_silent(heard: Option<Instant>) -> bool {
    heard.is_some_and(|heard| heard.elapsed() > SILENCE)
}

pub(super) fn hung(what: &str, silence: Duration) -> String {
    let seconds = silence.as_secs();
    format!("{what} hung: it sent nothing for {seconds} s, and was ended")
}
