//! Reads and writes of packets by io_uring, for a path in virtual time.
//!
//! In a guest a system call costs some 10 µs of the processor that runs the guest, as much as all the rest that happens
//! to a packet. One call here submits all writes that are due and then waits for the next packet, request or due time; by
//! `ppoll`, `read` and `write` they are four for each packet.

use std::{
    convert::Infallible,
    io, mem,
    num::NonZeroUsize,
    os::fd::AsRawFd,
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{
    EnterFlags, IoUring, cqueue, opcode, squeue,
    types::{BufRingEntry, Fd, SubmitArgs, Timespec},
};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use regatta_emulation::Due;

use crate::{Frame, HEADER_BYTES, Running, clock::monotonic_ns};

/// Operations that are submitted at once.
const SUBMISSIONS: u32 = 256;

/// Results that wait to be looked at: those of all operations and of all buffers.
const COMPLETIONS: u32 = 2048;

/// Buffers into which the kernel reads, a power of two. A read ends when none is left, and is submitted again.
const BUFFERS: u16 = 256;

/// Size of a buffer: the largest packet, and one byte more.
const BUFFER_BYTES: usize = 1 << 16;

/// Number of the group of all buffers.
const GROUP: u16 = 0;

/// `user_data` of the reads of both devices, 0 and 1, of the poll for requests, and of the first write.
const REQUEST: u64 = 2;
const FIRST_WRITE: u64 = 3;

/// Buffers that the kernel takes for reads, in memory that it shares: the list of those that are free, then the buffers.
struct Buffers {
    memory: NonNull<u8>,
    tail: u16,
}

/// Bytes of the list, whole pages.
const LIST_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
const MEMORY_BYTES: usize = LIST_BYTES + BUFFERS as usize * BUFFER_BYTES;
const _: () = assert!(LIST_BYTES.is_multiple_of(4096));

impl Buffers {
    fn new() -> io::Result<Self> {
        const LENGTH: NonZeroUsize = NonZeroUsize::new(MEMORY_BYTES).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address of new memory.
        let memory = unsafe { mmap_anonymous(None, LENGTH, protection, MapFlags::MAP_PRIVATE) }?;
        let mut buffers = Self {
            memory: memory.cast(),
            tail: 0,
        };
        (0..BUFFERS).for_each(|number| buffers.give(number));
        Ok(buffers)
    }

    fn address(&self, number: u16) -> *mut u8 {
        let offset = LIST_BYTES + usize::from(number) * BUFFER_BYTES;
        // SAFETY: the kernel has numbers below BUFFERS from `give` alone, so that the offset lies in the memory.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, number: u16) {
        let position = usize::from(self.tail % BUFFERS);
        let address = self.address(number) as u64;
        let list = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the position lies in the list, and the kernel does not look at an entry beyond the tail. The tail lies
        // where the first entry has a field that is not used otherwise.
        unsafe {
            let entry = &mut *list.add(position);
            entry.set_addr(address);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(list).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Returns what the kernel has read into a buffer that it has not been given back yet.
    fn read(&self, number: u16, length: usize) -> &[u8] {
        // SAFETY: the kernel writes only to buffers that it was given.
        unsafe { slice::from_raw_parts(self.address(number), length.min(BUFFER_BYTES)) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the memory any more: `Ring` closes the ring before.
        let _ = unsafe { munmap(self.memory.cast(), MEMORY_BYTES) };
    }
}

/// A packet that was submitted to be written.
struct Write {
    direction: usize,
    due: Due<Frame>,
    /// Time of the submission, in nanoseconds.
    at: u64,
}

/// Ring of the thread that carries packets.
pub(crate) struct Ring {
    /// Before `buffers` and `writes`, whose memory it uses.
    ring: IoUring,
    buffers: Buffers,
    /// Packets that are being written, by their number.
    writes: Vec<Option<Write>>,
    free: Vec<usize>,
    /// Writes that were submitted and whose results were not looked at.
    pending: usize,
    /// Files that are read and polled, by their `user_data`.
    files: [Fd; 3],
    /// Which of them are to be submitted, at first and when the kernel has ended them.
    ended: [bool; 3],
}

/// What has happened, in this order for each kind.
#[derive(Default)]
struct Events {
    written: Vec<(Write, bool)>,
    is_requested: bool,
    /// Packets of each direction, with their lengths.
    arrived: [Vec<(Box<[u8]>, usize)>; 2],
}

impl Ring {
    /// Makes the ring of the calling thread, which has to be the one that uses it.
    ///
    /// # Errors
    /// Error of a kernel before 6.12, without io_uring or that forbids it.
    pub(crate) fn new(running: &Running) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        if !ring.params().is_feature_min_timeout() {
            // Came with absolute times of waits.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = Buffers::new()?;
        let list = buffers.memory.as_ptr() as u64;
        // SAFETY: the list stays where it is until after the ring is closed.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(list, BUFFERS, GROUP, 0)?;
        }
        let [forward, reverse] = &running.links;
        let files = [
            forward.from.as_raw_fd(),
            reverse.from.as_raw_fd(),
            running.wake.as_raw_fd(),
        ];
        Ok(Self {
            ring,
            buffers,
            writes: Vec::new(),
            free: Vec::new(),
            pending: 0,
            files: files.map(Fd),
            ended: [true; 3],
        })
    }

    /// Submits an operation with the next wait, or now if there are too many.
    ///
    /// # Safety
    /// What the entry refers to has to stay until its result has been looked at.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: as the caller says.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Writes a packet that is due, with the next wait.
    fn write(&mut self, direction: usize, to: Fd, due: Due<Frame>, at: u64) -> io::Result<()> {
        let number = self.free.pop().unwrap_or_else(|| {
            self.writes.push(None);
            self.writes.len() - 1
        });
        let bytes = due.packet.bytes();
        let entry = opcode::Write::new(to, bytes.as_ptr(), bytes.len() as u32)
            .build()
            .user_data(FIRST_WRITE + number as u64);
        self.writes[number] = Some(Write { direction, due, at });
        self.pending += 1;
        // SAFETY: the bytes are on the heap and stay in `writes` until the write has ended.
        unsafe { self.push(&entry) }
    }

    /// Submits what is to be written and waits until a packet or a request has come, or until `until` by the monotonic
    /// clock.
    fn wait(&mut self, until: Option<u64>) -> io::Result<()> {
        for (number, file) in self.files.into_iter().enumerate() {
            if !mem::take(&mut self.ended[number]) {
                continue;
            }
            let entry = match number as u64 {
                REQUEST => opcode::PollAdd::new(file, libc::POLLIN as u32)
                    .multi(true)
                    .build(),
                _ => opcode::ReadMulti::new(file, 0, GROUP).build(),
            };
            // SAFETY: the entry refers to files that the thread keeps.
            unsafe { self.push(&entry.user_data(number as u64)) }?;
        }
        let time = until.map(|at| {
            Timespec::new()
                .sec(at / 1_000_000_000)
                .nsec((at % 1_000_000_000) as u32)
        });
        let mut arguments = SubmitArgs::new();
        if let Some(time) = &time {
            arguments = arguments.timespec(time);
        }
        // Writes end at once, and do not end the wait.
        let waited = self.ring.submitter().submit_with_args_and_flags(
            self.pending + 1,
            &arguments,
            EnterFlags::ABS_TIMER,
        );
        match waited {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes what has happened.
    fn events(&mut self, mut buffer: impl FnMut() -> Box<[u8]>) -> Events {
        let mut events = Events::default();
        for entry in self.ring.completion() {
            let result = entry.result();
            let data = entry.user_data();
            if data >= FIRST_WRITE {
                let number = (data - FIRST_WRITE) as usize;
                self.pending -= 1;
                self.free.push(number);
                events
                    .written
                    .extend(self.writes[number].take().map(|it| (it, result >= 0)));
                continue;
            }
            if !cqueue::more(entry.flags()) {
                self.ended[data as usize] = true;
            }
            if data == REQUEST {
                events.is_requested = true;
                continue;
            }
            let Some(number) = cqueue::buffer_select(entry.flags()) else {
                continue;
            };
            if let Ok(length) = usize::try_from(result) {
                let mut buffer = buffer();
                let length = length.min(buffer.len());
                buffer[..length].copy_from_slice(self.buffers.read(number, length));
                events.arrived[data as usize].push((buffer, length));
            }
            self.buffers.give(number);
        }
        events
    }
}

impl Running {
    /// Carries packets by `ring` until the handle is dropped or the kernel returns an error.
    pub(crate) fn run_on(mut self, mut ring: Ring) -> Option<Infallible> {
        loop {
            let now = monotonic_ns();
            for (direction, link) in self.links.iter_mut().enumerate() {
                let to = Fd(link.to.as_raw_fd());
                while let Some(due) = link.emulated.poll(now) {
                    ring.write(direction, to, due, now).ok()?;
                }
                link.discarded(self.tap.as_mut(), &mut self.pool);
            }
            if let Some(tap) = &mut self.tap {
                tap.hand_over();
            }
            let next = self.links.each_ref().map(|link| link.emulated.next());
            ring.wait(next.into_iter().flatten().min()).ok()?;
            let events = ring.events(|| self.buffer());
            for (Write { direction, due, at }, is_accepted) in events.written {
                let tap = self.tap.as_mut();
                self.links[direction].ended(
                    direction as u8,
                    due,
                    at,
                    is_accepted,
                    tap,
                    &mut self.pool,
                );
            }
            let conditions = self.conditions;
            if events.is_requested {
                // Fails only when another read has already emptied it.
                let _ = self.wake.read();
                self.serve()?;
            }
            // Packets that came before a condition was set are of the one before.
            if self.conditions != conditions {
                continue;
            }
            let now = monotonic_ns();
            for (which, arrived) in events.arrived.into_iter().enumerate() {
                for (buffer, length) in arrived {
                    match length > HEADER_BYTES {
                        true => self.offer(which, now, now, buffer, length),
                        false => self.pool.push(buffer),
                    }
                }
            }
        }
    }
}
