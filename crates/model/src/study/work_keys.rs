//! Keys of workloads and of their probe: one row for each, of which the reader of studies, the options of the command
//! line, their help and the tables of `docs/workloads.md` are made.

use super::{
    key::KeyKind,
    value_key::{Field, ValueKey},
};
use crate::workload::{Arrivals, Probe, WorkloadKind};

/// Bounds of the size of a whole transfer, in bytes.
const TRANSFER: [u64; 2] = [1, 1 << 50];

/// Bounds of the size of a message, in bytes: both ends hold a whole message in memory.
const MESSAGE: [u64; 2] = [1, 64 << 20];

/// Bounds of the size of a message of the small exchanges, in bytes.
const EXCHANGE: [u64; 2] = [1, 16 << 20];

/// Bounds of the size of a probe message, in bytes: its header, and one packet.
const PROBE: [u64; 2] = [16, 1200];

/// Numbers of concurrent connections, streams and requests: each costs memory at both ends.
const AT_ONCE: KeyKind = KeyKind::Number {
    least: 1,
    most: 1024,
};

/// Numbers of requests and messages of one trial: each leaves a value in memory.
const EXCHANGES: KeyKind = KeyKind::Number {
    least: 1,
    most: 10_000_000,
};

const PER_SECOND: KeyKind = KeyKind::Number {
    least: 1,
    most: 10_000_000,
};

/// Returns a function that finds the field of a key in the workloads that have it.
macro_rules! field {
    ($($($variant:ident)|+ { $field:ident } => $value:expr),+) => {
        |kind| match kind {
            $($(WorkloadKind::$variant { $field, .. })|+ => Some($value),)+
            _ => None,
        }
    };
}

/// Defines keys, one entry each: name, values, example, field; help, cells of the table of documents, and the
/// key beside which it cannot be given.
macro_rules! keys {
    ($($name:literal $kind:expr, $example:literal, $field:expr;
        $help:literal, $doc:literal $(, instead of $other:literal)?;)*) => {
        &[$(ValueKey {
            name: $name,
            kind: $kind,
            example: $example,
            help: $help,
            doc: $doc,
            instead_of: [$(Some($other),)? None][0],
            field: $field,
        }),*]
    };
}

/// Keys of workloads, in the order of help and of `docs/workloads.md`, in which they are read.
pub const WORKLOAD_KEYS: &[ValueKey<WorkloadKind>] = keys! {
    "size" KeyKind::Size, "10MB",
        |kind| match kind {
            WorkloadKind::Bulk { amount, .. } => Some(Field::Amount(amount, TRANSFER)),
            WorkloadKind::StopAndWait { size, .. } => Some(Field::Size(size, TRANSFER)),
            _ => None,
        };
        "Bytes of one transfer, from the client to the server unless `--direction` says otherwise; several, as in `1MB,50MB`, are a workload each [default without a STUDY: 10MB]",
        "`10MB` | bytes to send in total: from the client to the server, unless the key `direction` of `bulk` says otherwise";
    "duration" KeyKind::Time, "10s", field!(Bulk { amount } => Field::AmountOfTime(amount));
        "Time to send for, instead of a size",
        "not set | time to send for from the first connect call, or from its arrival where the listening host sends; instead of `size`",
        instead of "size";
    "message" KeyKind::Size, "10kB",
        field!(
            Bulk | StopAndWait { message } => Field::Size(message, MESSAGE),
            MultiStream { message } => Field::Size(message, EXCHANGE)
        );
        "Bytes of one message: of a write over streams, of a datagram over messages [default without a STUDY: 10kB]",
        "`10kB` | size of a message, from 1 byte: of a write over streams, of a datagram over messages";
    "pattern" KeyKind::Enum("CONTENT", &["data", "zeros", "random", "file"]), "random",
        field!(Bulk | StopAndWait { pattern } => Field::NamedValue(pattern));
        "Content: `data` (the text DATA repeated), `zeros`, `random` or `file`, white noise from a file [default: data]",
        "`data` | content: `data` (the text DATA repeated), `zeros`, `random` (from the trial's seed), `file`";
    "direction" KeyKind::Enum("DIRECTION", &["forward", "reverse", "both"]), "reverse",
        field!(Bulk { options } => Field::NamedValue(&mut options.direction));
        "Host that sends: the client (`forward`), the server (`reverse`, a download) or `both` at once [default: forward]",
        "`forward` | `forward`: the client sends, which connects; `reverse`: the server, which listens, so that the transfer is a download; `both`: both send at once, each its `size`";
    "flows" AT_ONCE, "4", field!(Bulk { options } => Field::Number(&mut options.flows));
        "Number of simultaneous connections, which share the size [default: 1]",
        "1 | number of simultaneous connections, which share the size; with `both` each direction has that many";
    "warm_up" KeyKind::Time, "1s", field!(Bulk { options } => Field::Time(&mut options.warm_up));
        "Time at the beginning that goodput and CPU time leave out [default: none]",
        "not set | time at the beginning that goodput and CPU time leave out";
    "opening" KeyKind::Enum("KIND", &["with-data", "answered"]), "answered",
        field!(Bulk { options } => Field::NamedValue(&mut options.opening));
        "Opening of a transfer: data leaves `with-data`, or when the receiver has `answered` [default: with-data]",
        "`with-data` | `answered`: data leaves a round trip later, when the receiver has answered the opening, as an application with an opening exchange of its own has it; transports of messages always wait for that answer";
    "finish" KeyKind::Enum("END", &["agree", "abandon"]), "agree",
        field!(Bulk { options } => Field::NamedValue(&mut options.finish));
        "End of a transfer: when all was acknowledged (`agree`), or when the last message was handed over (`abandon`) [default: agree]",
        "`agree` | `abandon`: close as soon as the last message is handed over";
    "verify" KeyKind::Enum("METHOD", &["ends", "digest", "none"]), "digest",
        field!(Bulk { options } => Field::NamedValue(&mut options.verify));
        "Check of the content: the `ends` of each piece, a `digest` of every byte, which costs CPU time, or `none`: bytes are counted, and TCP discards them without a copy [default: ends]",
        "`ends` | `digest`: compare a CRC-32 of every byte at both ends, which costs CPU time; `none`: count bytes, which `tcp` then discards without a copy (`MSG_TRUNC`)";
    "timeout" KeyKind::Time, "1s", field!(StopAndWait { timeout } => Field::Time(timeout));
        "Wait for the acknowledgement of a message that a transport may lose [default: 1s]",
        "`1s` | wait for an acknowledgement, over a transport that can lose messages";
    "requests" EXCHANGES, "1000", field!(RequestResponse { requests } => Field::Number(requests));
        "Number of requests [default: 1000]",
        "1000 | number of requests";
    "connections" KeyKind::Number { least: 1, most: 1_000_000 }, "20",
        field!(ShortConnections { connections } => Field::Number(connections));
        "Number of connections, one after another [default: 20]",
        "20 | number of connections that are measured";
    "handshake" KeyKind::Enum("KIND", &["full", "resumed", "0-rtt", "retry"]), "resumed",
        field!(ShortConnections { handshake } => Field::NamedValue(handshake));
        "Handshake of the connections: `full`, `resumed`, `0-rtt` or `retry` [default: full]",
        "`full` | handshake of the connections: `full`, `resumed`, `0-rtt`, `retry`";
    "request" KeyKind::Size, "100B",
        field!(RequestResponse | ShortConnections { request } => Field::Size(request, EXCHANGE));
        "Bytes of a request [default: 100B]",
        "`100B` | size of a request";
    "response" KeyKind::Size, "1kB",
        field!(RequestResponse | ShortConnections { response } => Field::Size(response, EXCHANGE));
        "Bytes of a response [default: 1kB]",
        "`1kB` | size of a response";
    "outstanding" AT_ONCE, "4",
        field!(RequestResponse { arrivals } => Field::Arrivals(arrivals, |number| Arrivals::Closed { outstanding: number as u32 }));
        "Requests that are outstanding at any time [default: 1]",
        "1 | closed loop: this many requests are outstanding at any time. Ranked by requests per second";
    "requests_per_second" PER_SECOND, "100",
        field!(RequestResponse { arrivals } => Field::Arrivals(arrivals, |number| Arrivals::Open { requests_per_second: number as f64 }));
        "Rate of the requests, whether or not earlier ones were answered, instead of a number of outstanding ones",
        "not set | open loop, instead of `outstanding`: requests leave by schedule, whether or not earlier ones were answered. Delay counts from the schedule, so that waiting at the sender is included. Ranked by the 95th percentile",
        instead of "outstanding";
    "messages" EXCHANGES, "500", field!(MultiStream { messages } => Field::Number(messages));
        "Number of independent messages [default: 500]",
        "500 | number of messages";
    "messages_per_second" PER_SECOND, "100",
        field!(MultiStream { messages_per_second } => Field::Number(messages_per_second));
        "Rate of the messages, of all streams together [default: 100]",
        "100 | rate of the messages, of all streams together";
    "streams" AT_ONCE, "8", field!(MultiStream { streams } => Field::Number(streams));
        "Number of streams that the messages are spread over [default: 8]",
        "8 | number of streams";
    "spread" KeyKind::Enum("UNIT", &["streams", "connections", "either"]), "connections",
        |kind| match kind {
            WorkloadKind::MultiStream { spread, .. } => Some(Field::NamedValue(spread)),
            WorkloadKind::Script(script) => Some(Field::NamedValue(&mut script.spread)),
            _ => None,
        };
        "Whether the streams are `streams` of one connection, or as many `connections`, or `either`: streams where the transport has several [default: streams; of a script either]",
        "`streams`, of `script` `either` | `connections`: as many connections instead of streams of one; `either`: streams where the transport has several of them on one connection, else connections, as a browser does it";
};

/// Keys of the probe, in the order of `docs/workloads.md`.
pub const PROBE_KEYS: &[ValueKey<Probe>] = keys! {
    "idle_messages" KeyKind::Number { least: 0, most: 100_000 }, "8",
        |probe: &mut Probe| Some(Field::Number(&mut probe.idle_messages));
        "",
        "8 | probe messages before the transfer";
    "under_load" KeyKind::Flag, "false", |probe: &mut Probe| Some(Field::Flag(&mut probe.under_load));
        "",
        "true | whether to send probe messages beside the transfer";
    "interval" KeyKind::Time, "20ms", |probe: &mut Probe| Some(Field::Time(&mut probe.interval));
        "",
        "20 ms | interval of the probe messages beside the transfer";
    "message" KeyKind::Size, "64B", |probe: &mut Probe| Some(Field::Size(&mut probe.message, PROBE));
        "",
        "64 bytes | size of a probe message";
    "placement" KeyKind::Enum("PLACEMENT", &["connection", "stream"]), "stream",
        |probe: &mut Probe| Some(Field::NamedValue(&mut probe.placement));
        "",
        "`connection` | what carries the probe beside the transfer: `connection` or `stream`";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        named::Named,
        workload::{
            Direction, Finish, Handshake, Opening, Pattern, ProbePlacement, Spread, Verify,
        },
    };

    #[test]
    fn values_of_enum_keys_match_their_types() {
        fn of_type<T: Named>() -> Vec<&'static str> {
            T::NAMES.iter().map(|(name, _)| *name).collect()
        }
        let of_keys = |name: &str| {
            let kinds = WORKLOAD_KEYS.iter().map(|key| (key.name, key.kind));
            let all = kinds.chain(PROBE_KEYS.iter().map(|key| (key.name, key.kind)));
            let mut found = all.filter(|(known, _)| *known == name);
            match found.next() {
                Some((_, KeyKind::Enum(_, names))) => names.to_vec(),
                other => panic!("{name}: {other:?}"),
            }
        };
        assert_eq!(of_keys("pattern"), of_type::<Pattern>());
        assert_eq!(of_keys("direction"), of_type::<Direction>());
        assert_eq!(of_keys("opening"), of_type::<Opening>());
        assert_eq!(of_keys("finish"), of_type::<Finish>());
        assert_eq!(of_keys("verify"), of_type::<Verify>());
        assert_eq!(of_keys("handshake"), of_type::<Handshake>());
        assert_eq!(of_keys("spread"), of_type::<Spread>());
        assert_eq!(of_keys("placement"), of_type::<ProbePlacement>());
    }
}
