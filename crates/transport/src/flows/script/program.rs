//! Operations of a flow, made of the steps of its description.

use std::{sync::Arc, time::Duration};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use regatta_model::script::{self, Action, IntervalDistribution, SentBy, Step};

/// Operation of a flow, which has no other operations inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Next message of a host.
    Message(SentBy),
    /// Wait of a host from the end of the operation before.
    Wait { by: SentBy, time: Duration },
    /// Beginning of a schedule with this number.
    Begin(usize),
    /// Wait of a host until a moment of a schedule, which may have passed.
    Due {
        by: SentBy,
        schedule: usize,
        offset: Duration,
    },
    /// Beginning of a measured step.
    Measure,
    /// End of the measured step that began last.
    Measured,
    /// End of a step, by its index in the flow.
    StepEnded(usize),
}

/// Maker of the operations of a flow.
struct Compiler {
    operations: Vec<Operation>,
    /// Lengths of the messages of client and server, in bytes.
    lengths: [Vec<u32>; 2],
    schedules: usize,
    random: ChaCha8Rng,
}

impl Compiler {
    /// Makes the operations of a whole flow, with the ends of its steps.
    fn flow(&mut self, steps: &[Step]) {
        for (index, step) in steps.iter().enumerate() {
            self.step(step);
            if step.name.is_some() {
                self.operations.push(Operation::StepEnded(index));
            }
        }
    }

    fn step(&mut self, step: &Step) {
        if step.measured {
            self.operations.push(Operation::Measure);
        }
        self.action(&step.action);
        if step.measured {
            self.operations.push(Operation::Measured);
        }
    }

    fn action(&mut self, action: &Action) {
        // The host of a wait is known when all operations are.
        let by = SentBy::Client;
        match action {
            Action::Send { by, size } => {
                self.operations.push(Operation::Message(*by));
                // A study has no message of more than 64 MiB.
                let length = u32::try_from(size.0).unwrap_or(u32::MAX);
                self.lengths[usize::from(*by == SentBy::Server)].push(length);
            }
            Action::Wait { time } => self.operations.push(Operation::Wait { by, time: *time }),
            Action::Repeat {
                times,
                every,
                steps,
            } => {
                let schedule = self.schedules;
                if every.is_some() {
                    self.schedules += 1;
                    self.operations.push(Operation::Begin(schedule));
                }
                let mut offset = Duration::ZERO;
                for _ in 0..*times {
                    if let Some(every) = every {
                        self.operations.push(Operation::Due {
                            by,
                            schedule,
                            offset,
                        });
                        offset = offset.saturating_add(self.interval(*every));
                    }
                    for step in steps {
                        self.step(step);
                    }
                }
            }
        }
    }

    /// Draws an interval.
    fn interval(&mut self, interval: script::Interval) -> Duration {
        match interval.distribution {
            IntervalDistribution::Constant => interval.mean,
            IntervalDistribution::Exponential => {
                let uniform: f64 = self.random.random();
                interval.mean.mul_f64(-(1.0 - uniform).ln())
            }
        }
    }

    /// Sets the hosts that wait: the sender of the next message, after the last one the client.
    fn finish(mut self) -> Compiled {
        let mut next = SentBy::Client;
        for operation in self.operations.iter_mut().rev() {
            match operation {
                Operation::Message(by) => next = *by,
                Operation::Wait { by, .. } | Operation::Due { by, .. } => *by = next,
                Operation::Begin(_)
                | Operation::Measure
                | Operation::Measured
                | Operation::StepEnded(_) => {}
            }
        }
        Compiled {
            operations: self.operations,
            lengths: self.lengths.map(Arc::from),
        }
    }
}

/// Operations of a flow, and the lengths of the messages of client and server, in bytes.
pub(super) struct Compiled {
    pub operations: Vec<Operation>,
    pub lengths: [Arc<[u32]>; 2],
}

/// Makes the operations of the flow with this number from its steps, with the draws of a seed.
pub(super) fn compile(steps: &[Step], (seed, number): (u64, u16)) -> Compiled {
    let mut compiler = Compiler {
        operations: Vec::new(),
        lengths: [Vec::new(), Vec::new()],
        schedules: 0,
        random: ChaCha8Rng::seed_from_u64(seed),
    };
    compiler.random.set_stream(number.into());
    compiler.flow(steps);
    compiler.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(times: u64, every: Option<script::Interval>, steps: Vec<Step>) -> Step {
        Step::new(Action::Repeat {
            times,
            every,
            steps,
        })
    }

    fn wait(seconds: u64) -> Step {
        Step::new(Action::Wait {
            time: Duration::from_secs(seconds),
        })
    }

    fn operations(steps: &[Step]) -> Vec<Operation> {
        compile(steps, (1, 0)).operations
    }

    fn hosts_that_wait(steps: &[Step]) -> Vec<SentBy> {
        let operations = operations(steps);
        let waits = operations.iter().filter_map(|operation| match operation {
            Operation::Wait { by, .. } | Operation::Due { by, .. } => Some(*by),
            _ => None,
        });
        waits.collect()
    }

    #[test]
    fn the_host_that_sends_next_waits() {
        use SentBy::{Client, Server};
        let steps = [
            Step::send(Client, 10),
            wait(1),
            Step::send(Server, 20),
            wait(1),
        ];
        let [client, server] = compile(&steps, (1, 0)).lengths;
        assert_eq!((&*client, &*server), (&[10][..], &[20][..]));
        assert_eq!(hosts_that_wait(&steps), [Server, Client]);
    }

    #[test]
    fn a_wait_at_the_end_of_a_repetition_is_that_of_the_next_time() {
        use SentBy::{Client, Server};
        let pushes = vec![Step::send(Server, 1), wait(1)];
        assert_eq!(
            hosts_that_wait(&[repeat(3, None, pushes)]),
            [Server, Server, Client]
        );
    }

    #[test]
    fn a_schedule_begins_at_once_and_its_intervals_add_up() {
        let offsets = |distribution| {
            let mean = Duration::from_millis(100);
            let every = Some(script::Interval { mean, distribution });
            let operations = operations(&[repeat(1000, every, vec![Step::exchange(1, 1)])]);
            let offsets = operations.iter().filter_map(|operation| match operation {
                Operation::Due { by, offset, .. } => Some((*by, *offset)),
                _ => None,
            });
            offsets.collect::<Vec<_>>()
        };
        let even = offsets(IntervalDistribution::Constant);
        assert_eq!(even[0], (SentBy::Client, Duration::ZERO));
        assert_eq!(even[999], (SentBy::Client, Duration::from_millis(99_900)));
        let random = offsets(IntervalDistribution::Exponential);
        let again = offsets(IntervalDistribution::Exponential);
        assert_eq!(random, again, "the seed decides");
        // The mean of 999 exponential intervals has a standard deviation of 3.2 %; this one is of a fixed seed.
        let mean = random[999].1.as_secs_f64() / 999.0;
        assert!((mean - 0.1).abs() < 0.01, "{mean}");
    }

    #[test]
    fn measured_steps_nest() {
        use Operation::{Measure, Measured, Message};
        let inner = Step::send(SentBy::Server, 5).measured();
        let operations = operations(&[Step::repeat(2, inner).measured()]);
        let one = [Measure, Message(SentBy::Server), Measured];
        let expected = [&[Measure][..], &one, &one, &[Measured]].concat();
        assert_eq!(operations, expected);
    }
}
