//! Readings of CPU, memory and interface counters at the edges of the transfer window, and the
//! samples in between.

use std::{
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use regatta_control::{Note, Role};
use regatta_model::Series;
use regatta_telemetry::{
    FlowSample, FlowSource, Instruments, InterfaceInfo, Reading, Sampler, Subject, WindowDeltas,
    interface_of, process,
};
use regatta_transport::{
    LiveCounters, Observer, ProtocolSample, Purpose, StatisticsSource, WindowEdge, WindowStatistics,
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

impl FlowSource for Flow {
    fn sample(&mut self) -> FlowSample {
        self.figures(self.statistics())
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
            smoothed_rtt_ns: sample
                .smoothed_rtt
                .map(|rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX)),
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
    send_note: Box<dyn Fn(Note) + Send + Sync>,
    /// Callback for the beginning of the window.
    begun: Option<Box<dyn Fn() + Send + Sync>>,
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
    /// begins. `local` is the address whose interface is counted; `begun` is called then.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started: without samples a trial would have no
    /// series, and levels that are those of its last moment.
    pub(crate) fn new(
        role: Role,
        local: IpAddr,
        interval: Duration,
        deadline: Duration,
        live: Arc<LiveCounters>,
        send_note: impl Fn(Note) + Send + Sync + 'static,
        begun: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> io::Result<Self> {
        let interface = interface_of(local).and_then(|name| InterfaceInfo::of(&name).ok());
        let name = interface.as_ref().map(|info| info.name.as_str());
        let link_header_bytes = interface.as_ref().map_or(0, |info| info.link_header_bytes);
        let flow = Flow {
            role,
            live,
            transfer: Arc::default(),
        };
        let subject = Subject::new();
        let sampler = Sampler::spawn(
            Instruments::open_for(name, subject.clone()),
            Box::new(flow.clone()),
            interval,
            role.name(),
            link_header_bytes,
            deadline,
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
            send_note: Box::new(send_note),
            begun,
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
                if let Some(begun) = &self.begun {
                    begun();
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
        (self.send_note)(note);
    }
}
