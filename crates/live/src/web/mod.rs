//! The web page of a run, on loopback: a page, its state as server-sent events, and the report of the trials done.
//!
//! Every address has a random token in it, so that other users of the machine and other pages of the browser cannot read
//! it; requests for another host name are refused, so that no name can be made to point here (DNS rebinding). The page
//! loads nothing from elsewhere, and its policy forbids it to.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use futures_util::stream;
use hyper::{
    StatusCode,
    header::{self, HeaderValue},
};
use parking_lot::Mutex;

use crate::{
    http::{self, Body, Request, Response},
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

/// Files of the page, with their media types.
const FILES: [(&str, &str, &str); 3] = [
    ("", HTML, include_str!("index.html")),
    (
        "live.js",
        "text/javascript; charset=utf-8",
        include_str!("live.js"),
    ),
    (
        "live.css",
        "text/css; charset=utf-8",
        include_str!("live.css"),
    ),
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
    let is_host = text(header::HOST).is_some_and(|host| page.access.is_host(host));
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

impl Page {
    async fn respond(self, path: &str) -> Response {
        let path = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some(name) =
            path.and_then(|(token, name)| (token == self.access.token).then_some(name))
        else {
            return http::not_found();
        };
        if let Some((_, content_type, text)) = FILES.iter().find(|(file, ..)| *file == name) {
            let body = Body::Text(Some((*text).into()));
            return http::response(StatusCode::OK, content_type, body);
        }
        match name {
            "events" => events(&self.shared),
            "report" => report(self).await,
            _ => http::not_found(),
        }
    }
}

/// Sends the state and its changes as server-sent events. A browser that is slow skips states.
fn events(shared: &Arc<Shared>) -> Response {
    let watching = Watching::new(shared);
    let changes = stream::unfold(
        (shared.updates(), watching),
        |(mut updates, watching)| async move {
            let line = updates.next().await?;
            // JSON of one line.
            let event = format!("event: {}\ndata: {}\n\n", line.part, line.json);
            Some((event, (updates, watching)))
        },
    );
    let body = Body::Stream(Box::pin(changes));
    http::response(StatusCode::OK, "text/event-stream", body)
}

/// Returns the report of the trials done, a cached one if no trial has ended since.
async fn report(page: Page) -> Response {
    let done = page.shared.run().now.done;
    let result = tokio::task::spawn_blocking(move || make_report(&page, done)).await;
    match result {
        Ok(Ok(text)) => {
            let body = Body::Text(Some(text.into()));
            let mut response = http::response(StatusCode::OK, HTML, body);
            let policy = HeaderValue::from_static(REPORT_POLICY);
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        Ok(Err(error)) => http::text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("there is no report yet: {error}\n"),
        ),
        Err(_) => http::text(StatusCode::INTERNAL_SERVER_ERROR, ""),
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
