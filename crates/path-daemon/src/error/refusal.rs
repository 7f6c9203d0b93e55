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
    #[error("the kernel has no discipline `{0}`")]
    Discipline(&'static str),
    #[error(
        "not every kernel has the discipline `{0}`, or marks (`ecn`): Regatta's own emulator has them unless \
         `emulator = \"netem\"` asks for the kernel's"
    )]
    NotEverywhere(&'static str),
    #[error("netem changes no ECN field (`ecn_bleach`, `ecn_remark`, `ect_loss`)")]
    EcnField,
    #[error("a queue's discipline needs a link rate: without one no queue builds up")]
    DisciplineWithoutRate,
    #[error("a burst needs a link rate")]
    BurstWithoutRate,
    #[error("netem at the ends has {0}; it needs a discipline before netem, between the hosts")]
    Ends(&'static str),
}
