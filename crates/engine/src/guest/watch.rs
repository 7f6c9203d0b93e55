//! Running guests: signs of life, and the last lines of their output.

use std::time::{Duration, Instant};

use regatta_bed::guest::{Guest, Said};

use crate::process_output::LastLines;

/// Time between two looks at whether the run is to stop, while the guest sends nothing.
pub(super) const LOOK_AROUND: Duration = Duration::from_millis(100);

/// Longest silence of a guest with a real clock, which sends a sign of life every two seconds.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// Time between two looks from which on this process was stopped meanwhile, as when a batch system suspends
/// a job.
const STOPPED: Duration = Duration::from_secs(1);

/// Time after the end of the receiver's guest within which the sender's may report the end of the
/// run.
const LAST_TO_TELL: Duration = Duration::from_secs(1);

/// Number of last lines of the console and of the program that explain an end.
pub(super) const LAST_WORDS: usize = 8;

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
    pub(super) begun: Instant,
    /// Time of the last message of a guest that is ready and has a real clock.
    pub(super) heard: Option<Instant>,
    /// Time from which on the guest is taken to hang.
    pub(super) until: Instant,
    /// Time of the last look for a message.
    pub(super) looked: Instant,
    pub(super) last_words: LastLines,
}

impl Watch {
    pub(super) fn wait(&mut self, longest: Duration) {
        self.begun = Instant::now();
        self.until = self.begun + longest;
    }

    /// Waits a moment for the next message of the guest and returns it. Time for which this process was
    /// stopped is no silence of the guests.
    pub(super) fn hear(&mut self) -> Option<Said> {
        let left = self.until.saturating_duration_since(Instant::now());
        let said = self.guest.hear(left.min(self.look_around()));
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

    /// Returns the time for which to wait for a message of the guest before the other one's are
    /// read.
    fn look_around(&self) -> Duration {
        match &self.second {
            Some(SecondGuest { start: None, .. }) => LOOK_AROUND / 20,
            _ => LOOK_AROUND,
        }
    }

    /// Reads the other guest's messages; returns its end, if it has ended early or is silent.
    pub(super) fn hear_second(&mut self) -> Option<SecondGuestEnd> {
        loop {
            let second = self.second.as_mut()?;
            if let Some((at, end)) = &second.ended {
                // It also ends with the run, of which the first guest then tells.
                return (at.elapsed() > LAST_TO_TELL).then(|| end.clone());
            }
            let Some(said) = second.guest.hear(Duration::ZERO) else {
                return is_silent(second.heard).then(|| SecondGuestEnd {
                    reasons: self.explain(&hung("the receiver's guest", SILENCE), Vec::new()),
                    unsupported: false,
                });
            };
            let (reasons, unsupported) = match said {
                Said::Beat => {
                    second.heard = Some(Instant::now());
                    continue;
                }
                Said::Up { .. } => {
                    second.start = Some(second.begun.elapsed());
                    continue;
                }
                Said::Console { line } | Said::Output { line } | Said::Message { text: line } => {
                    self.last_words.keep(format!("receiver's guest: {line}"));
                    continue;
                }
                Said::Ended { code } => {
                    let reason = format!("its program ended with exit status {code}");
                    (vec![reason], false)
                }
                Said::Failed {
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
        first.chain(self.last_words.in_words()).collect()
    }
}

/// Whether a guest that sends signs of life has sent none for [`SILENCE`].
pub(super) fn is_silent(heard: Option<Instant>) -> bool {
    heard.is_some_and(|heard| heard.elapsed() > SILENCE)
}

pub(super) fn hung(what: &str, silence: Duration) -> String {
    let seconds = silence.as_secs();
    format!("{what} hung: it said nothing for {seconds} s, and was ended")
}
