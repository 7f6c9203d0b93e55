//! Run of a flow's operations at one end. It uses no clock and no transport: whoever has them does what
//! [`Run::next`] says, and notes what arrives.

use std::{sync::Arc, time::Duration};

use regatta_model::script::SentBy;

use super::program::Operation;
use crate::{
    clock::MonotonicTime,
    content::{message_check::Counts, stream_check::StreamCheck},
    timeout::RetransmissionTimeout,
    trial::distribution::Distribution,
};

/// Next action of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the message with this number.
    Send(u64),
    /// Wait until a moment, which may have passed, after everything has left.
    Wait(MonotonicTime),
    /// Wait for messages, at most until a moment, after everything has left.
    Receive(MonotonicTime),
    /// Note that a step of the flow has ended, by its index.
    StepEnded(usize),
    /// Nothing: all operations are done.
    Done,
}

/// Messages of the other end that have arrived.
pub(crate) trait Arrived {
    /// Whether a message is here.
    fn has(&self, number: u64) -> bool;

    /// Returns one more than the highest number of a message that is here.
    fn end(&self) -> u64;
}

impl Arrived for StreamCheck {
    fn has(&self, number: u64) -> bool {
        number < self.complete_messages()
    }

    fn end(&self) -> u64 {
        self.complete_messages()
    }
}

impl Arrived for Counts {
    fn has(&self, number: u64) -> bool {
        Self::has(self, number)
    }

    fn end(&self) -> u64 {
        self.next_expected
    }
}

/// Rules for messages of the other end that do not come.
#[derive(Debug)]
enum Losses {
    /// None is lost.
    Never,
    /// At the client: a message is given up after a time.
    Client(Patience),
    /// At the server, which follows the client: a message is given up when one of a later turn is here. A turn are the messages
    /// that the client sends without one of the server between them.
    Server {
        /// One more than the number of the last message of the client's turn.
        turn_end: u64,
        /// Whether a message of the turn was given up: the client does not get an answer to it.
        is_broken: bool,
    },
}

/// Time for which the client waits for messages of the server.
#[derive(Debug)]
struct Patience {
    timeout: RetransmissionTimeout,
    /// Whether messages keep their order: one that has not come before a later one is lost.
    keeps_order: bool,
    /// Moment at which the server could send the next message.
    expected: MonotonicTime,
    /// Moment at which it is given up.
    until: MonotonicTime,
    /// Departure of the last message, of which the round trip is measured.
    departed: Option<MonotonicTime>,
}

impl Patience {
    /// Has the wait for the next message begin anew at `moment`.
    fn expect(&mut self, moment: MonotonicTime) {
        self.expected = moment;
        self.until = self.until.max(moment + self.timeout.get());
    }

    /// Notes that the server waits before its next message: until `due`, or for a time.
    fn server_waits(&mut self, due: Option<MonotonicTime>, time: Duration) {
        self.departed = None;
        if let Some(due) = due {
            self.expect(due);
        }
        self.expected = self.expected + time;
        self.until = self.until + time;
    }
}

/// Measured step that has not ended.
#[derive(Debug)]
struct MeasuredStep {
    begun: MonotonicTime,
    is_lost: bool,
}

/// Results of the measured steps of a flow, or of all.
#[derive(Debug, Default)]
pub(crate) struct StepResults {
    /// Times of the steps, if there are any.
    pub times: Option<Distribution>,
    /// Number of steps in which a message was given up.
    pub lost: u64,
    /// Number of messages that came after they were given up.
    pub late: u64,
}

impl StepResults {
    /// Adds those of another flow.
    pub(crate) fn merge(&mut self, other: &Self) {
        if let Some(times) = &other.times {
            self.times.get_or_insert_default().merge(times);
        }
        self.lost += other.lost;
        self.late += other.late;
    }
}

/// Run of a flow's operations at one end.
#[derive(Debug)]
pub(crate) struct Run {
    operations: Arc<[Operation]>,
    /// Number of operations that are done.
    done: usize,
    host: SentBy,
    /// Number of messages of this end that were sent or left out.
    sent: u64,
    /// Number of messages of the other end that are here or given up.
    awaited: u64,
    losses: Losses,
    last_arrival: MonotonicTime,
    /// Beginnings of the schedules.
    schedules: Vec<MonotonicTime>,
    /// End of the wait under way.
    waiting: Option<MonotonicTime>,
    /// Scheduled beginning of the next operation.
    due: Option<MonotonicTime>,
    /// Measured steps that have not ended.
    measured: Vec<MeasuredStep>,
    /// Moment after which steps that end are not measured.
    deadline: MonotonicTime,
    pub results: StepResults,
}

impl Run {
    /// Makes a run of which nothing is done. Where messages can be lost, `losing` is the time after which the client gives
    /// one up, and whether messages keep their order.
    pub(crate) fn new(
        operations: &Arc<[Operation]>,
        host: SentBy,
        losing: Option<(RetransmissionTimeout, bool)>,
    ) -> Self {
        let losses = match (losing, host) {
            (None, _) => Losses::Never,
            (Some((timeout, keeps_order)), SentBy::Client) => Losses::Client(Patience {
                timeout,
                keeps_order,
                expected: MonotonicTime(0),
                until: MonotonicTime(0),
                departed: None,
            }),
            (Some(_), SentBy::Server) => Losses::Server {
                turn_end: 0,
                is_broken: false,
            },
        };
        Self {
            operations: Arc::clone(operations),
            done: 0,
            host,
            sent: 0,
            awaited: 0,
            losses,
            last_arrival: MonotonicTime::NEVER,
            schedules: Vec::new(),
            waiting: None,
            due: None,
            measured: Vec::new(),
            deadline: MonotonicTime::NEVER,
            results: StepResults::default(),
        }
    }

    /// Begins the run at `now`; steps that end after `deadline` are not measured.
    pub(crate) fn begin(&mut self, now: MonotonicTime, deadline: MonotonicTime) {
        self.deadline = deadline;
        if let Losses::Client(patience) = &mut self.losses {
            patience.expect(now);
        }
    }

    /// Whether all operations are done.
    pub(crate) fn is_done(&self) -> bool {
        self.done == self.operations.len()
    }

    /// Whether a message of the client's turn was lost, so that the server leaves out what follows it.
    fn is_broken(&self) -> bool {
        matches!(
            self.losses,
            Losses::Server {
                is_broken: true,
                ..
            }
        )
    }

    /// Notes at `now` that the message which was to be sent has left; only where messages can be lost.
    pub(crate) fn left(&mut self, now: MonotonicTime) {
        if let Losses::Client(patience) = &mut self.losses {
            patience.expect(now);
            patience.departed = Some(now);
        }
    }

    /// Notes at `now` that a message of the other end is here; over streams with the number of the message under way, of
    /// which more is here.
    pub(crate) fn arrived(&mut self, number: u64, now: MonotonicTime) {
        if number < self.awaited {
            self.results.late += 1;
            return;
        }
        self.last_arrival = now;
        if let Losses::Client(patience) = &mut self.losses {
            if let Some(departed) = patience.departed.take() {
                patience.timeout.answered(now.since(departed));
            }
            patience.expect(now);
        }
    }

    /// Returns the next action at `now`, with the messages that are `here`.
    pub(crate) fn next(&mut self, now: MonotonicTime, here: &impl Arrived) -> Next {
        while let Some(operation) = self.operations.get(self.done).copied() {
            match operation {
                Operation::Message(by) if by == self.host => {
                    self.due = None;
                    self.done += 1;
                    self.sent += 1;
                    if self.is_broken() {
                        continue;
                    }
                    return Next::Send(self.sent - 1);
                }
                Operation::Message(_) => {
                    if let Some(until) = self.waits_for_message(now, here) {
                        return Next::Receive(until);
                    }
                    self.awaited += 1;
                    self.due = None;
                }
                Operation::Wait { by, time } => {
                    if let Some(until) = self.waits(by, now, |_| now + time) {
                        return Next::Wait(until);
                    }
                    if by != self.host
                        && let Losses::Client(patience) = &mut self.losses
                    {
                        patience.server_waits(None, time);
                    }
                    self.due = None;
                }
                Operation::Begin(schedule) => {
                    self.schedules.truncate(schedule);
                    self.schedules.resize(schedule + 1, now);
                }
                Operation::Due {
                    by,
                    schedule,
                    offset,
                } => {
                    let due = self.schedules.get(schedule).map(|begun| *begun + offset);
                    if let Some(until) = self.waits(by, now, |now| due.unwrap_or(now)) {
                        return Next::Wait(until);
                    }
                    if by != self.host
                        && let Losses::Client(patience) = &mut self.losses
                    {
                        patience.server_waits(due, Duration::ZERO);
                    }
                    self.due = due.filter(|_| by == self.host);
                }
                Operation::Measure if self.host == SentBy::Client => {
                    let begun = self.due.unwrap_or(now);
                    let is_lost = false;
                    self.measured.push(MeasuredStep { begun, is_lost });
                }
                Operation::Measured => self.end_measured(),
                Operation::StepEnded(step) => {
                    self.done += 1;
                    return Next::StepEnded(step);
                }
                Operation::Measure => {}
            }
            self.done += 1;
        }
        Next::Done
    }

    /// Returns the end of a wait of this end, unless it is over or left out.
    fn waits(
        &mut self,
        by: SentBy,
        now: MonotonicTime,
        until: impl FnOnce(MonotonicTime) -> MonotonicTime,
    ) -> Option<MonotonicTime> {
        if by != self.host || self.is_broken() {
            return None;
        }
        match self.waiting {
            Some(until) if until <= now => {
                self.waiting = None;
                None
            }
            Some(until) => Some(until),
            None => Some(*self.waiting.insert(until(now))),
        }
    }

    /// Returns the moment until which the next message of the other end is waited for, unless it is here or given up.
    fn waits_for_message(
        &mut self,
        now: MonotonicTime,
        here: &impl Arrived,
    ) -> Option<MonotonicTime> {
        let number = self.awaited;
        if let Losses::Server {
            turn_end,
            is_broken,
        } = &mut self.losses
            && number >= *turn_end
        {
            let rest = self.operations[self.done..].iter();
            let turn = rest.take_while(|it| **it != Operation::Message(SentBy::Server));
            let messages = turn.filter(|it| **it == Operation::Message(SentBy::Client));
            *turn_end = number + messages.count() as u64;
            *is_broken = false;
        }
        if here.has(number) {
            return None;
        }
        match &mut self.losses {
            Losses::Never => return Some(MonotonicTime::NEVER),
            Losses::Server { turn_end, .. } if here.end() <= *turn_end => {
                return Some(MonotonicTime::NEVER);
            }
            Losses::Server { is_broken, .. } => *is_broken = true,
            Losses::Client(patience) => {
                let is_passed = patience.keeps_order && here.end() > number;
                if !is_passed && now < patience.until {
                    return Some(patience.until);
                }
                if !is_passed {
                    patience.timeout.lost(patience.expected, now);
                    patience.departed = None;
                }
            }
        }
        for step in &mut self.measured {
            step.is_lost = true;
        }
        None
    }

    /// Measures the step that began last and has ended.
    fn end_measured(&mut self) {
        match self.measured.pop() {
            Some(step) if step.is_lost => self.results.lost += 1,
            Some(step) if self.last_arrival <= self.deadline => {
                let times = self.results.times.get_or_insert_default();
                times.add(step.begun, self.last_arrival);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regatta_model::script::{Action, Step};

    use super::{super::program::compile, *};

    /// Messages that are here, by number.
    impl Arrived for BTreeSet<u64> {
        fn has(&self, number: u64) -> bool {
            self.contains(&number)
        }

        fn end(&self) -> u64 {
            self.last().map_or(0, |last| last + 1)
        }
    }

    const TIMEOUT: Duration = Duration::from_millis(100);

    fn at(ms: i64) -> MonotonicTime {
        MonotonicTime((1000 + ms) * 1_000_000)
    }

    fn run(steps: &[Step], host: SentBy, keeps_order: bool) -> Run {
        let operations = compile(steps, (1, 0)).operations.into();
        let timeout = RetransmissionTimeout::new(TIMEOUT, [TIMEOUT; 2]);
        let mut run = Run::new(&operations, host, Some((timeout, keeps_order)));
        run.begin(at(0), MonotonicTime::NEVER);
        run
    }

    fn calls(times: u64) -> Vec<Step> {
        vec![Step::repeat(times, Step::exchange(10, 20).measured())]
    }

    fn wait(ms: u64) -> Step {
        let time = Duration::from_millis(ms);
        Step::new(Action::Wait { time })
    }

    /// The next action is to send this message, which leaves.
    fn sends(run: &mut Run, ms: i64, here: &BTreeSet<u64>, number: u64) {
        assert_eq!(run.next(at(ms), here), Next::Send(number));
        run.left(at(ms));
    }

    /// Notes the arrival of a message at a moment.
    fn arrive(run: &mut Run, here: &mut BTreeSet<u64>, number: u64, ms: i64) {
        here.insert(number);
        run.arrived(number, at(ms));
    }

    #[test]
    fn a_call_without_an_answer_is_lost_after_its_timeout() {
        let (mut run, mut here) = (run(&calls(3), SentBy::Client, true), BTreeSet::new());
        sends(&mut run, 0, &here, 0);
        assert_eq!(run.next(at(0), &here), Next::Receive(at(100)));
        arrive(&mut run, &mut here, 0, 40);
        sends(&mut run, 40, &here, 1);
        assert_eq!(run.next(at(139), &here), Next::Receive(at(140)));
        sends(&mut run, 140, &here, 2);
        // The answer of the second call is of no step.
        arrive(&mut run, &mut here, 1, 150);
        assert_eq!(run.next(at(150), &here), Next::Receive(at(240)));
        arrive(&mut run, &mut here, 2, 160);
        assert_eq!(run.next(at(160), &here), Next::Done);
        let results = &run.results;
        let measured = results.times.as_ref().map(Distribution::len);
        assert_eq!((measured, results.lost, results.late), (Some(2), 1, 1));
    }

    #[test]
    fn messages_of_one_answer_are_given_up_together() {
        let answer = [
            Step::send(SentBy::Client, 10),
            Step::send(SentBy::Server, 9),
        ];
        let more = Step::repeat(50, Step::send(SentBy::Server, 9));
        let steps = [&answer[..], &[more, Step::send(SentBy::Client, 10)]].concat();
        let (mut run, here) = (run(&steps, SentBy::Client, true), BTreeSet::new());
        sends(&mut run, 0, &here, 0);
        assert_eq!(run.next(at(0), &here), Next::Receive(at(100)));
        sends(&mut run, 100, &here, 1);
    }

    #[test]
    fn a_message_that_a_later_one_has_passed_is_given_up_where_order_is_kept() {
        let pushes = vec![Step::send(SentBy::Server, 9), wait(50)];
        let repeated = Step::new(Action::Repeat {
            times: 3,
            every: None,
            steps: pushes,
        });
        for keeps_order in [true, false] {
            let mut run = run(std::slice::from_ref(&repeated), SentBy::Client, keeps_order);
            let mut here = BTreeSet::new();
            assert_eq!(run.next(at(0), &here), Next::Receive(at(100)));
            arrive(&mut run, &mut here, 0, 10);
            // The server waits 50 ms before the next one.
            assert_eq!(run.next(at(10), &here), Next::Receive(at(160)));
            arrive(&mut run, &mut here, 2, 110);
            let next = run.next(at(110), &here);
            match keeps_order {
                true => assert!(matches!(next, Next::Wait(_)), "{next:?}"),
                false => assert_eq!(next, Next::Receive(at(210))),
            }
        }
    }

    #[test]
    fn the_server_answers_only_a_turn_that_is_here_whole() {
        let turn = vec![
            Step::send(SentBy::Client, 10),
            Step::send(SentBy::Client, 10),
            Step::send(SentBy::Server, 10),
        ];
        let turns = [Step::new(Action::Repeat {
            times: 3,
            every: None,
            steps: turn,
        })];
        let (mut run, mut here) = (run(&turns, SentBy::Server, true), BTreeSet::new());
        let forever = Next::Receive(MonotonicTime::NEVER);
        assert_eq!(run.next(at(0), &here), forever);
        // Messages of one turn may come in any order.
        arrive(&mut run, &mut here, 1, 1);
        assert_eq!(run.next(at(1), &here), forever);
        arrive(&mut run, &mut here, 0, 2);
        sends(&mut run, 2, &here, 0);
        arrive(&mut run, &mut here, 3, 3);
        assert_eq!(run.next(at(3), &here), forever);
        // The client has given up the answer of the second turn, of which the first message is lost.
        arrive(&mut run, &mut here, 4, 200);
        assert_eq!(run.next(at(200), &here), forever);
        arrive(&mut run, &mut here, 5, 201);
        sends(&mut run, 201, &here, 2);
        assert!(run.next(at(201), &here) == Next::Done && run.is_done());
    }

    #[test]
    fn waits_are_of_the_next_sender_and_count_from_the_step_before() {
        let steps = [
            Step::send(SentBy::Client, 10),
            wait(30),
            Step::send(SentBy::Server, 10),
            wait(20),
            Step::send(SentBy::Client, 10),
        ];
        let mut server = run(&steps, SentBy::Server, true);
        let mut here = BTreeSet::new();
        arrive(&mut server, &mut here, 0, 5);
        assert_eq!(server.next(at(5), &here), Next::Wait(at(35)));
        assert_eq!(server.next(at(20), &here), Next::Wait(at(35)));
        sends(&mut server, 36, &here, 0);
        let mut client = run(&steps, SentBy::Client, true);
        let mut here = BTreeSet::new();
        sends(&mut client, 0, &here, 0);
        // The time-out, after the wait of the server.
        assert_eq!(client.next(at(0), &here), Next::Receive(at(130)));
        arrive(&mut client, &mut here, 0, 40);
        assert_eq!(client.next(at(40), &here), Next::Wait(at(60)));
        sends(&mut client, 60, &here, 1);
    }
}
