//! Running guests: heartbeats, and the last lines of their output.

use std::{
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use regatta_bed::{
    Exit, LastLines, OnStop,
    guest::{Guest, GuestMessage},
};

use regatta_model::{
    Clock, Phrase, Problem, ProblemKind, Text, Transport, Warning, reason, warning,
};

/// Longest silence of a guest with a real clock, which sends a heartbeat every two seconds.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// Longest time between two readings of the clock, by which this process notices that it was suspended, as when a batch
/// system stops a job: there is no event for that.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two readings from which on this process was suspended meanwhile.
const SUSPENDED: Duration = Duration::from_secs(2);

/// Time after the end of the receiver's guest within which the sender's may report the end of the
/// run.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of last lines of the console and of the program that explain an end.
pub(super) const LAST_LINES: usize = 8;

/// Trial of a program in virtual time, which stands while the program polls without waiting.
pub(super) struct ProgramTrial {
    /// Label of the transport.
    pub(super) transport: String,
    pub(super) begun: Instant,
}

impl ProgramTrial {
    /// Time of this machine after which a trial is said not to end.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Returns the trial of these transports that begins now; `None` if none of them is a program, or the clock is real.
    pub(super) fn begin<'t>(
        clock: Clock,
        transports: impl IntoIterator<Item = &'t Transport>,
        runs_a_program: fn(&str) -> bool,
        begun: Instant,
    ) -> Option<Self> {
        let mut programs = transports
            .into_iter()
            .filter(|it| runs_a_program(&it.driver));
        let transport = programs
            .next()
            .filter(|_| clock == Clock::Virtual)?
            .label
            .clone();
        Some(Self { transport, begun })
    }

    /// Takes the trial and returns its warning, once it lasts too long.
    pub(super) fn overdue(trial: &mut Option<Self>, now: Instant) -> Option<Warning> {
        let is_overdue = |trial: &mut Self| now - trial.begun > Self::PATIENCE;
        let trial = trial.take_if(is_overdue)?;
        Some(warning::virtual_time_stands(
            &trial.transport,
            Self::PATIENCE,
        ))
    }
}

/// Guest of host b, where each host has a guest of its own.
pub(super) struct SecondGuest {
    pub(super) guest: Guest,
    pub(super) begun: Instant,
    /// Time that the guest took to be ready.
    pub(super) start: Option<Duration>,
    /// Time of the last message, once the guest is ready.
    pub(super) last_message: Option<Instant>,
    /// Time and cause of the guest's end.
    pub(super) ended: Option<(Instant, Problem)>,
}

/// Running guest.
pub(super) struct Watch {
    pub(super) guest: Guest,
    pub(super) second: Option<SecondGuest>,
    /// Gets an item when a guest has sent something or ended, and when the run is to stop.
    pub(super) woken: Receiver<()>,
    pub(super) _on_stop: OnStop,
    pub(super) begun: Instant,
    /// Time of the last message of a guest that is ready and has a real clock.
    pub(super) last_message: Option<Instant>,
    /// Time from which on the guest is taken to hang.
    pub(super) until: Instant,
    /// Time of the last poll for a message.
    pub(super) polled: Instant,
    /// Trial under way, if a program may stop virtual time in it.
    pub(super) program: Option<ProgramTrial>,
    pub(super) last_lines: LastLines,
}

impl Watch {
    pub(super) fn wait(&mut self, longest: Duration) {
        self.begun = Instant::now();
        self.until = self.begun + longest;
    }

    /// Waits until a guest has sent something, one has been silent for too long, or the run is to stop; returns the
    /// message if it is this guest's. Time for which this process was stopped is no silence of the guests.
    pub(super) fn receive(&mut self) -> Option<GuestMessage> {
        let remaining = self.deadline().saturating_duration_since(Instant::now());
        let _ = self.woken.recv_timeout(remaining.min(POLL_INTERVAL));
        let message = self.guest.receive(Duration::ZERO);
        let since = self.polled.elapsed();
        if since > SUSPENDED {
            self.until += since;
            let second = self
                .second
                .iter_mut()
                .map(|second| &mut second.last_message);
            for last_message in second.chain([&mut self.last_message]).flatten() {
                *last_message += since;
            }
        }
        self.polled = Instant::now();
        message
    }

    /// Returns the time at which a guest will have been silent for too long, or the other one's end counts.
    fn deadline(&self) -> Instant {
        let silent = |last_message: Instant| last_message + SILENCE;
        let second = self.second.as_ref().and_then(|second| match second.ended {
            Some((at, _)) => Some(at + FINAL_REPORT_TIMEOUT),
            None => second.last_message.map(silent),
        });
        let all = [self.last_message.map(silent), second]
            .into_iter()
            .flatten();
        all.fold(self.until, Instant::min)
    }

    /// Reads the other guest's messages; returns its end, if it has ended early or is silent.
    pub(super) fn receive_second(&mut self) -> Option<Problem> {
        loop {
            let second = self.second.as_mut()?;
            if let Some((at, end)) = &second.ended {
                // It also ends with the run, whose end the first guest then reports.
                return (at.elapsed() > FINAL_REPORT_TIMEOUT).then(|| end.clone());
            }
            let Some(message) = second.guest.receive(Duration::ZERO) else {
                let hung = reason::guest_hung(reason::receivers_guest(), SILENCE);
                return is_silent(second.last_message).then(|| self.explain_hung(hung, Vec::new()));
            };
            let (kind, causes, hint) = match message {
                GuestMessage::Heartbeat => {
                    second.last_message = Some(Instant::now());
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
                    let reason = reason::its_program_ended_with(&code.to_string());
                    (ProblemKind::Failed, vec![reason.into()], Text::default())
                }
                GuestMessage::Failed(problem) => (problem.kind, problem.reasons(), problem.hint),
            };
            let reasons = self.explain(reason::receivers_guest_ended(), causes);
            let end = Problem::new(kind, reasons, hint);
            self.second.as_mut()?.ended = Some((Instant::now(), end));
        }
    }

    /// Makes the problem of a guest that hangs: `what` happened, that somebody stopped a guest if so, further causes, and
    /// the last lines of the output.
    pub(super) fn explain_hung(&self, what: Phrase, mut causes: Vec<Text>) -> Problem {
        let second = self.second.as_ref().map(|second| &second.guest);
        let mut guests = [&self.guest].into_iter().chain(second);
        let kind = match guests.any(Guest::is_stopped) {
            true => {
                causes.insert(0, Exit::Stopped.text());
                ProblemKind::Disturbed
            }
            false => ProblemKind::Failed,
        };
        Problem::new(kind, self.explain(what, causes), "")
    }

    /// Returns the reasons of a failure: `what`, its causes, and the tail of the guest's output.
    pub(super) fn explain(&self, what: Phrase, causes: Vec<Text>) -> Vec<Text> {
        let first = [what.into()].into_iter().chain(causes);
        first.chain(self.last_lines.description()).collect()
    }
}

/// Whether a guest that sends heartbeats has sent none for [`SILENCE`].
pub(super) fn is_silent(last_message: Option<Instant>) -> bool {
    last_message.is_some_and(|last_message| last_message.elapsed() > SILENCE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn watched(clock: Clock, drivers: &[&str]) -> Option<String> {
        let transports: Vec<Transport> = (drivers.iter())
            .map(|driver| Transport {
                label: format!("my {driver}"),
                driver: (*driver).to_owned(),
                options: BTreeMap::new(),
            })
            .collect();
        let is_program = |driver: &str| driver == "quic-go";
        let trial = ProgramTrial::begin(clock, &transports, is_program, Instant::now());
        trial.map(|trial| trial.transport)
    }

    #[test]
    fn a_transport_that_is_a_program_is_watched_without_an_option_that_names_it() {
        let program = Some("my quic-go".to_owned());
        assert_eq!(watched(Clock::Virtual, &["quic-go"]), program);
        assert_eq!(watched(Clock::Virtual, &["tcp"]), None);
    }

    #[test]
    fn a_program_that_competes_with_another_transport_is_watched() {
        let program = Some("my quic-go".to_owned());
        assert_eq!(watched(Clock::Virtual, &["tcp", "quic-go"]), program);
    }

    #[test]
    fn a_program_with_a_real_clock_is_not_watched() {
        assert_eq!(watched(Clock::Real, &["quic-go"]), None);
    }

    #[test]
    fn a_program_that_stops_virtual_time_is_said_once_with_what_to_change() {
        let begun = Instant::now();
        let transport = "mine".to_owned();
        let mut trial = Some(ProgramTrial { transport, begun });
        let mut after = |seconds| {
            let warning = ProgramTrial::overdue(&mut trial, begun + Duration::from_secs(seconds))?;
            Some((warning.code, warning.message))
        };
        assert_eq!(after(60), None);
        let (code, text) = after(61).expect("a warning");
        assert_eq!(code, "virtual_time_stands");
        assert!(
            text.contains("a trial of `mine` has not ended within"),
            "{text}"
        );
        assert!(text.contains("polls without waiting"), "{text}");
        assert_eq!(after(3600), None);
    }
}
