//! Reasons for which netem cannot emulate a condition.

/// Settings of a link that netem cannot emulate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each is what its message says")]
pub enum Refusal {
    #[error("netem cannot lose packets by a list of their positions")]
    LossList,
    #[error("netem has no traces of deliveries")]
    Trace,
    #[error("a link rate of `{0} bit/s` is below the byte per second that the kernel counts in")]
    Rate(u64),
    #[error(
        "netem draws the jitter of each packet by itself and cannot have it change in time; \
         `jitter_reorders = true` is its way, or `jitter_correlation = \"0s\"` to keep the order"
    )]
    JitterInTime,
    #[error("netem counts IP packets here, and not the frames of an Ethernet")]
    RateOf,
    #[error("netem cannot have a jitter of more than 2.147 s")]
    Jitter,
    #[error("a queue of more than 4 GiB is more than the kernel counts")]
    Queue,
    #[error("of the disciplines, this bed's kernel queues have drop-tail and CoDel, and not `{0}`")]
    Discipline(&'static str),
    #[error("the queueing disciplines of this bed mark no packets (`ecn`)")]
    Ecn,
    #[error("CoDel needs a link rate: without one no queue builds up")]
    CodelWithoutRate,
    #[error("a burst needs a link rate")]
    BurstWithoutRate,
    #[error("netem at the ends has {0}; it needs a discipline before netem, between the hosts")]
    Ends(&'static str),
}
