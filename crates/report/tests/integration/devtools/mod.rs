//! Headless Chromium, driven over the pipe of its DevTools protocol.
//!
//! <https://chromedevtools.github.io/devtools-protocol/>

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// Returns the path of Chromium: of its form without windows where there is one, which starts in a third of the time.
pub fn browser() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/bin")])
        .flat_map(|dir| {
            let names = [
                "chromium-headless-shell",
                "chromium",
                "chromium-browser",
                "google-chrome",
            ];
            names.map(|name| dir.join(name))
        })
        .find(|program| program.exists())
        .expect("Chromium is needed for this test: run `apt-get install chromium-headless-shell`")
}

/// Arguments that keep Chromium from asking its maker for anything.
pub const QUIET: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// One tab of a browser with an empty profile. It is killed when dropped.
pub struct Tab {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
    session: Option<String>,
    /// Events that came so far.
    events: Vec<Value>,
    dir: tempfile::TempDir,
}

impl Tab {
    /// Opens a page from disk in a window of this size.
    pub fn open(page: &str, [width, height]: [u32; 2]) -> Self {
        let mut tab = Self::empty();
        tab.resize([width, height]);
        tab.load(page);
        tab
    }

    /// Starts a browser with an empty tab.
    pub fn empty() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // Chromium reads commands from descriptor 3 and writes to descriptor 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 1>&2"#])
            .arg(browser())
            .args(QUIET)
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", dir.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Chromium starts");
        let mut tab = Self {
            input: child.stdin.take().expect("a pipe"),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            last_id: 0,
            session: None,
            events: Vec::new(),
            dir,
        };
        let target = tab.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = tab.call("Target.attachToTarget", target);
        tab.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        tab
    }

    /// Loads a page from disk.
    pub fn load(&mut self, page: &str) {
        let file = self.dir.path().join("page.html");
        fs::write(&file, page).expect("a writable directory");
        let url = format!("file://{}", file.display());
        self.call("Page.navigate", json!({ "url": url }));
        let is_load = |event: &Value| event["method"] == "Page.loadEventFired";
        while !self.events.iter().any(is_load) {
            let event = self.receive();
            self.events.push(event);
        }
        self.events.retain(|event| !is_load(event));
    }

    pub fn resize(&mut self, [width, height]: [u32; 2]) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = format!("{message}\0");
        self.input
            .write_all(text.as_bytes())
            .expect("Chromium reads");
        loop {
            let mut answer = self.receive();
            if answer["id"] == self.last_id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        let read = self.output.read_until(0, &mut message);
        read.expect("Chromium answers");
        assert_eq!(message.pop(), Some(0), "Chromium ended");
        serde_json::from_slice(&message).expect("a message in JSON")
    }

    /// Returns the value of an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", params);
        let exception = result.get("exceptionDetails");
        assert!(exception.is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Returns the text that an expression in the page gives.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("`{expression}` is {value}, not a text"))
    }

    /// Returns the number that an expression in the page gives.
    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.eval(expression);
        let number = value.as_f64();
        number.unwrap_or_else(|| panic!("`{expression}` is {value}, not a number"))
    }

    /// Brings the element that an expression gives into view; returns its middle.
    pub fn middle(&mut self, element: &str) -> [f64; 2] {
        let middle = self.eval(&format!(
            "(() => {{ const it = {element}; it.scrollIntoView({{ block: 'center' }}); \
             const box = it.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        [0, 1].map(|axis| middle[axis].as_f64().expect("a position"))
    }

    pub fn mouse(&mut self, kind: &str, [x, y]: [f64; 2]) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Moves the pointer to the middle of an element.
    pub fn hover(&mut self, element: &str) {
        let middle = self.middle(element);
        self.mouse("mouseMoved", middle);
    }

    /// Clicks on the middle of an element.
    pub fn click(&mut self, element: &str) {
        let middle = self.middle(element);
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            self.mouse(kind, middle);
        }
    }

    /// Presses a key, which types `text` unless it is empty.
    pub fn press(&mut self, key: &str, text: &str) {
        let params = json!({ "type": "keyDown", "key": key, "text": text });
        self.call("Input.dispatchKeyEvent", params);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key }),
        );
    }

    /// Emulates a medium (`print`, or the empty text for the screen) and the preferred theme.
    pub fn emulate(&mut self, medium: &str, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        let params = json!({ "media": medium, "features": features });
        self.call("Emulation.setEmulatedMedia", params);
    }

    /// Checks that the page has made no request, thrown nothing and logged nothing.
    #[track_caller]
    pub fn is_quiet(&mut self) {
        // Everything that happened before has its event before the answer.
        self.eval("1");
        let bad: Vec<&Value> = (self.events.iter())
            .filter(|event| match event["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded") => {
                    true
                }
                Some("Network.requestWillBeSent") => {
                    let url = event["params"]["request"]["url"].as_str().unwrap_or("");
                    !url.starts_with("file:") && !url.starts_with("data:")
                }
                _ => false,
            })
            .collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
