//! Thread of all views of a run.
//!
//! The engine's thread only puts messages into a queue without a limit: no view can hold it up. All else happens here, at
//! the lowest priority, at most [`UPDATES_PER_SECOND`] times a second.

use std::{
    future::ready,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use regatta_engine::{Ending, Event, Listener, ListenerError, ProgressListener, TrialProgress};
use regatta_model::{TrialRecord, reason};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    error::LiveError,
    http, metrics,
    model::{Activity, LiveRun, Update},
    shared::{ASK_TIMEOUT, Load, Shared, Watching},
    socket::{RunClient, RunSocket},
    state_builder::{StateBuilder, without_series},
    terminal::Screen,
    web,
};

/// Maximum number of updates of every view in a second.
const UPDATES_PER_SECOND: u32 = 4;

/// Time between two redraws of a terminal on which only clocks go on.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of messages of the engine's thread that are taken before the views get the state.
const MAX_MESSAGES: usize = 1000;

/// Time between two readings of files. There are no notifications of changes that another machine makes in a shared
/// directory.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Reads the state of runs from their files, each time that it is called.
pub type PollState = Box<dyn FnMut() -> LiveRun + Send>;

/// Longest time that readers have to take the last state, when the run has ended: this thread has the lowest priority, and
/// a busy machine lets it wait.
const FINAL_STATE_TIMEOUT: Duration = Duration::from_secs(3);

/// Requested views.
#[derive(Debug, Clone, Default)]
pub struct Views {
    /// Whether to draw on the terminal of standard error.
    pub terminal: bool,
    /// Whether the terminal takes UTF-8.
    pub is_utf8: bool,
    /// Loopback address of the web page; port 0 is any that is free.
    pub web: Option<SocketAddr>,
    /// Address on which Prometheus is served.
    pub prometheus: Option<SocketAddr>,
    /// Text file for node_exporter.
    pub textfile: Option<PathBuf>,
}

impl Views {
    /// Whether any view is requested.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.terminal || self.web.is_some() || self.prometheus.is_some() || self.textfile.is_some()
    }
}

/// Message of the engine's thread.
enum Message {
    Event(Box<Event>),
    Progress(TrialProgress),
    /// The run has ended, with its last event or without.
    End,
}

/// Views of a run of this process.
pub struct ViewServer {
    messages_tx: mpsc::UnboundedSender<Message>,
    shared: Arc<Shared>,
    has_views: bool,
    thread: Option<JoinHandle<()>>,
}

/// Listener that passes events on to the views. It never waits.
pub struct LiveListener(mpsc::UnboundedSender<Message>);

impl Listener for LiveListener {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        let event = match event {
            Event::HostsSampled { .. } => return Ok(()),
            Event::TrialEnded { trial, more } => Event::TrialEnded {
                trial: Box::new(without_series(trial)),
                more: *more,
            },
            event => event.clone(),
        };
        // Views that have failed do not concern the run.
        let _ = self.0.send(Message::Event(Box::new(event)));
        Ok(())
    }
}

/// Listeners of the servers, which listen before the run begins.
struct Bound {
    web: Option<(TcpListener, web::Access)>,
    prometheus: Option<TcpListener>,
    textfile: Option<PathBuf>,
    screen: Option<Screen>,
}

impl Bound {
    /// Opens what the views need, the terminal last. Returns the address of the page as well.
    fn open(views: &Views) -> Result<(Self, Option<String>), LiveError> {
        let web = views.web.map(|address| http::bind(address, "--web"));
        let web = web.transpose()?.map(|(listener, address)| {
            let access = web::Access::new(address);
            (listener, access)
        });
        let prometheus = (views.prometheus).map(|address| http::bind(address, "--prometheus"));
        let prometheus = prometheus.transpose()?.map(|(listener, _)| listener);
        if let Some(path) = &views.textfile {
            metrics::check_textfile(path)?;
        }
        let url = web.as_ref().map(|(_, access)| access.url());
        let screen = match views.terminal {
            true => Some(Screen::check(views.is_utf8, url.clone())?),
            false => None,
        };
        let bound = Self {
            web,
            prometheus,
            textfile: views.textfile.clone(),
            screen,
        };
        Ok((bound, url))
    }

    const fn is_metered(&self) -> bool {
        self.prometheus.is_some() || self.textfile.is_some() || self.screen.is_some()
    }
}

impl ViewServer {
    /// Starts the views of a run in a directory, which exists when the run sends its first event. `earlier` are the
    /// trials of earlier parts of the run. Returns the address of the page, if there is one.
    ///
    /// # Errors
    /// [`LiveError`] if a view cannot be had.
    pub fn start(
        views: &Views,
        dir: &Path,
        earlier: Vec<TrialRecord>,
    ) -> Result<(Self, Option<String>), LiveError> {
        let (bound, url) = Bound::open(views)?;
        let (messages_tx, messages_rx) = mpsc::unbounded_channel();
        let builder = StateBuilder::new(dir.display().to_string(), earlier);
        let shared = Arc::new(Shared::of_dir(dir.to_owned()));
        let dir = dir.to_owned();
        let follow = async move |views: &mut DrawnViews| {
            follow_events(messages_rx, builder, &dir, views).await
        };
        let thread = spawn(bound, Arc::clone(&shared), false, follow)?;
        let views = Self {
            messages_tx,
            shared,
            has_views: views.any(),
            thread: Some(thread),
        };
        Ok((views, url))
    }

    /// Returns a listener for the events of the run.
    #[must_use]
    pub fn listener(&self) -> LiveListener {
        LiveListener(self.messages_tx.clone())
    }

    /// Returns a listener to the trial under way, which requests no reports while there are no readers.
    #[must_use]
    pub fn progress(&self) -> ProgressListener {
        let shared = Arc::clone(&self.shared);
        self.progress_if(move || shared.is_watched())
    }

    /// Returns a listener to trials under way in guests. Reports can be requested only when they start, so they
    /// are if there is any view.
    #[must_use]
    pub fn progress_of_guests(&self) -> ProgressListener {
        let has_views = self.has_views;
        self.progress_if(move || has_views)
    }

    fn progress_if(&self, is_wanted: impl Fn() -> bool + 'static) -> ProgressListener {
        let messages_tx = self.messages_tx.clone();
        ProgressListener::new(
            move || is_wanted().then(|| Duration::from_secs(1) / UPDATES_PER_SECOND),
            move |progress| {
                let _ = messages_tx.send(Message::Progress(progress));
            },
        )
    }
}

impl Drop for ViewServer {
    /// Ends the views. Does not wait for readers that hang.
    fn drop(&mut self) {
        let _ = self.messages_tx.send(Message::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Views of a run of another process.
pub struct Attached {
    shared: Arc<Shared>,
    detach: Arc<Notify>,
    thread: JoinHandle<()>,
}

impl Attached {
    /// Attaches to the run in a directory. Returns the address of the page, if there is one.
    ///
    /// # Errors
    /// [`LiveError`] if no run answers there, or a view cannot be had.
    pub fn start(views: &Views, dir: &Path) -> Result<(Self, Option<String>), LiveError> {
        let stream = RunClient::connect(dir).map_err(|source| LiveError::NoRun {
            dir: dir.to_owned(),
            source,
        })?;
        let follow = async move |views: &mut DrawnViews| follow_run(stream, views).await;
        Self::follow(views, follow, Shared::of_dir(dir.to_owned()))
    }

    /// Attaches to several runs, such as the shards of a plan on several machines, by their files. Returns the address
    /// of the page, if there is one.
    ///
    /// # Errors
    /// [`LiveError`] if a view cannot be had.
    pub fn start_files(
        views: &Views,
        poll: PollState,
        load: Load,
    ) -> Result<(Self, Option<String>), LiveError> {
        let follow = async move |views: &mut DrawnViews| follow_files(poll, views).await;
        Self::follow(views, follow, Shared::new(load))
    }

    fn follow(
        views: &Views,
        follow: impl AsyncFnOnce(&mut DrawnViews) + Send + 'static,
        shared: Shared,
    ) -> Result<(Self, Option<String>), LiveError> {
        let (bound, url) = Bound::open(views)?;
        let shared = Arc::new(shared);
        let detach = Arc::<Notify>::default();
        let detached = Arc::clone(&detach);
        let until_detached = async move |views: &mut DrawnViews| {
            tokio::select! {
                () = follow(views) => {}
                () = detached.notified() => {}
            }
        };
        let thread = spawn(bound, Arc::clone(&shared), true, until_detached)?;
        let attached = Self {
            shared,
            detach,
            thread,
        };
        Ok((attached, url))
    }

    /// Returns a function that ends the views, from any thread.
    pub fn detach(&self) -> impl FnOnce() + Send + 'static {
        let detach = Arc::clone(&self.detach);
        move || detach.notify_one()
    }

    /// Waits for the end of the run and returns its last activity.
    #[must_use]
    pub fn wait(self) -> Activity {
        let _ = self.thread.join();
        self.shared.run().now.activity.clone()
    }
}

/// Starts the thread of the views, which shows the state that `follow` updates, until `follow` ends.
fn spawn(
    bound: Bound,
    shared: Arc<Shared>,
    is_attached: bool,
    follow: impl AsyncFnOnce(&mut DrawnViews) + Send + 'static,
) -> Result<JoinHandle<()>, LiveError> {
    std::thread::Builder::new()
        .name("views".to_owned())
        .spawn(move || {
            // SAFETY: the call has no pointers. On Linux, 0 is the calling thread; those that it starts inherit this.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else {
                return;
            };
            runtime.block_on(serve(bound, shared, is_attached, follow));
            // Does not wait for a report that is being made for the page.
            runtime.shutdown_background();
        })
        .map_err(LiveError::Thread)
}

/// Serves all views until `follow` ends.
async fn serve(
    bound: Bound,
    shared: Arc<Shared>,
    is_attached: bool,
    follow: impl AsyncFnOnce(&mut DrawnViews),
) {
    let _watching = bound.is_metered().then(|| Watching::new(&shared));
    let mut servers = JoinSet::new();
    if let Some((listener, access)) = bound.web {
        servers.spawn(web::serve(listener, access, &shared));
    }
    if let Some(listener) = bound.prometheus {
        let shared = Arc::clone(&shared);
        let answer = move |request| ready(metrics::answer(&shared, &request));
        servers.spawn(http::serve(listener, answer));
    }
    let mut views = DrawnViews {
        screen: bound.screen,
        textfile: bound.textfile,
        shared: Arc::clone(&shared),
        servers,
        is_attached,
        cells_changed: true,
        dirty: false,
        next: Instant::now(),
    };
    follow(&mut views).await;
    let pages = shared.pages.number_open();
    views.publish();
    drop(views.screen.take());
    if let Some(path) = &views.textfile {
        metrics::write_textfile(path, &shared.run());
    }
    shared.pages.wait_for(pages, ASK_TIMEOUT).await;
    shared.end();
    views.servers.abort_all();
    // Does not wait longer for a reader that hangs.
    let _ = timeout(FINAL_STATE_TIMEOUT, shared.all_read()).await;
}

/// Follows the events of a run of this process.
async fn follow_events(
    mut messages: mpsc::UnboundedReceiver<Message>,
    mut builder: StateBuilder,
    dir: &Path,
    views: &mut DrawnViews,
) {
    let mut is_over = false;
    // On a busy machine many messages wait for this thread.
    let mut waiting = Vec::new();
    while !is_over {
        tokio::select! {
            received = messages.recv_many(&mut waiting, MAX_MESSAGES) => is_over = received == 0,
            () = views.due() => {
                views.publish();
                continue;
            }
        }
        for message in waiting.drain(..) {
            match message {
                Message::Event(event) => {
                    builder.on_event(&event);
                    if matches!(*event, Event::RunStarted { .. }) {
                        // Without a socket nobody can attach, but the run goes on.
                        if let Ok(socket) = RunSocket::listen(dir) {
                            let shared = Arc::clone(&views.shared);
                            views.servers.spawn(socket.serve(shared));
                        }
                        views.begin();
                    }
                }
                Message::Progress(progress) => builder.on_progress(&progress),
                Message::End => is_over = true,
            }
        }
        if is_over && !matches!(builder.run.now.activity, Activity::Ended { .. }) {
            // An error stopped the run before its last event, such as a full disk.
            let reason = reason::stopped_with_error().into();
            builder.end(&Ending::Interrupted { reason });
        }
        let mut run = views.shared.run();
        run.now.clone_from(&builder.run.now);
        if std::mem::take(&mut builder.cells_changed) {
            run.cells.clone_from(&builder.run.cells);
            views.cells_changed = true;
        }
        drop(run);
        views.dirty = true;
    }
}

/// Follows the run of another process until it ends.
async fn follow_run(stream: UnixStream, views: &mut DrawnViews) {
    let Ok(mut run) = RunClient::new(stream) else {
        return;
    };
    views.begin();
    loop {
        tokio::select! {
            update = run.next() => {
                let Some(update) = update else {
                    return;
                };
                views.cells_changed |= matches!(update, Update::Cells(_));
                views.shared.run().update(update);
                views.dirty = true;
            }
            () = views.due() => views.publish(),
        }
    }
}

/// Follows runs of other processes by their files until all have ended.
async fn follow_files(mut poll: PollState, views: &mut DrawnViews) {
    views.begin();
    let mut pause = Duration::ZERO;
    loop {
        let mut reading = std::pin::pin!(async move {
            tokio::time::sleep(pause).await;
            tokio::task::spawn_blocking(move || (poll(), poll)).await
        });
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = views.due() => views.publish(),
            }
        };
        // `poll` has panicked: there is nothing more to show.
        let Ok((run, next)) = read else {
            return;
        };
        let is_over = matches!(run.now.activity, Activity::Ended { .. });
        let mut shown = views.shared.run();
        views.cells_changed |= shown.cells != run.cells;
        *shown = run;
        drop(shown);
        views.dirty = true;
        if is_over {
            return;
        }
        (poll, pause) = (next, POLL_INTERVAL);
    }
}

/// Views that are drawn or written when the state changes, and the time of the next update.
struct DrawnViews {
    screen: Option<Screen>,
    textfile: Option<PathBuf>,
    shared: Arc<Shared>,
    servers: JoinSet<()>,
    is_attached: bool,
    cells_changed: bool,
    dirty: bool,
    /// Earliest time of the next update.
    next: Instant,
}

impl DrawnViews {
    /// Starts drawing on the terminal, as the run has begun.
    fn begin(&mut self) {
        if let Some(screen) = &mut self.screen
            && screen.begin().is_err()
        {
            self.screen = None;
        }
    }

    /// Waits until the views are to be updated.
    async fn due(&self) {
        match (self.dirty, &self.screen) {
            (true, _) => tokio::time::sleep_until(self.next).await,
            (false, Some(_)) => tokio::time::sleep_until(self.next + CLOCK_INTERVAL).await,
            (false, None) => std::future::pending().await,
        }
    }

    /// Updates all views.
    fn publish(&mut self) {
        if std::mem::take(&mut self.cells_changed) {
            self.shared.send_cells();
        }
        if std::mem::take(&mut self.dirty) {
            self.shared.send_now();
            if let Some(path) = &self.textfile {
                metrics::write_textfile(path, &self.shared.run());
            }
        }
        if let Some(screen) = &mut self.screen {
            let drawn = screen.draw(&self.shared.run(), self.is_attached);
            if drawn.is_err() {
                self.screen = None;
            }
        }
        self.next = Instant::now() + Duration::from_secs(1) / UPDATES_PER_SECOND;
    }
}

#[cfg(test)]
mod tests;
