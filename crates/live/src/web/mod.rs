//! The web page of a run, on loopback: a page, its state as server-sent events, and the report of the trials done.
//!
//! Every address has a random token in it, so that other users of the machine and other pages of the browser cannot read
//! it; requests for another host name are refused, so that no name can be made to point here (DNS rebinding). The page
//! loads nothing from elsewhere, and its policy forbids it to.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Instant,
};

use futures_util::stream;
use hyper::{
    StatusCode,
    header::{self, HeaderValue},
};
use parking_lot::Mutex;
use regatta_model::is_same_secret;
use regatta_report::{RunData, Summary};
use serde::Serialize;

use crate::{
    http::{self, Body, Request, Response},
    model::Activity,
    shared::{Shared, Watching},
};

/// Policy of the page: its own script and style, and requests to its own origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Policy of the report: the script and the style in it, and no requests. It is a sandbox, without access to the page.
const REPORT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                             font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                             sandbox allow-scripts";

/// Media type of the page and of the report.
const HTML: &str = "text/html; charset=utf-8";

/// Media type of a style.
const CSS: &str = "text/css; charset=utf-8";

/// Multiple of the time that an answer takes for which it stays: a page costs a run at most this share of a core.
const PAUSE: u32 = 20;

/// Files of the page, with their media types.
const FILES: [(&str, &str, &str); 3] = [
    ("", HTML, include_str!("index.html")),
    (
        "live.js",
        "text/javascript; charset=utf-8",
        include_str!("live.js"),
    ),
    ("live.css", CSS, include_str!("live.css")),
];

/// Access control of the page: its address and its token.
#[derive(Debug, Clone)]
pub struct Access {
    address: SocketAddr,
    token: String,
}

impl Access {
    /// Makes a token for a page at an address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            token: format!("{:032x}", rand::random::<u128>()),
        }
    }

    /// Returns the address for a browser.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Whether a request has the token of the page.
    fn is_token(&self, token: &str) -> bool {
        is_same_secret(token.as_bytes(), self.token.as_bytes())
    }

    /// Whether the value of `Host` names this server.
    fn is_host(&self, host: &str) -> bool {
        host == self.address.to_string() || host == format!("localhost:{}", self.address.port())
    }
}

/// Answer and report of a state of a run.
#[derive(Default)]
struct Report {
    /// State from which they were made.
    state: ReportState,
    /// Answer as JSON.
    answer: Option<String>,
    /// Report, if it was asked for.
    text: Option<String>,
    /// Time until which an answer of an earlier state is good enough.
    until: Option<Instant>,
}

/// Number of trials done, and whether the run has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReportState {
    done: u32,
    is_last: bool,
}

/// Answer to the question of the run, from the trials done.
#[derive(Debug, Serialize)]
struct Answer {
    /// Number of trials in it.
    trials: usize,
    /// Sentences with code between backticks, the one over all first.
    sentences: Vec<String>,
}

impl Answer {
    /// Maximum number of sentences about single conditions.
    const MAX_CONDITIONS: usize = 4;

    /// Returns the answer as the report has it.
    fn of(data: &RunData, summary: &Summary) -> Self {
        let verdict = &summary.verdict;
        let conditions = verdict.conditions.iter().map(|it| &it.text);
        let sentences = (verdict.headline.iter()).chain(conditions.take(Self::MAX_CONDITIONS));
        Self {
            trials: data.trials.len(),
            sentences: sentences.cloned().collect(),
        }
    }
}

#[derive(Clone)]
struct Page {
    access: Access,
    shared: Arc<Shared>,
    report: Arc<Mutex<Report>>,
}

/// Serves the page until it is dropped.
pub fn serve(
    listener: TcpListener,
    access: Access,
    shared: &Arc<Shared>,
) -> impl Future<Output = ()> + use<> {
    let page = Page {
        access,
        shared: Arc::clone(shared),
        report: Arc::default(),
    };
    http::serve(listener, move |request| answer(page.clone(), request))
}

/// Refuses other hosts and other sites, and sets the headers of every response.
async fn answer(page: Page, request: Request) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // A request of another form may name another host than its header.
    let named = request.uri().authority().map(|it| it.as_str());
    let mut named = text(header::HOST).into_iter().chain(named);
    let is_host = text(header::HOST).is_some() && named.all(|it| page.access.is_host(it));
    let fetch_site = text(header::HeaderName::from_static("sec-fetch-site"));
    let is_same_site = fetch_site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let mut response = match is_host && is_same_site {
        true => page.respond(request.uri().path()).await,
        false => http::text(
            StatusCode::FORBIDDEN,
            "this page is for the browser of this machine\n",
        ),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        let header = headers.entry(name);
        header.or_insert(HeaderValue::from_static(value));
    }
    response
}

impl Page {
    async fn respond(self, path: &str) -> Response {
        let path = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some(name) = path.and_then(|(token, name)| self.access.is_token(token).then_some(name))
        else {
            return http::not_found();
        };
        if let Some((_, content_type, text)) = FILES.iter().find(|(file, ..)| *file == name) {
            let body = Body::Text(Some((*text).into()));
            return http::response(StatusCode::OK, content_type, body);
        }
        match name {
            "palette.css" => {
                let body = Body::Text(Some(regatta_report::html::palette().into()));
                http::response(StatusCode::OK, CSS, body)
            }
            "events" => events(&self.shared),
            "answer" => answer_so_far(self).await,
            "report" => report(self).await,
            "received" => {
                self.shared.pages.receive();
                http::text(StatusCode::OK, "")
            }
            _ => http::not_found(),
        }
    }
}

/// Sends the state and its changes as server-sent events. A browser that is slow skips states.
fn events(shared: &Arc<Shared>) -> Response {
    let readers = (Watching::new(shared), shared.pages.open());
    let changes = stream::unfold(
        (shared.updates(), readers),
        |(mut updates, readers)| async move {
            let line = updates.next().await?;
            // JSON of one line.
            let event = format!("event: {}\ndata: {}\n\n", line.part, line.json);
            Some((event, (updates, readers)))
        },
    );
    let body = Body::Stream(Box::pin(changes));
    http::response(StatusCode::OK, "text/event-stream", body)
}

/// Returns the answer so far as JSON.
async fn answer_so_far(page: Page) -> Response {
    made(
        page,
        false,
        |report| report.answer.clone(),
        |body, _| http::response(StatusCode::OK, "application/json", body),
    )
    .await
}

/// Returns the report of the trials done. The browser keeps the one of a run that has ended, as the server ends with it.
async fn report(page: Page) -> Response {
    made(
        page,
        true,
        |report| report.text.clone(),
        |body, state| {
            let mut response = http::response(StatusCode::OK, HTML, body);
            let headers = response.headers_mut();
            let policy = HeaderValue::from_static(REPORT_POLICY);
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
            if state.is_last {
                let cached = HeaderValue::from_static("private, max-age=86400, immutable");
                headers.insert(header::CACHE_CONTROL, cached);
            }
            response
        },
    )
    .await
}

/// Returns a part of the report of the trials done, a cached one if no trial has ended since.
async fn made(
    page: Page,
    with_text: bool,
    part: fn(&Report) -> Option<String>,
    respond: impl FnOnce(Body, ReportState) -> Response,
) -> Response {
    let _request = page.shared.pages.request();
    let now = page.shared.run().now.clone();
    let state = ReportState {
        done: now.done,
        is_last: matches!(now.activity, Activity::Ended { .. }),
    };
    let result = tokio::task::spawn_blocking(move || {
        // Concurrent requests make one report.
        let mut report = page.report.lock();
        report.make(&page.shared, state, with_text)?;
        Ok(part(&report))
    });
    match result.await {
        Ok(Ok(text)) => {
            let text = text.unwrap_or_default();
            respond(Body::Text(Some(text.into())), state)
        }
        Ok(Err(error)) => {
            let error: String = error;
            http::text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("there is no report yet: {error}\n"),
            )
        }
        Err(_) => http::text(StatusCode::INTERNAL_SERVER_ERROR, ""),
    }
}

impl Report {
    /// Makes the answer of a state, and the report if it is wanted, unless they are there. That of the last state is
    /// always made: it is asked for next.
    fn make(&mut self, shared: &Shared, state: ReportState, with_text: bool) -> Result<(), String> {
        let with_text = with_text || state.is_last;
        let is_same = self.state == state;
        let is_recent = !state.is_last && self.until.is_some_and(|until| Instant::now() < until);
        let is_there = match with_text {
            true => is_same && self.text.is_some(),
            false => self.answer.is_some() && (is_same || is_recent),
        };
        if is_there {
            return Ok(());
        }
        let began = Instant::now();
        let data = shared.load()?;
        let summary = regatta_report::summarise(&data);
        let text = with_text.then(|| regatta_report::html::render(&data, &summary));
        let answer = serde_json::to_string(&Answer::of(&data, &summary));
        *self = Self {
            state,
            answer: Some(answer.map_err(|error| error.to_string())?),
            text: text.transpose().map_err(|error| error.to_string())?,
            until: Some(Instant::now() + PAUSE * began.elapsed()),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
