//! State that the servers of the views share with the thread's main task.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use regatta_report::RunData;
use tokio::{sync::watch, time::timeout};

use crate::model::{LiveRun, Update};

/// Reads the trials done, for a report. The response to the request has its error.
pub type Load = Box<dyn Fn() -> Result<RunData, String> + Send + Sync>;

/// State that the servers share with the thread's main task.
pub struct Shared {
    run: Mutex<LiveRun>,
    load: Load,
    now: watch::Sender<Arc<str>>,
    cells: watch::Sender<Arc<str>>,
    ended: watch::Sender<bool>,
    /// Number of readers of the figures of the trial under way.
    watching: Arc<AtomicUsize>,
    /// Pages in browsers.
    pub pages: Arc<Pages>,
}

/// Time that a page has to ask for the last report, and to confirm that it has received it.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time that the last report may take.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Numbers of pages in browsers.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Pages that read the state.
    open: usize,
    /// Pages that have confirmed the last report.
    received: usize,
    /// Requests under way.
    requests: usize,
}

/// Pages in browsers, which keep the report when the server has ended.
#[derive(Debug, Default)]
pub struct Pages {
    counts: watch::Sender<Counts>,
}

/// One more in a number, as long as this value lives.
pub struct Counted(Arc<Pages>, fn(&mut Counts) -> &mut usize);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| *(self.1)(counts) -= 1);
    }
}

impl Pages {
    fn count(self: &Arc<Self>, number: fn(&mut Counts) -> &mut usize) -> Counted {
        self.counts.send_modify(|counts| *number(counts) += 1);
        Counted(Arc::clone(self), number)
    }

    /// Counts a page that reads the state.
    pub fn open(self: &Arc<Self>) -> Counted {
        self.count(|counts| &mut counts.open)
    }

    /// Counts a request for the answer or the report.
    pub fn request(self: &Arc<Self>) -> Counted {
        self.count(|counts| &mut counts.requests)
    }

    /// Counts a page that has received the last report.
    pub fn receive(&self) {
        self.counts.send_modify(|counts| counts.received += 1);
    }

    /// Returns the number of pages that read the state.
    pub fn number_open(&self) -> usize {
        self.counts.borrow().open
    }

    /// Waits until this number of pages have the last report. Those that neither ask for it nor confirm it for
    /// `ask_timeout` are not waited for.
    pub async fn wait_for(&self, pages: usize, ask_timeout: Duration) {
        let mut counts = self.counts.subscribe();
        let received = async {
            loop {
                let now = *counts.borrow_and_update();
                if now.received >= pages {
                    return;
                }
                // What was asked for may take longer than the asking.
                let limit = if now.requests > 0 {
                    LAST_REPORT_TIMEOUT
                } else {
                    ask_timeout
                };
                if !matches!(timeout(limit, counts.changed()).await, Ok(Ok(()))) {
                    return;
                }
            }
        };
        let _ = timeout(LAST_REPORT_TIMEOUT, received).await;
    }
}

/// Reader of the figures of the trial under way, as long as this value lives.
pub struct Watching(Arc<AtomicUsize>);

impl Watching {
    /// Counts a reader.
    pub fn new(shared: &Shared) -> Self {
        shared.watching.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&shared.watching))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Changes of the state for one reader: first the whole state, then each change when the reader is ready.
pub struct Updates {
    now: watch::Receiver<Arc<str>>,
    cells: watch::Receiver<Arc<str>>,
    ended: watch::Receiver<bool>,
}

/// An [`Update`] as JSON.
pub struct UpdateLine {
    /// Name of the part of the state: `now` or `cells`.
    pub part: &'static str,
    /// The JSON, in one line.
    pub json: Arc<str>,
}

impl Updates {
    /// Waits for the next change; `None` when the run has ended and all was read.
    pub async fn next(&mut self) -> Option<UpdateLine> {
        tokio::select! {
            biased;
            Ok(()) = self.cells.changed() => Some(("cells", &mut self.cells)),
            Ok(()) = self.now.changed() => Some(("now", &mut self.now)),
            _ = self.ended.wait_for(|ended| *ended) => None,
        }
        .map(|(part, receiver)| UpdateLine {
            part,
            json: Arc::clone(&receiver.borrow_and_update()),
        })
    }
}

impl Shared {
    /// Creates the state of a run in a directory, before its first event.
    pub fn of_dir(dir: PathBuf) -> Self {
        Self::new(Box::new(move || {
            regatta_report::load(&dir).map_err(|error| error.to_string())
        }))
    }

    /// Creates the state of runs whose trials are read by `load`.
    pub fn new(load: Load) -> Self {
        Self {
            run: Mutex::default(),
            load,
            now: watch::channel(Arc::from("")).0,
            cells: watch::channel(Arc::from("")).0,
            ended: watch::channel(false).0,
            watching: Arc::default(),
            pages: Arc::default(),
        }
    }

    /// Returns the state. Only for the thread of the views, which never waits while it has it.
    pub fn run(&self) -> MutexGuard<'_, LiveRun> {
        self.run.lock()
    }

    /// Reads the trials done.
    ///
    /// # Errors
    /// The reason for which they cannot be read.
    pub fn load(&self) -> Result<RunData, String> {
        (self.load)()
    }

    /// Returns the changes of the state from now on, with all of the present state first.
    pub fn updates(&self) -> Updates {
        // Without readers no JSON is made, so the first reader's is made now.
        let updates = Updates {
            now: self.now.subscribe(),
            cells: self.cells.subscribe(),
            ended: self.ended.subscribe(),
        };
        self.send_cells();
        self.send_now();
        updates
    }

    /// Whether there are readers of the figures of the trial under way.
    pub fn is_watched(&self) -> bool {
        self.watching.load(Ordering::Relaxed) > 0
    }

    /// Ends the updates of all readers when they have taken the last state.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until no reader is left.
    pub async fn all_read(&self) {
        self.now.closed().await;
    }

    /// Sends [`LiveRun::now`] to the readers.
    pub fn send_now(&self) {
        if self.now.receiver_count() > 0 {
            let json = serde_json::to_string(&Update::Now(self.run().now.clone()));
            self.now.send_replace(json.unwrap_or_default().into());
        }
    }

    /// Sends [`LiveRun::cells`] to the readers.
    pub fn send_cells(&self) {
        if self.cells.receiver_count() > 0 {
            let json = serde_json::to_string(&Update::Cells(self.run().cells.clone()));
            self.cells.send_replace(json.unwrap_or_default().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn readers_are_waited_for_until_they_have_the_last_state() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            let shared = Shared::new(Box::new(|| Err(String::new())));
            let is_over = async || {
                tokio::select! {
                    biased;
                    () = shared.all_read() => true,
                    () = ready(()) => false,
                }
            };
            let mut updates = shared.updates();
            shared.end();
            assert!(!is_over().await);
            while updates.next().await.is_some() {}
            drop(updates);
            assert!(is_over().await);
        });
    }
}
