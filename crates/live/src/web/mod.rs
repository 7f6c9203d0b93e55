//! The web page of a run, on loopback: a page, its state as server-sent events, and the report of the trials done.
//!
//! Every address has a random token in it, so that other users of the machine and other pages of the browser cannot read
//! it; requests for another host name are refused, so that no name can be made to point here (DNS rebinding). The page
//! loads nothing from elsewhere, and its policy forbids it to.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::get,
};
use futures_util::stream;
use parking_lot::Mutex;

use crate::shared::{Shared, Watching};

/// Policy of the page: its own script and style, and requests to its own origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Policy of the report: the script and the style in it, and no requests. It is a sandbox, without access to the page.
const REPORT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                             font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                             sandbox allow-scripts";

/// Files of the page, with their kinds.
const FILES: [(&str, &str, &str); 3] = [
    ("", "text/html", include_str!("index.html")),
    ("live.js", "text/javascript", include_str!("live.js")),
    ("live.css", "text/css", include_str!("live.css")),
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

    /// Whether the value of `Host` names this server.
    fn is_host(&self, host: &str) -> bool {
        host == self.address.to_string() || host == format!("localhost:{}", self.address.port())
    }
}

/// Report of the state of a run.
#[derive(Default)]
struct Report {
    /// Number of trials in the text.
    done: u32,
    text: Option<String>,
}

#[derive(Clone)]
struct Page {
    shared: Arc<Shared>,
    report: Arc<Mutex<Report>>,
}

/// Returns the pages.
pub fn router(access: Access, shared: &Arc<Shared>) -> Router {
    let page = Page {
        shared: Arc::clone(shared),
        report: Arc::default(),
    };
    let path = |name: &str| format!("/{}/{name}", access.token);
    let mut router = Router::new();
    for (name, kind, text) in FILES {
        let headers = [(header::CONTENT_TYPE, format!("{kind}; charset=utf-8"))];
        router = router.route(&path(name), get((headers, text)));
    }
    router
        .route(&path("events"), get(events))
        .route(&path("report"), get(report))
        .with_state(page)
        .layer(middleware::from_fn_with_state(access, guard))
}

/// Refuses other hosts and other sites, and sets the headers of every response.
async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_host = text(header::HOST).is_some_and(|host| access.is_host(host));
    let fetch_site = text(header::HeaderName::from_static("sec-fetch-site"));
    let is_same_site = fetch_site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let mut response = match is_host && is_same_site {
        true => next.run(request).await,
        false => (
            StatusCode::FORBIDDEN,
            "this page is for the browser of this machine\n",
        )
            .into_response(),
    };
    let headers = response.headers_mut();
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(POLICY));
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Sends the state and its changes. A browser that is slow skips states.
async fn events(State(page): State<Page>) -> impl IntoResponse {
    let watching = Watching::new(&page.shared);
    let updates = page.shared.updates();
    let changes = stream::unfold((updates, watching), |(mut updates, watching)| async move {
        let line = updates.next().await?;
        let event = Event::default().event(line.part).data(&*line.json);
        Some((Ok::<_, Infallible>(event), (updates, watching)))
    });
    Sse::new(changes)
}

/// Returns the report of the trials done, a cached one if no trial has ended since.
async fn report(State(page): State<Page>) -> Response {
    let done = page.shared.run().now.done;
    let result = tokio::task::spawn_blocking(move || make_report(&page, done)).await;
    match result {
        Ok(Ok(text)) => (
            [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CONTENT_SECURITY_POLICY, REPORT_POLICY),
            ],
            text,
        )
            .into_response(),
        Ok(Err(error)) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("there is no report yet: {error}\n"),
        )
            .into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn make_report(page: &Page, done: u32) -> Result<String, String> {
    // Concurrent requests make one report.
    let mut cached = page.report.lock();
    if let (Some(text), true) = (&cached.text, cached.done == done) {
        return Ok(text.clone());
    }
    let data = page.shared.load()?;
    let summary = regatta_report::summarise(&data);
    let text = regatta_report::html::render(&data, &summary).map_err(|it| it.to_string())?;
    *cached = Report {
        done,
        text: Some(text.clone()),
    };
    Ok(text)
}

#[cfg(test)]
mod tests;
