//! Published figures of the built-in studies.

use regatta_model::{
    Published, Study, WorkloadKind,
    metric::id,
    study::{BUILTIN, builtin},
};

fn study(name: &str) -> Study {
    let text = builtin(name).expect("a built-in study").text;
    Study::parse(text, name).expect("a sound study")
}

/// Returns the published figures of one metric.
fn of_metric<'a>(study: &'a Study, metric: &str) -> Vec<&'a Published> {
    let all = study.published.iter();
    all.filter(|figure| figure.metric == metric).collect()
}

/// Time, messages and bytes of both ends, of five ways to send two volumes in three sizes.
#[test]
fn buffer_size_has_all_150_published_numbers() {
    let study = study("buffer-size");
    let metrics = [
        id::TRANSFER_TIME_NS,
        id::MESSAGES_SENT,
        id::BYTES_SENT,
        id::MESSAGES_DELIVERED,
        id::BYTES_DELIVERED,
    ];
    assert_eq!(metrics.map(|it| of_metric(&study, it).len()), [30; 5]);
    assert_eq!(study.published.len(), 150);
}

/// 500 MB and 1 GB are one number of bytes each, except where a figure says by a note that it contradicts another one.
#[test]
fn messages_that_contradict_their_bytes_have_a_note() {
    let study = study("buffer-size");
    let value = |of: &Published, metric: &str| {
        let same = |it: &&&Published| it.transport == of.transport && it.workload == of.workload;
        let found = of_metric(&study, metric);
        *found
            .iter()
            .find(same)
            .expect("a figure of the same transfer")
    };
    for bytes in of_metric(&study, id::BYTES_SENT) {
        let messages = value(bytes, id::MESSAGES_SENT);
        let workload = bytes.workload.as_deref().expect("a workload");
        let size = workload
            .rsplit(' ')
            .nth(1)
            .and_then(|it| it.parse::<f64>().ok());
        let size = size.expect("a size of messages");
        // A shorter last message is none.
        let has_all = (messages.value * size - bytes.value).abs() <= size
            && messages.value * size >= bytes.value;
        let delivered = value(bytes, id::BYTES_DELIVERED);
        let noted = [bytes, messages, delivered]
            .iter()
            .any(|it| it.note.is_some());
        assert!(has_all || noted, "{} with {workload}", bytes.transport);
    }
}

/// The text finished 33 of its 40 transfers; 22 of these lost nothing.
#[test]
fn message_size_has_all_published_times_and_losses() {
    let study = study("message-size");
    assert_eq!(of_metric(&study, id::TRANSFER_TIME_NS).len(), 33);
    let losses = of_metric(&study, id::MESSAGE_LOSS_RATIO);
    assert_eq!(losses.len(), 33);
    assert_eq!(losses.iter().filter(|it| it.value == 0.0).count(), 22);
}

/// Of TCP and QUIC the largest messages have 65535 bytes, of UDP 65507.
#[test]
fn the_largest_published_messages_stand_beside_their_size() {
    for name in ["message-size", "message-size-short"] {
        for figure in study(name).published {
            let workload = figure.workload.expect("a workload");
            let other = if figure.transport == "udp" {
                "65535"
            } else {
                "65507"
            };
            assert!(
                !workload.contains(other),
                "{} with {workload}",
                figure.transport
            );
        }
    }
}

/// Otherwise a fast transport is done before the last steps, and the transports are compared over different paths.
#[test]
fn no_transfer_over_a_changing_path_ends_at_its_rate_before_the_last_step() {
    for name in BUILTIN.iter().map(|it| it.name) {
        let study = study(name);
        for condition in &study.conditions {
            let (Some(last), Some(rate)) = (condition.schedule.last(), condition.forward.rate)
            else {
                continue;
            };
            let works = study.workloads.iter();
            for workload in works.filter(|it| it.is_under(&condition.name)) {
                if let WorkloadKind::Bulk { amount, .. } = &workload.kind {
                    let by_size = amount.bytes().0 as f64 * 8.0 / rate.0 as f64;
                    let shortest = amount.time().map_or(by_size, |it| it.as_secs_f64());
                    assert!(
                        shortest > last.at.as_secs_f64(),
                        "{name}: {}",
                        workload.name
                    );
                }
            }
        }
    }
}

/// The text says it of every size but 1 MB, which lost none of its packets.
#[test]
fn the_published_rate_of_udpr_under_loss_stands_beside_no_megabyte() {
    for name in ["udpr", "udpr-messages"] {
        let study = study(name);
        assert!(!study.published.is_empty());
        for figure in study.published {
            let workload = figure.workload.expect("a workload");
            assert!(!workload.ends_with("size 1 MB"), "{workload}");
        }
    }
}

/// The text says of no CPU load of which end it is, or of the sending one alone; the metric counts another part.
#[test]
fn each_published_cpu_load_says_what_it_is_of() {
    for name in BUILTIN.iter().map(|it| it.name) {
        for figure in study(name).published {
            let is_cpu = figure.metric.contains("cpu") || figure.metric.contains("core");
            let note = figure.note.unwrap_or_default();
            assert!(
                !is_cpu || note.contains(" of "),
                "{name}: {}",
                figure.transport
            );
        }
    }
}

/// The author of a publication finds each of its statements, with an outcome or with the reason why none can be seen.
#[test]
fn every_study_of_a_publication_has_its_claims() {
    let examples = [
        "page-load",
        "video-segments",
        "rpc-mix",
        "queue-disciplines",
        "rfc9743",
    ];
    for name in BUILTIN.iter().map(|it| it.name) {
        let study = study(name);
        if examples.contains(&name) {
            assert!(study.source.is_none(), "{name}");
            continue;
        }
        assert!(study.source.is_some(), "{name}");
        assert!(study.claims.len() >= 2, "{name}: {}", study.claims.len());
        assert!(study.claims.iter().all(|it| it.place.is_some()), "{name}");
    }
}
