//! The terminal view: an alternate screen on standard error, which is restored however the process ends but by SIGKILL.

mod draw;

use std::{
    io::{self, IsTerminal, Stderr, Write, stderr, stdin},
    sync::Once,
};

use nix::{
    libc,
    sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr},
    unistd::{getpgrp, tcgetpgrp},
};
use parking_lot::Mutex;
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen},
    },
};
use regatta_engine::unix_ns;

use crate::{error::LiveError, model::LiveRun};

/// Settings to restore, while the screen is on: those of the terminal's input, if standard input is one.
static SAVED_TERMIOS: Mutex<Option<Option<Termios>>> = Mutex::new(None);

/// Screen of a run.
pub struct Screen {
    is_utf8: bool,
    /// Address of the web page.
    url: Option<String>,
    terminal: Option<Terminal<CrosstermBackend<Stderr>>>,
}

impl Screen {
    /// Checks that standard error is a terminal on which this process may draw.
    ///
    /// # Errors
    /// [`LiveError::NoTerminal`].
    pub fn check(is_utf8: bool, url: Option<String>) -> Result<Self, LiveError> {
        if !stderr().is_terminal() {
            return Err(LiveError::NoTerminal("no terminal"));
        }
        if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Err(LiveError::NoTerminal(
                "a terminal without a cursor (`TERM=dumb`)",
            ));
        }
        // The kernel stops a process of the background that changes the terminal.
        if tcgetpgrp(stderr()).is_ok_and(|group| group != getpgrp()) {
            return Err(LiveError::NoTerminal(
                "the terminal of another process in the foreground",
            ));
        }
        Ok(Self {
            is_utf8,
            url,
            terminal: None,
        })
    }

    /// Turns the screen on.
    ///
    /// # Errors
    /// Errors of writing to the terminal.
    pub fn begin(&mut self) -> io::Result<()> {
        restore_at_exit();
        *SAVED_TERMIOS.lock() = Some(disable_echo());
        execute!(stderr(), EnterAlternateScreen, Hide)?;
        let mut terminal = Terminal::new(CrosstermBackend::new(stderr()))?;
        terminal.clear()?;
        self.terminal = Some(terminal);
        Ok(())
    }

    /// Draws the state, if the screen is on.
    ///
    /// # Errors
    /// Errors of writing to the terminal.
    pub fn draw(&mut self, run: &LiveRun, is_attached: bool) -> io::Result<()> {
        let Some(terminal) = &mut self.terminal else {
            return Ok(());
        };
        let view = draw::View {
            run,
            now_unix_ns: unix_ns(),
            is_attached,
            is_utf8: self.is_utf8,
            url: self.url.as_deref(),
        };
        terminal.draw(|frame| view.draw(frame))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal.take().is_some() {
            restore();
        }
    }
}

/// Turns echo and line editing off. Ctrl-C still sends its signal; the keys that stop or abort the process without
/// restoring the screen do not. Returns the settings to restore, if standard input is a terminal.
fn disable_echo() -> Option<Termios> {
    if !stdin().is_terminal() {
        return None;
    }
    let before = tcgetattr(stdin()).ok()?;
    let mut quiet = before.clone();
    quiet.local_flags -= LocalFlags::ECHO | LocalFlags::ICANON;
    for key in [
        SpecialCharacterIndices::VSUSP,
        SpecialCharacterIndices::VQUIT,
    ] {
        quiet.control_chars[key as usize] = libc::_POSIX_VDISABLE;
    }
    tcsetattr(stdin(), SetArg::TCSANOW, &quiet).ok()?;
    Some(before)
}

/// Turns the terminal view off, if it is on, so that what is written next stays visible.
pub fn restore() {
    let mut saved = SAVED_TERMIOS.lock();
    let Some(input) = saved.take() else {
        return;
    };
    // A closed terminal cannot be restored.
    let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    let _ = stderr().flush();
    if let Some(input) = input {
        // Discards input that was typed meanwhile, so that the shell does not read it.
        let _ = tcsetattr(stdin(), SetArg::TCSAFLUSH, &input);
    }
}

/// Restores the terminal when the process panics or exits.
fn restore_at_exit() {
    extern "C" fn at_exit() {
        restore();
    }
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            previous(info);
        }));
        // SAFETY: the function is one of this program, and does not unwind: nothing in it panics.
        let registered = unsafe { libc::atexit(at_exit) };
        debug_assert_eq!(registered, 0);
    });
}
