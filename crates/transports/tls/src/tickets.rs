//! The tickets of a connecting end.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rustls::{
    NamedGroup,
    client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue},
    pki_types::ServerName,
};

use crate::watch::note_ticket;

/// Maximum number of tickets that are kept; the oldest ones go.
const MAX: usize = 16;

/// Tickets of the one server that an end of a trial connects to, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    group: Option<NamedGroup>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _server: ServerName<'static>, group: NamedGroup) {
        self.0.lock().group = Some(group);
    }

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.lock().group
    }

    // TLS 1.2 is not supported.

    fn set_tls12_session(&self, _server: ServerName<'static>, _session: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut state = self.0.lock();
        state.tickets.push_back(ticket);
        if state.tickets.len() > MAX {
            state.tickets.pop_front();
        }
        drop(state);
        note_ticket();
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().tickets.pop_back()
    }
}
