//! The thread on which all views of a run live.
//!
//! The engine's thread only puts messages into a queue without a limit: no view can hold it up. All else happens here, at
//! the lowest priority, at most [`UPDATES_PER_SECOND`] times a second.

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use regatta_engine::{Event, Listener, ListenerError, TrialProgress};
use regatta_model::TrialRecord;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};

use crate::{
    error::LiveError,
    fold::{Fold, without_series},
    http, metrics,
    model::{Activity, LiveRun, Update},
    socket::{RunClient, RunSocket},
    terminal::Screen,
    web,
};

/// Most updates of every view in a second.
const UPDATES_PER_SECOND: u32 = 4;

/// Time between two redraws of a terminal on which only clocks go on.
const CLOCK: Duration = Duration::from_secs(1);

/// Time that readers have to take the last state, when the run has ended.
const LAST_WITHIN: Duration = Duration::from_millis(300);

/// Views that are asked for.
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
    /// Whether any view is asked for.
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

/// State that the servers share with the thread's main task.
pub struct Shared {
    run: Mutex<LiveRun>,
    /// The directory of the run, for its report.
    pub dir: PathBuf,
    now: watch::Sender<Arc<str>>,
    cells: watch::Sender<Arc<str>>,
    ended: watch::Sender<bool>,
    /// Number of readers of the figures of the trial under way.
    watching: Arc<AtomicUsize>,
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

/// Changes of the state for one reader: first all of it, then what is new when the reader is ready.
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
    fn new(dir: PathBuf) -> Self {
        Self {
            run: Mutex::default(),
            dir,
            now: watch::channel(Arc::from("")).0,
            cells: watch::channel(Arc::from("")).0,
            ended: watch::channel(false).0,
            watching: Arc::default(),
        }
    }

    /// Returns the state. Only for the thread of the hub, which never waits while it has it.
    pub fn run(&self) -> MutexGuard<'_, LiveRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes of the state from now on, with all of the present state first.
    pub fn updates(&self) -> Updates {
        // Nothing is made for nobody, so that the first reader's has to be made now.
        let updates = Updates {
            now: self.now.subscribe(),
            cells: self.cells.subscribe(),
            ended: self.ended.subscribe(),
        };
        self.send_cells();
        self.send_now();
        updates
    }

    fn send_now(&self) {
        if self.now.receiver_count() > 0 {
            let json = serde_json::to_string(&Update::Now(self.run().now.clone()));
            self.now.send_replace(json.unwrap_or_default().into());
        }
    }

    fn send_cells(&self) {
        if self.cells.receiver_count() > 0 {
            let json = serde_json::to_string(&Update::Cells(self.run().cells.clone()));
            self.cells.send_replace(json.unwrap_or_default().into());
        }
    }
}

/// Source of the state.
enum Source {
    Run {
        messages: mpsc::UnboundedReceiver<Message>,
        fold: Box<Fold>,
    },
    Other {
        stream: UnixStream,
        detach: Arc<Notify>,
    },
}

/// Views of a run of this process.
pub struct Hub {
    messages: mpsc::UnboundedSender<Message>,
    watching: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Listener that passes events on to the views. It never waits.
pub struct LiveListener(mpsc::UnboundedSender<Message>);

impl Listener for LiveListener {
    fn hear(&mut self, event: &Event) -> Result<(), ListenerError> {
        let event = match event {
            Event::HostsSampled { .. } => return Ok(()),
            Event::TrialEnded { trial } => Event::TrialEnded {
                trial: Box::new(without_series(trial)),
            },
            event => event.clone(),
        };
        // Views that have failed are missed by nobody but those who look at them.
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

impl Hub {
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
        let (sender, messages) = mpsc::unbounded_channel();
        let fold = Box::new(Fold::new(dir.display().to_string(), earlier));
        let shared = Arc::new(Shared::new(dir.to_owned()));
        let watching = Arc::clone(&shared.watching);
        let thread = spawn(Source::Run { messages, fold }, bound, shared)?;
        let hub = Self {
            messages: sender,
            watching,
            thread: Some(thread),
        };
        Ok((hub, url))
    }

    /// Returns a listener for the events of the run.
    #[must_use]
    pub fn listener(&self) -> LiveListener {
        LiveListener(self.messages.clone())
    }

    /// Returns a function for the interval of the reports of a trial: none while nobody looks.
    pub fn interval(&self) -> impl Fn() -> Option<Duration> + 'static {
        let watching = Arc::clone(&self.watching);
        move || {
            (watching.load(Ordering::Relaxed) > 0)
                .then(|| Duration::from_secs(1) / UPDATES_PER_SECOND)
        }
    }

    /// Returns a function that takes the reports of the trial under way.
    pub fn progress(&self) -> impl Fn(TrialProgress) + 'static {
        let messages = self.messages.clone();
        move |progress| {
            let _ = messages.send(Message::Progress(progress));
        }
    }
}

impl Drop for Hub {
    /// Ends the views. Readers that hang are left.
    fn drop(&mut self) {
        let _ = self.messages.send(Message::End);
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
        let (bound, url) = Bound::open(views)?;
        let shared = Arc::new(Shared::new(dir.to_owned()));
        let detach = Arc::<Notify>::default();
        let source = Source::Other {
            stream,
            detach: Arc::clone(&detach),
        };
        let thread = spawn(source, bound, Arc::clone(&shared))?;
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

fn spawn(source: Source, bound: Bound, shared: Arc<Shared>) -> Result<JoinHandle<()>, LiveError> {
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
            runtime.block_on(serve(source, bound, shared));
            // A report that is being made for the page is not waited for.
            runtime.shutdown_background();
        })
        .map_err(LiveError::Thread)
}

/// Serves all views until the source ends.
async fn serve(source: Source, bound: Bound, shared: Arc<Shared>) {
    let is_attached = matches!(source, Source::Other { .. });
    let _watching = bound.is_metered().then(|| Watching::new(&shared));
    let mut servers = tokio::task::JoinSet::new();
    if let Some((listener, access)) = bound.web {
        servers.spawn(http::serve(listener, web::router(access, &shared)));
    }
    if let Some(listener) = bound.prometheus {
        servers.spawn(http::serve(listener, metrics::router(&shared)));
    }
    let mut views = Drawn {
        screen: bound.screen,
        textfile: bound.textfile,
        shared: Arc::clone(&shared),
        is_attached,
        cells_changed: true,
        dirty: false,
        next: Instant::now(),
    };
    match source {
        Source::Run { messages, fold } => {
            follow_events(messages, *fold, &mut views, &mut servers).await
        }
        Source::Other { stream, detach } => {
            tokio::select! {
                () = follow_run(stream, &mut views) => {}
                () = detach.notified() => {}
            }
        }
    }
    views.publish();
    shared.ended.send_replace(true);
    drop(servers);
    drop(views.screen.take());
    if let Some(path) = &views.textfile {
        metrics::write_textfile(path, &shared.run());
    }
    // A reader that hangs is not waited for any longer.
    if shared.now.receiver_count() > 0 {
        tokio::time::sleep(LAST_WITHIN).await;
    }
}

/// Follows the events of a run of this process.
async fn follow_events(
    mut messages: mpsc::UnboundedReceiver<Message>,
    mut fold: Fold,
    views: &mut Drawn,
    servers: &mut tokio::task::JoinSet<()>,
) {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            () = views.due() => {
                views.publish();
                continue;
            }
        };
        match message {
            Some(Message::Event(event)) => {
                fold.hear(&event);
                if matches!(*event, Event::RunStarted { .. }) {
                    // Without a socket nobody can attach; that is no reason to measure nothing.
                    if let Ok(socket) = RunSocket::listen(&views.shared.dir) {
                        servers.spawn(socket.serve(Arc::clone(&views.shared)));
                    }
                    views.begin();
                }
            }
            Some(Message::Progress(progress)) => fold.hear_progress(&progress),
            Some(Message::End) | None => return,
        }
        let mut run = views.shared.run();
        run.now.clone_from(&fold.run.now);
        if std::mem::take(&mut fold.cells_changed) {
            run.cells.clone_from(&fold.run.cells);
            views.cells_changed = true;
        }
        drop(run);
        views.dirty = true;
    }
}

/// Follows the run of another process until it ends.
async fn follow_run(stream: UnixStream, views: &mut Drawn) {
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

/// Views that are drawn or written when the state changes, and when.
struct Drawn {
    screen: Option<Screen>,
    textfile: Option<PathBuf>,
    shared: Arc<Shared>,
    is_attached: bool,
    cells_changed: bool,
    dirty: bool,
    /// Earliest time of the next update.
    next: Instant,
}

impl Drawn {
    /// The run has begun: the terminal is drawn from now on.
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
            (false, Some(_)) => tokio::time::sleep_until(self.next + CLOCK).await,
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
mod tests {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::TcpStream,
    };

    use regatta_control::{Host, Progress};

    use super::*;
    use crate::testing::{report, started, trial, trial_started};

    /// Run with a page and metrics, before its first event.
    struct Served {
        hub: Hub,
        listener: LiveListener,
        dir: tempfile::TempDir,
        address: String,
        /// Path of the page, with its token.
        path: String,
    }

    impl Served {
        fn new() -> Self {
            let views = Views {
                web: Some("127.0.0.1:0".parse().expect("an address")),
                textfile: None,
                ..Views::default()
            };
            let dir = tempfile::tempdir().expect("a directory");
            let (hub, url) = Hub::start(&views, dir.path(), Vec::new()).expect("views");
            let url = url.expect("the address of the page");
            let (address, path) = url
                .strip_prefix("http://")
                .and_then(|rest| rest.split_once('/'))
                .expect("an address and a path");
            Self {
                listener: hub.listener(),
                hub,
                dir,
                address: address.to_owned(),
                path: format!("/{path}"),
            }
        }

        fn hear(&mut self, event: &Event) {
            self.listener.hear(event).expect("it never fails");
        }

        fn send(&self, path: &str, host: &str, more: &str) -> TcpStream {
            let mut stream = TcpStream::connect(&self.address).expect("connected");
            let timeout = Some(Duration::from_secs(30));
            stream.set_read_timeout(timeout).expect("a time-out");
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        }

        /// Returns the response to a request.
        fn get(&self, path: &str, host: &str, more: &str) -> String {
            let more = format!("Connection: close\r\n{more}");
            let mut text = String::new();
            let mut stream = self.send(path, host, &more);
            stream.read_to_string(&mut text).expect("a response");
            text
        }
    }

    /// Reads events of a stream until one has this text, and returns it.
    fn event_with(stream: &mut impl BufRead, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let read = stream.read_line(&mut line).expect("a line");
            assert!(read > 0, "the events ended before `{text}`");
        }
        line
    }

    #[test]
    fn the_page_is_for_whoever_has_its_address_and_for_no_other_site() {
        let served = Served::new();
        let (address, path) = (&served.address, &served.path);
        let page = served.get(path, address, "");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(page.contains(header), "`{header}` is not in\n{page}");
        }
        for file in ["", "live.js", "live.css"] {
            let text = served.get(&format!("{path}{file}"), address, "");
            assert!(text.starts_with("HTTP/1.1 200"), "{file}: {text}");
            let body = text.split_once("\r\n\r\n").expect("a body").1;
            let elsewhere = body.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !elsewhere.contains("http"),
                "{file} refers to another server"
            );
        }
        let port = address.rsplit_once(':').expect("a port").1;
        let by_name = served.get(path, &format!("localhost:{port}"), "");
        assert!(by_name.starts_with("HTTP/1.1 200"), "{by_name}");
        for (path, host, more, status) in [
            ("/", &**address, "", 404),
            ("/00000000000000000000000000000000/", address, "", 404),
            (path, "example.org", "", 403),
            (path, &format!("example.org:{port}"), "", 403),
            (path, address, "Sec-Fetch-Site: cross-site\r\n", 403),
        ] {
            let text = served.get(path, host, more);
            let expected = format!("HTTP/1.1 {status}");
            assert!(text.starts_with(&expected), "{path} {host} {more}: {text}");
        }
    }

    #[test]
    fn a_browser_gets_the_state_and_its_changes_to_the_end() {
        let mut served = Served::new();
        served.hear(&started());
        let path = format!("{}events", served.path);
        let mut events = BufReader::new(served.send(&path, &served.address, ""));
        event_with(&mut events, "Two transports");
        served.hear(&trial_started(0, "tcp"));
        let progress = served.hub.progress();
        let delivered = Progress {
            elapsed_ns: 500_000_000,
            bytes_delivered: 1_000_000,
            ..Progress::default()
        };
        progress(report(Host::Server, delivered));
        event_with(&mut events, "\"goodput_bps\":16000000.0");
        assert!(served.hub.interval()().is_some(), "somebody looks");
        let trial = Box::new(trial(0, 1, "tcp", Some(40e6)));
        served.hear(&Event::TrialEnded { trial });
        event_with(&mut events, "\"measured\":1");
        let ending = regatta_engine::Ending::Complete;
        served.hear(&Event::RunEnded { ending });
        drop(served.hub);
        event_with(&mut events, "\"complete\":true");
    }

    #[test]
    fn nobody_looks_at_a_run_without_views() {
        let dir = tempfile::tempdir().expect("a directory");
        let (hub, url) = Hub::start(&Views::default(), dir.path(), Vec::new()).expect("no views");
        assert_eq!((url, hub.interval()()), (None, None));
    }

    /// A browser that opens connections and reads nothing.
    #[test]
    fn readers_that_hang_do_not_hold_the_run_up() {
        let mut served = Served::new();
        served.hear(&started());
        let path = format!("{}events", served.path);
        let hung: Vec<TcpStream> = (0..20)
            .map(|_| served.send(&path, &served.address, ""))
            .collect();
        let silent: Vec<TcpStream> = (0..100)
            .filter_map(|_| TcpStream::connect(&served.address).ok())
            .collect();
        served.hear(&trial_started(0, "tcp"));
        let progress = served.hub.progress();
        for step in 1..20_000 {
            let delivered = Progress {
                elapsed_ns: step * 250_000_000,
                bytes_delivered: step * 1_000_000,
                ..Progress::default()
            };
            progress(report(Host::Server, delivered));
        }
        let begun = std::time::Instant::now();
        drop(served.hub);
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        drop((hung, silent));
    }

    #[test]
    fn another_process_gets_the_state_through_the_socket() {
        let mut served = Served::new();
        let none = Attached::start(&Views::default(), served.dir.path());
        assert!(
            matches!(none, Err(LiveError::NoRun { .. })),
            "the run has not begun"
        );
        served.hear(&started());
        let socket = served.dir.path().join(crate::SOCKET_NAME);
        // The page's events come after the socket is there.
        let path = format!("{}events", served.path);
        let mut events = BufReader::new(served.send(&path, &served.address, ""));
        event_with(&mut events, "Two transports");
        let (attached, _) =
            Attached::start(&Views::default(), served.dir.path()).expect("attached");
        let ending = regatta_engine::Ending::Complete;
        served.hear(&Event::RunEnded { ending });
        drop(served.hub);
        let ended = attached.wait();
        assert!(
            matches!(ended, Activity::Ended { complete: true, .. }),
            "{ended:?}"
        );
        assert!(!socket.exists(), "the socket stays");
    }
}
