//! Admission of flows over streams at the listening end, and answers to those of the probes.

use std::time::Duration;

use super::{Trial, stream_probe::echo};
use crate::{
    clock::MonotonicTime,
    context::WindowEdge,
    driver::TransportError,
    executor::Executor as _,
    opening::{self, OPENING_BYTES, Purpose},
    stop::Stop,
    stream::{Accepted, ByteStream, StreamConnection, StreamEndpoint, read_exact},
};

/// Longest time that a flow may take to send its opening: some retransmissions of a lossy path.
const OPENING_TIME: Duration = Duration::from_secs(5);

/// A flow that has shown this trial's token.
pub(crate) struct Admitted<E: StreamEndpoint> {
    pub purpose: Purpose,
    pub connection: E::Connection,
    pub stream: <E::Connection as StreamConnection>::Stream,
    /// Bytes that came right after the opening.
    pub rest: Vec<u8>,
    pub arrived: MonotonicTime,
    pub stop: Stop,
}

/// Reads a stream's opening: its purpose, or `None` if it has none of this trial, and what came
/// after it.
pub(crate) async fn read_opening<S: ByteStream>(
    trial: &Trial,
    stream: &mut S,
) -> Result<(Option<Purpose>, Vec<u8>), TransportError> {
    let until = MonotonicTime::now() + OPENING_TIME + trial.probe.longest_round_trip;
    let mut rest = Vec::with_capacity(OPENING_BYTES);
    match read_exact::<OPENING_BYTES, S>(stream, &mut rest, until).await {
        Ok(bytes) => Ok((opening::decode(&bytes, trial.token), rest)),
        Err(TransportError::Closed { .. }) => Ok((None, Vec::new())),
        Err(error) => Err(error),
    }
}

/// Waits for a connection whose first stream shows this trial's token; refuses others. The flow may
/// be the transfer's, so the window is opened.
pub(crate) async fn admit<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
) -> Result<Admitted<E>, TransportError> {
    let open_window = || trial.context.observer.on_window(WindowEdge::Start);
    admit_with(trial, endpoint, until, refused, &open_window).await
}

/// Does what [`admit`] does, for a connection after the transfer's first one: the window is open
/// already.
pub(crate) async fn admit_further<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
) -> Result<Admitted<E>, TransportError> {
    admit_with(trial, endpoint, until, refused, &|| {}).await
}

async fn admit_with<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
    open_window: &(impl Fn() + Sync),
) -> Result<Admitted<E>, TransportError> {
    loop {
        let stop = trial.stop.child();
        let mut arrived = MonotonicTime::now();
        let accepted = endpoint
            .accept(until, &stop, &mut || {
                // This may be the transfer; the last call before it counts.
                open_window();
                arrived = MonotonicTime::now();
            })
            .await?;
        let Accepted::Connection(connection) = accepted else {
            *refused += 1;
            continue;
        };
        let opened = async {
            let within = MonotonicTime::now() + OPENING_TIME + trial.probe.longest_round_trip;
            let mut stream = connection.accept_stream(within).await?;
            let (purpose, rest) = read_opening(trial, &mut stream).await?;
            Ok::<_, TransportError>((stream, purpose, rest))
        };
        match opened.await {
            Ok((stream, Some(purpose), rest)) => {
                return Ok(Admitted {
                    purpose,
                    connection,
                    stream,
                    rest,
                    arrived,
                    stop,
                });
            }
            Err(error) if trial.stop.is_stopped() => return Err(error),
            Ok((_, None, _)) | Err(_) => *refused += 1,
        }
    }
}

/// Admits flows until the transfer's comes; the idle probe is answered meanwhile.
pub(crate) async fn admit_until_transfer<E: StreamEndpoint>(
    trial: &Trial,
    endpoint: &E,
    until: MonotonicTime,
    refused: &mut u64,
) -> Result<(Option<Admitted<E>>, Admitted<E>), TransportError> {
    let mut load = None;
    let mut idle: Option<Admitted<E>> = None;
    loop {
        let next = match idle.take() {
            None => admit(trial, endpoint, until, refused).await,
            Some(mut idle) => {
                let (refused, idle_stop) = (&mut *refused, idle.stop.clone());
                let (stream, rest) = (&mut idle.stream, std::mem::take(&mut idle.rest));
                // The next flow is admitted even if the end of the idle probe's is under way
                // still: its last packet may be lost and come again much later.
                let (next, ()) = endpoint
                    .executor()
                    .join(
                        move || async move {
                            let next = admit(trial, endpoint, until, refused).await;
                            idle_stop.stop();
                            next
                        },
                        move || async move { echo(stream, rest).await },
                    )
                    .await;
                next
            }
        }?;
        match next.purpose {
            Purpose::IdleProbe => idle = Some(next),
            Purpose::LoadProbe => load = Some(next),
            Purpose::Transfer => return Ok((load, next)),
        }
    }
}

/// Waits as long as the sender of the probe under load waits for its last answers, or until
/// `echoed`, a child of the session's stop, is raised.
pub(crate) async fn last_answers<E: StreamEndpoint>(trial: &Trial, endpoint: &E, echoed: &Stop) {
    let until = MonotonicTime::now() + trial.probe.last_answers_within();
    endpoint
        .executor()
        .sleep_unless_stopped(until, echoed)
        .await;
}

/// Accepts the load probe's stream on the transfer's connection and sends its messages back.
pub(crate) async fn echo_on<C: StreamConnection>(
    trial: &Trial,
    connection: &C,
    until: MonotonicTime,
) {
    let Ok(mut stream) = connection.accept_stream(until).await else {
        return;
    };
    if let Ok((Some(Purpose::LoadProbe), rest)) = read_opening(trial, &mut stream).await {
        echo(&mut stream, rest).await;
    }
}
