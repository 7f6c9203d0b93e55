//! Prints the capabilities of this machine, the facts about it, and the cost of taking a sample.

use std::time::Duration;

use regatta_telemetry::{
    FlowSample, FlowSource, Gauges, Instruments, Reading, Sampler, capabilities, host_facts,
    monotonic_ns,
    process::{ProcessCpu, thread_cpu_ns},
};

struct NoFlow;

impl FlowSource for NoFlow {
    fn sample(&mut self, _: &Reading) -> FlowSample {
        FlowSample::default()
    }
}

/// Returns the CPU time of one call, in microseconds, mean of many.
fn cost(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 2000;
    let start = thread_cpu_ns();
    for _ in 0..CALLS {
        call();
    }
    (thread_cpu_ns() - start) as f64 / f64::from(CALLS) / 1e3
}

fn main() -> std::io::Result<()> {
    for capability in capabilities() {
        let mark = if capability.available { "yes" } else { "no " };
        println!("{mark} {}: {}", capability.name, capability.detail);
        if !capability.hint.is_empty() {
            println!("    {}", capability.hint);
        }
    }
    for (name, value) in host_facts().0 {
        println!("{name} = {value}");
    }
    let mut instruments = Instruments::open(Some("lo"));
    println!(
        "sample: {:.1} µs",
        cost(|| assert!(instruments.read().monotonic_ns > 0))
    );
    println!(
        "edge: {:.1} µs",
        cost(|| assert!(instruments.read_start().monotonic_ns > 0))
    );

    let (interval, seconds) = (Duration::from_millis(100), 5);
    let sampler = Sampler::spawn(
        Instruments::open(Some("lo")),
        Box::new(NoFlow),
        interval,
        "sender",
        0,
        Duration::from_secs(seconds),
    )?;
    let start = instruments.read_start();
    sampler.begin(start);
    std::thread::sleep(Duration::from_secs(seconds));
    let used = ProcessCpu::now().since(start.process).total_ns;
    sampler.end(instruments.read_end(), FlowSample::default());
    let elapsed = monotonic_ns() - start.monotonic_ns;
    println!(
        "sampling at 100 ms uses {:.4} % of a core",
        used as f64 / elapsed as f64 * 100.0
    );
    for series in sampler.finish() {
        if series.name == "cpu_ratio" {
            let late: Vec<i64> = series
                .t_ns
                .iter()
                .map(|t| (t - start.monotonic_ns) % 100_000_000 / 1000)
                .collect();
            println!("{} samples; late by (µs): {late:?}", late.len());
        }
    }
    Ok(())
}
