//! Readings of CPU, memory and interface counters at the edges of the transfer window, and the
//! samples in between.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use regatta_control::{Note, Progress, Role, TrialOrder};
use regatta_model::Series;
use regatta_telemetry::{
    FlowSample, FlowSource, Instruments, InterfaceInfo, Reading, Sampler, Subject, WindowDeltas,
    interface_of, monotonic_ns, process,
};
use regatta_transport::{
    LiveCounters, Observer, Phase, ProtocolSample, Purpose, StatisticsSource, WindowEdge,
    WindowStatistics,
};

/// Telemetry of one end of one trial.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Changes over the window; absent if it did not begin or did not end.
    pub deltas: Option<WindowDeltas>,
    /// The samples of the window.
    pub series: Vec<Series>,
    /// Largest resident set by the end of the window, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// The data interface.
    pub interface: Option<InterfaceInfo>,
}

/// The statistics of the transfer's connection and the live counters, as the sampler reads them.
#[derive(Clone)]
struct Flow {
    role: Role,
    live: Arc<LiveCounters>,
    transfer: Arc<Mutex<Option<Weak<dyn StatisticsSource>>>>,
}

/// Functions that the observer calls in the course of a trial.
pub(crate) struct Callbacks {
    /// Passes a note to the other end.
    pub send_note: Box<dyn Fn(Note) + Send + Sync>,
    /// Called at the beginning of the window.
    pub begun: Option<Box<dyn Fn() + Send + Sync>>,
    /// Takes the counters of the transfer at the interval that the order asks for.
    pub progress: Box<dyn Fn(Progress) + Send + Sync>,
    /// Called after each sample.
    pub sampled: Box<dyn Fn() + Send + Sync>,
}

/// Reports of the transfer under way.
struct Reporting {
    interval_ns: Option<u64>,
    state: Mutex<Reported>,
}

/// State of the reports, from the beginning of the window.
#[derive(Default)]
struct Reported {
    began_ns: i64,
    /// Time of the next report, and of the last one.
    due_ns: u64,
    reported_ns: u64,
    /// Answers and delays of the idle probe.
    idle_answers: u64,
    idle_delay_ns: u64,
}

impl Reported {
    fn elapsed_ns(&self) -> u64 {
        u64::try_from(monotonic_ns() - self.began_ns).unwrap_or_default()
    }
}

impl Reporting {
    /// Begins the window. A warm-up's end, at which it begins again, ends an interval: its counters are returned.
    fn begin(&self, live: &LiveCounters) -> Option<Progress> {
        let moved = [&live.bytes_sent, &live.bytes_delivered]
            .iter()
            .any(|counter| counter.load(Ordering::Relaxed) > 0);
        // A listening end begins with each flow, before anything has come.
        if moved {
            let interval_ns = self.interval_ns?;
            let since_ns = {
                let state = lock(&self.state);
                state.elapsed_ns().saturating_sub(state.reported_ns)
            };
            // One that was due at the same time may have been told of just now.
            if since_ns < interval_ns / 10 {
                return None;
            }
            let of_warm_up = self.report(live, None, None, true)?;
            return Some(Progress {
                has_ended: false,
                ..of_warm_up
            });
        }
        *lock(&self.state) = Reported {
            began_ns: monotonic_ns(),
            due_ns: self.interval_ns.unwrap_or_default(),
            reported_ns: 0,
            idle_answers: live.probe_answers.load(Ordering::Relaxed),
            idle_delay_ns: live.probe_delay_ns.load(Ordering::Relaxed),
        };
        None
    }

    /// Returns a report if one is due, or if the transfer has ended.
    fn report(
        &self,
        live: &LiveCounters,
        statistics: Option<ProtocolSample>,
        reading: Option<&Reading>,
        has_ended: bool,
    ) -> Option<Progress> {
        let interval_ns = self.interval_ns?;
        // The window of a listening end begins with the flow of the idle probe.
        if live.phase() == Phase::Idle {
            return None;
        }
        let mut state = lock(&self.state);
        let elapsed_ns = state.elapsed_ns();
        if elapsed_ns < state.due_ns && !has_ended {
            return None;
        }
        state.due_ns = (elapsed_ns / interval_ns + 1) * interval_ns;
        state.reported_ns = elapsed_ns;
        let statistics = statistics.unwrap_or_default();
        let less = |counter: &AtomicU64, idle: u64| counter.load(Ordering::Relaxed) - idle;
        Some(Progress {
            elapsed_ns,
            has_ended,
            bytes_delivered: live.bytes_delivered.load(Ordering::Relaxed),
            probe_answers: less(&live.probe_answers, state.idle_answers),
            probe_delay_ns: less(&live.probe_delay_ns, state.idle_delay_ns),
            retransmitted_packets: statistics.retransmitted_packets,
            congestion_window_bytes: statistics.congestion_window_bytes,
            smoothed_rtt_ns: statistics.smoothed_rtt.map(nanoseconds),
            bytes_in_flight: statistics.bytes_in_flight,
            cpu_ns: reading.and_then(|reading| u64::try_from(reading.process.total_ns).ok()),
        })
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Source of the sampler's figures, which also reports the transfer under way.
struct ReportingFlow {
    flow: Flow,
    reporting: Arc<Reporting>,
    callbacks: Arc<Callbacks>,
}

impl FlowSource for ReportingFlow {
    fn sample(&mut self, reading: &Reading) -> FlowSample {
        let statistics = self.flow.statistics();
        let live = &self.flow.live;
        let report = (self.reporting).report(live, statistics, Some(reading), false);
        if let Some(progress) = report {
            (self.callbacks.progress)(progress);
        }
        (self.callbacks.sampled)();
        self.flow.figures(statistics)
    }
}

impl Flow {
    /// Reads the statistics of the transfer's connection, at the end that sends.
    fn statistics(&self) -> Option<ProtocolSample> {
        if self.role == Role::Receiver {
            return None;
        }
        // The reference is taken out of the lock: a stack may take its time to answer.
        let source = lock(&self.transfer).as_ref().and_then(Weak::upgrade);
        source.and_then(|source| source.sample())
    }

    /// Makes a sample for the series of the statistics that were read.
    fn figures(&self, statistics: Option<ProtocolSample>) -> FlowSample {
        if self.role == Role::Receiver {
            return FlowSample {
                bytes_delivered: Some(self.live.bytes_delivered.load(Ordering::Relaxed)),
                ..FlowSample::default()
            };
        }
        let Some(sample) = statistics else {
            return FlowSample::default();
        };
        FlowSample {
            bytes_delivered: None,
            retransmitted_packets: sample.retransmitted_packets,
            congestion_window_bytes: sample.congestion_window_bytes,
            smoothed_rtt_ns: sample.smoothed_rtt.map(nanoseconds),
            bytes_in_flight: sample.bytes_in_flight,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at any moment, also after a panic elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Observer of one end of one trial.
pub(crate) struct TrialObserver {
    window: Mutex<Window>,
    flow: Flow,
    /// Whose CPU time and memory are charged.
    subject: Subject,
    interface: Option<InterfaceInfo>,
    reporting: Arc<Reporting>,
    callbacks: Arc<Callbacks>,
}

struct Window {
    instruments: Instruments,
    sampler: Option<Sampler>,
    start: Option<Reading>,
    end: Option<Reading>,
    /// Statistics of the transfer's connection when the window ended.
    at_end: ProtocolSample,
    peak_memory_bytes: Option<u64>,
}

impl TrialObserver {
    /// Opens the instruments and starts the sampler's thread, which sleeps until the window
    /// begins. The interface of the order's local address is counted.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started: without samples a trial would have no
    /// series, and levels that are those of its last moment.
    pub(crate) fn new(
        order: &TrialOrder,
        live: Arc<LiveCounters>,
        callbacks: Callbacks,
    ) -> io::Result<Self> {
        let role = order.role;
        let interface = interface_of(order.local).and_then(|name| InterfaceInfo::of(&name).ok());
        let name = interface.as_ref().map(|info| info.name.as_str());
        let link_header_bytes = interface.as_ref().map_or(0, |info| info.link_header_bytes);
        let flow = Flow {
            role,
            live,
            transfer: Arc::default(),
        };
        let subject = Subject::new();
        let callbacks = Arc::new(callbacks);
        let interval = order.progress_interval;
        let reporting = Arc::new(Reporting {
            interval_ns: interval
                .and_then(|it| u64::try_from(it.as_nanos()).ok().filter(|it| *it > 0)),
            state: Mutex::default(),
        });
        let sampler = Sampler::spawn(
            Instruments::open_for(name, subject.clone()),
            Box::new(ReportingFlow {
                flow: flow.clone(),
                reporting: Arc::clone(&reporting),
                callbacks: Arc::clone(&callbacks),
            }),
            order.sample_interval,
            role.name(),
            link_header_bytes,
            order.longest_transfer(),
        )?;
        process::reset_peak_memory();
        Ok(Self {
            window: Mutex::new(Window {
                instruments: Instruments::open_for(name, subject.clone()),
                sampler: Some(sampler),
                start: None,
                end: None,
                at_end: ProtocolSample::default(),
                peak_memory_bytes: None,
            }),
            flow,
            subject,
            interface,
            reporting,
            callbacks,
        })
    }

    /// Returns all observations, after the session has ended.
    pub(crate) fn finish(&self) -> Observed {
        let mut window = lock(&self.window);
        let series = window.sampler.take().map(Sampler::finish);
        Observed {
            deltas: window
                .start
                .zip(window.end)
                .map(|(start, end)| WindowDeltas::between(&start, &end)),
            series: series.unwrap_or_default(),
            peak_memory_bytes: window.peak_memory_bytes,
            interface: self.interface.clone(),
        }
    }
}

impl Observer for TrialObserver {
    fn on_window(&self, edge: WindowEdge) {
        let mut window = lock(&self.window);
        match edge {
            WindowEdge::Start => {
                // First, as the path follows it.
                if let Some(begun) = &self.callbacks.begun {
                    begun();
                }
                if let Some(progress) = self.reporting.begin(&self.flow.live) {
                    (self.callbacks.progress)(progress);
                }
                let reading = window.instruments.read_start();
                window.start = Some(reading);
                if let Some(sampler) = &window.sampler {
                    sampler.begin(reading);
                }
            }
            WindowEdge::End => {
                let reading = window.instruments.read_end();
                window.end = Some(reading);
                window.peak_memory_bytes = window.instruments.peak_memory_bytes();
                // Here, since the connection may be closed before the sampler's thread looks.
                let statistics = self.flow.statistics();
                window.at_end = statistics.unwrap_or_default();
                if let Some(sampler) = &window.sampler {
                    sampler.end(reading, self.flow.figures(statistics));
                }
                let live = &self.flow.live;
                let report = (self.reporting).report(live, statistics, Some(&reading), true);
                if let Some(progress) = report {
                    (self.callbacks.progress)(progress);
                }
            }
        }
    }

    fn on_connection(&self, purpose: Purpose, source: Weak<dyn StatisticsSource>) {
        if purpose == Purpose::Transfer {
            *lock(&self.flow.transfer) = Some(source);
        }
    }

    fn on_process(&self, process: u32) {
        self.subject.set(process);
    }

    fn window_statistics(&self) -> WindowStatistics {
        let window = lock(&self.window);
        let sampler = window.sampler.as_ref();
        WindowStatistics {
            at_end: window.at_end,
            max_bytes_in_flight: sampler.and_then(Sampler::max_bytes_in_flight),
        }
    }

    fn send_note(&self, note: Note) {
        (self.callbacks.send_note)(note);
    }
}
