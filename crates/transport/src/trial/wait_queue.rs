//! Tasks that serve flows, of which one at a time waits for the next flow.

use crate::{clock::MonotonicTime, executor::Executor, stop::Stop};

/// Queue of numbered tasks that wait for the same thing one after another: all of them at once would wake one another
/// whenever it comes for one.
pub(crate) struct WaitQueue(Vec<Stop>);

impl WaitQueue {
    /// Makes the queue of `tasks` tasks: it is the turn of the first, and of all once `over` is raised.
    fn new(tasks: usize, over: &Stop) -> Self {
        let queue = Self((0..tasks).map(|_| over.child()).collect());
        queue.give(0);
        queue
    }

    fn give(&self, task: usize) {
        if let Some(turn) = self.0.get(task) {
            turn.stop();
        }
    }

    /// Waits for the turn of a task.
    async fn wait(&self, task: usize, executor: &impl Executor) {
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

/// Serves flows in `tasks` tasks, one flow in each. The first task serves `first`; the others take their flows from
/// `next`, in turn. `next` may pass the turn on early, and returns `None` once no flow follows, at the latest when
/// `over` is raised.
pub(crate) async fn serve_in_turns<T: Send>(
    executor: &impl Executor,
    (tasks, over): (usize, &Stop),
    first: T,
    next: impl AsyncFn(&WaitQueue, usize) -> Option<T> + Sync,
    serve: impl AsyncFn(T) + Sync,
) {
    let (queue, next, serve) = (&WaitQueue::new(tasks, over), &next, &serve);
    let mut first = Some(first);
    let tasks = (0..tasks)
        .map(|task| {
            let first = first.take();
            move || async move {
                queue.wait(task, executor).await;
                let flow = match first {
                    Some(first) => Some(first),
                    None => next(queue, task).await,
                };
                queue.pass(task);
                if let Some(flow) = flow {
                    serve(flow).await;
                }
            }
        })
        .collect();
    executor.join_all(tasks).await;
}
