//! Turns of tasks that wait for the same thing.

use crate::{clock::MonotonicTime, executor::Executor, stop::Stop};

/// Turns of numbered tasks that wait for the same thing one after another: all of them at once would wake one another
/// whenever it comes for one.
pub(crate) struct Turns(Vec<Stop>);

impl Turns {
    /// Makes the turns of `tasks` tasks, of which the first has its own. All have theirs once `over` is raised.
    pub(crate) fn new(tasks: usize, over: &Stop) -> Self {
        let turns = Self((0..tasks).map(|_| over.child()).collect());
        turns.give(0);
        turns
    }

    fn give(&self, task: usize) {
        if let Some(turn) = self.0.get(task) {
            turn.stop();
        }
    }

    /// Waits for the turn of a task.
    pub(crate) async fn wait(&self, task: usize, executor: &impl Executor) {
        if let Some(turn) = self.0.get(task) {
            executor
                .sleep_unless_stopped(MonotonicTime::NEVER, turn)
                .await;
        }
    }

    /// Passes the turn of a task on to the next one.
    pub(crate) fn pass(&self, task: usize) {
        self.give(task + 1);
    }
}
