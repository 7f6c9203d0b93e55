//! Wakers of the threads of a transfer, which wait for their sockets and for each other.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;

/// Pause after an error that the next call would give at once, too, such as that no descriptor is left.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// Longest wait of one call; longer waits are repeated.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The wakers of all threads of a transfer. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Wakers(Arc<Mutex<Vec<Arc<Waker>>>>);

impl Wakers {
    /// Wakes all waiting threads; the next wait of any other thread returns at once. Each then checks what has changed.
    pub fn wake(&self) {
        for waker in &*self.0.lock() {
            // It can fail only if the thread is woken already.
            let _ = waker.0.write(1);
        }
    }

    /// Adds a thread and returns its waker.
    ///
    /// # Errors
    /// The error of the system if no descriptor is left.
    pub(crate) fn add(&self) -> io::Result<Arc<Waker>> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let waker = Arc::new(Waker(EventFd::from_value_and_flags(0, flags)?));
        self.0.lock().push(Arc::clone(&waker));
        Ok(waker)
    }
}

/// Waker of one thread: a descriptor of eventfd(2), which is readable once the thread is woken.
#[derive(Debug)]
pub(crate) struct Waker(EventFd);

impl Waker {
    /// Waits until the thread is woken, `longest` at most.
    pub(crate) fn sleep(&self, longest: Duration) {
        self.poll(&mut [self.entry()], longest);
    }

    /// Waits until `file` is ready for these events or has failed, or the thread is woken, `longest` at most. Returns
    /// whether `file` is ready.
    pub(crate) fn ready(&self, file: BorrowedFd<'_>, events: PollFlags, longest: Duration) -> bool {
        let mut polled = [self.entry(), PollFd::new(file, events)];
        self.poll(&mut polled, longest);
        polled[1].any() == Some(true)
    }

    /// Waits until bytes or connections have come on one of the descriptors, or the thread is woken, `longest` at most.
    pub(crate) fn wait_for_any<'a>(
        &'a self,
        files: impl Iterator<Item = BorrowedFd<'a>>,
        longest: Duration,
    ) {
        let files = files.map(|file| PollFd::new(file, PollFlags::POLLIN));
        let mut polled: Vec<_> = [self.entry()].into_iter().chain(files).collect();
        self.poll(&mut polled, longest);
    }

    fn entry(&self) -> PollFd<'_> {
        PollFd::new(self.0.as_fd(), PollFlags::POLLIN)
    }

    /// Waits for one of the descriptors; the first is the waker's own. May return spuriously.
    fn poll(&self, polled: &mut [PollFd<'_>], longest: Duration) {
        match ppoll(polled, Some(longest.min(LONGEST).into()), None) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) if polled[0].any() == Some(true) => _ = self.0.read(),
            Ok(_) => {}
            Err(_) => std::thread::sleep(PAUSE.min(longest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn wake_up_is_delivered_once_also_before_the_wait() {
        let wakers = Wakers::default();
        let (first, second) = (wakers.add().unwrap(), wakers.add().unwrap());
        wakers.wake();
        wakers.wake();
        first.sleep(HOUR);
        second.wait_for_any([].into_iter(), HOUR);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| first.ready(second.0.as_fd(), PollFlags::POLLIN, HOUR));
            let sleeping = scope.spawn(|| second.sleep(HOUR));
            // Whichever thread this finds before its wait does not wait.
            wakers.wake();
            sleeping.join().unwrap();
            waiting.join().unwrap();
        });
    }

    #[test]
    fn readable_descriptor_ends_a_wait() {
        let (waker, other) = (Wakers::default().add().unwrap(), Wakers::default());
        let file = other.add().unwrap();
        assert!(!waker.ready(file.0.as_fd(), PollFlags::POLLIN, Duration::ZERO));
        other.wake();
        assert!(waker.ready(file.0.as_fd(), PollFlags::POLLIN, HOUR));
        waker.wait_for_any([file.0.as_fd()].into_iter(), HOUR);
    }
}
