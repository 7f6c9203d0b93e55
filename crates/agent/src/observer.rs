//! Readings of CPU, memory and interface counters at the edges of the transfer window, and the
//! samples in between.

use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
};

use parking_lot::Mutex;
use regatta_control::{FromAgent, Note, Progress, Role, TrialOrder};
use regatta_model::{Direction, Series, units::nanoseconds};
use regatta_telemetry::{
    FlowSample, FlowSource, Instruments, InterfaceInfo, Reading, Sampler, Subject, WindowDeltas,
    interface_of, monotonic_ns, process,
};
use regatta_transport::{
    LiveCounters, Observer, Phase, ProtocolSample, Purpose, StatisticsSource, Stop, WindowEdge,
    WindowStatistics,
};

use crate::served::Quota;

/// Function that takes the messages of a trial to the controller, from any thread.
pub(crate) type MessageSink = Arc<dyn Fn(FromAgent) + Send + Sync>;

/// Telemetry of one end of one trial.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Changes over the window; absent if it did not begin or did not end.
    pub deltas: Option<WindowDeltas>,
    /// The samples of the window; in a competition those before it as well.
    pub series: Vec<Series>,
    /// Beginning of the window on the monotonic clock, in nanoseconds.
    pub from_ns: i64,
    /// Largest resident set by the end of the window, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// The data interface.
    pub interface: Option<InterfaceInfo>,
}

/// The transfer of one end of one trial, as its threads and the sampler share it.
struct Flow {
    /// Position in the plan.
    trial: u32,
    role: Role,
    /// Whether data goes in both directions, so that this end sends and receives.
    both: bool,
    live: Arc<LiveCounters>,
    /// Statistics of the transfer's connection.
    transfer: Mutex<Option<Weak<dyn StatisticsSource>>>,
    /// Time between reports of the transfer under way; absent if nobody reads them.
    interval_ns: Option<u64>,
    reported: Mutex<Reported>,
    sink: MessageSink,
    /// Bytes that the trial may have, and the stop of one that has more.
    quota: Option<(Quota, Stop)>,
}

/// State of the reports, from the beginning of the window.
#[derive(Default)]
struct Reported {
    began_ns: i64,
    /// Times of the next report and of the last one.
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

/// Source of the sampler's figures, which also reports the transfer under way.
struct SampledFlow(Arc<Flow>);

impl FlowSource for SampledFlow {
    fn sample(&mut self, reading: &Reading) -> FlowSample {
        let flow = &self.0;
        let figures = flow.figures(flow.statistics());
        flow.report(&figures, reading, false);
        if let Some((quota, stop)) = &flow.quota {
            quota.check(&flow.live, stop, |problem| {
                let trial = flow.trial;
                (flow.sink)(FromAgent::Failed { trial, problem });
            });
        }
        figures
    }
}

impl Flow {
    /// Reads the statistics of the transfer's connection, at the end that sends.
    fn statistics(&self) -> Option<ProtocolSample> {
        if self.role == Role::Receiver && !self.both {
            return None;
        }
        // The reference is taken out of the lock: a stack may take its time to answer.
        let source = self.transfer.lock().as_ref().and_then(Weak::upgrade);
        source.and_then(|source| source.sample())
    }

    /// Makes a sample for the series from statistics and the live counters.
    fn figures(&self, statistics: Option<ProtocolSample>) -> FlowSample {
        let sample = statistics.unwrap_or_default();
        let delivered = || self.live.bytes_delivered.load(Ordering::Relaxed);
        FlowSample {
            bytes_delivered: (self.role == Role::Receiver || self.both).then(delivered),
            retransmitted_packets: sample.retransmitted_packets,
            congestion_window_bytes: sample.congestion_window_bytes,
            smoothed_rtt_ns: sample.smoothed_rtt.map(nanoseconds),
            bytes_in_flight: sample.bytes_in_flight,
        }
    }

    /// Begins the window. It begins again at the end of a warm-up, whose counters are reported as an interval first.
    fn begin(&self) {
        let live = &self.live;
        let moved = [&live.bytes_sent, &live.bytes_delivered]
            .iter()
            .any(|counter| counter.load(Ordering::Relaxed) > 0);
        // A listening end begins with each flow, before anything has come.
        if !moved {
            *self.reported.lock() = Reported {
                began_ns: monotonic_ns(),
                due_ns: self.interval_ns.unwrap_or_default(),
                reported_ns: 0,
                idle_answers: live.probe_answers.load(Ordering::Relaxed),
                idle_delay_ns: live.probe_delay_ns.load(Ordering::Relaxed),
            };
            return;
        }
        let since_ns = {
            let state = self.reported.lock();
            state.elapsed_ns().saturating_sub(state.reported_ns)
        };
        // A report that was due at the same time may have just been sent.
        if self
            .interval_ns
            .is_none_or(|interval_ns| since_ns < interval_ns / 10)
        {
            return;
        }
        if let Some(of_warm_up) = self.progress(&FlowSample::default(), None, true) {
            self.send_progress(Progress {
                has_ended: false,
                ..of_warm_up
            });
        }
    }

    /// Reports the transfer if that is due, or if it has ended.
    fn report(&self, figures: &FlowSample, reading: &Reading, has_ended: bool) {
        if let Some(progress) = self.progress(figures, Some(reading), has_ended) {
            self.send_progress(progress);
        }
    }

    fn send_progress(&self, progress: Progress) {
        let trial = self.trial;
        (self.sink)(FromAgent::Progress { trial, progress });
    }

    /// Returns a report if one is due, or if the transfer has ended.
    fn progress(
        &self,
        figures: &FlowSample,
        reading: Option<&Reading>,
        has_ended: bool,
    ) -> Option<Progress> {
        let (interval_ns, live) = (self.interval_ns?, &self.live);
        // The window of a listening end begins with the flow of the idle probe.
        if live.phase() == Phase::Idle {
            return None;
        }
        let mut state = self.reported.lock();
        let elapsed_ns = state.elapsed_ns();
        if elapsed_ns < state.due_ns && !has_ended {
            return None;
        }
        state.due_ns = (elapsed_ns / interval_ns + 1) * interval_ns;
        state.reported_ns = elapsed_ns;
        Some(Progress {
            elapsed_ns,
            has_ended,
            bytes_delivered: live.bytes_delivered.load(Ordering::Relaxed),
            probe_answers: live.probe_answers.load(Ordering::Relaxed) - state.idle_answers,
            probe_delay_ns: live.probe_delay_ns.load(Ordering::Relaxed) - state.idle_delay_ns,
            retransmitted_packets: figures.retransmitted_packets,
            congestion_window_bytes: figures.congestion_window_bytes,
            smoothed_rtt_ns: figures.smoothed_rtt_ns,
            bytes_in_flight: figures.bytes_in_flight,
            cpu_ns: reading.and_then(|reading| u64::try_from(reading.process.total_ns).ok()),
        })
    }
}

/// Observer of one end of one trial.
pub(crate) struct TrialObserver {
    window: Mutex<Window>,
    flow: Arc<Flow>,
    /// Whether the beginning of the transfer is reported.
    reports_start: bool,
    /// Process whose CPU time and memory are charged.
    subject: Subject,
    interface: Option<InterfaceInfo>,
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
        sink: MessageSink,
        quota: Option<(Quota, Stop)>,
    ) -> io::Result<Self> {
        let interface = interface_of(order.local).and_then(|name| InterfaceInfo::of(&name));
        let name = interface.as_ref().map(|info| info.name.as_str());
        let flow = Arc::new(Flow {
            trial: order.trial,
            role: order.role,
            both: order.workload.kind.direction() == Direction::Both,
            live,
            transfer: Mutex::default(),
            interval_ns: order
                .progress_interval
                .and_then(|it| u64::try_from(it.as_nanos()).ok().filter(|it| *it > 0)),
            reported: Mutex::default(),
            sink,
            quota,
        });
        let subject = Subject::new();
        let sampler = Sampler::spawn(
            Instruments::open_for(name, subject.clone()),
            Box::new(SampledFlow(Arc::clone(&flow))),
            order.sample_interval,
            order.role.name(),
            interface.as_ref().map_or(0, |info| info.link_header_bytes),
            // The others of a competition are not in their warm-up at the same time.
            (order.longest_transfer(), order.beside_others),
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
            reports_start: order.reports_start && order.connects(),
            subject,
            interface,
        })
    }

    /// Returns all observations, after the session has ended.
    pub(crate) fn finish(&self) -> Observed {
        let mut window = self.window.lock();
        let series = window.sampler.take().map(Sampler::finish);
        let readings = window.start.zip(window.end);
        Observed {
            from_ns: window.start.map_or(0, |start| start.monotonic_ns),
            deltas: readings.map(|(start, end)| WindowDeltas::between(&start, &end)),
            series: series.unwrap_or_default(),
            peak_memory_bytes: window.peak_memory_bytes,
            interface: self.interface.clone(),
        }
    }
}

impl Observer for TrialObserver {
    fn on_window(&self, edge: WindowEdge) {
        let mut window = self.window.lock();
        match edge {
            WindowEdge::Start => {
                // First, as the path follows it.
                if self.reports_start {
                    let trial = self.flow.trial;
                    (self.flow.sink)(FromAgent::Began { trial });
                }
                self.flow.begin();
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
                let figures = self.flow.figures(statistics);
                if let Some(sampler) = &window.sampler {
                    sampler.end(reading, figures);
                }
                self.flow.report(&figures, &reading, true);
            }
        }
    }

    fn on_connection(&self, purpose: Purpose, source: Weak<dyn StatisticsSource>) {
        if purpose == Purpose::Transfer {
            *self.flow.transfer.lock() = Some(source);
        }
    }

    fn on_process(&self, process: u32) {
        self.subject.set(process);
    }

    fn window_statistics(&self) -> WindowStatistics {
        let window = self.window.lock();
        let sampler = window.sampler.as_ref();
        WindowStatistics {
            at_end: window.at_end,
            max_bytes_in_flight: sampler.and_then(Sampler::max_bytes_in_flight),
        }
    }

    fn send_note(&self, note: Note) {
        let trial = self.flow.trial;
        (self.flow.sink)(FromAgent::Note { trial, note });
    }
}
