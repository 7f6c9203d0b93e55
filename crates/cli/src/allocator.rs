//! Memory of the process: an allocation that the system refuses ends it with an error.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Write as _,
};

use nix::libc;

use crate::exit::Code;

/// Allocator of the system. Rust's default ends the process by `SIGABRT` when there is no memory.
pub struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Bytes of the message.
const MESSAGE_BYTES: usize = 192;

// SAFETY: every call is passed on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller ensures.
        or_end(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller ensures.
        or_end(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller ensures.
        or_end(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller ensures.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn or_end(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        end(size);
    }
    memory
}

/// Ends the process with an error about this allocation, without memory of its own.
#[cold]
fn end(size: usize) -> ! {
    let mut message = [0; MESSAGE_BYTES];
    let mut rest = &mut message[..];
    // It has room for the largest number.
    let _ = write!(
        rest,
        "error: there is no memory for {size} bytes\n\
         hint: end other programs, or raise the limit with `ulimit -v unlimited`\n"
    );
    let length = MESSAGE_BYTES - rest.len();
    // SAFETY: writes bytes that are there, and ends the process without calling functions registered for its end, which
    // might allocate.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), length);
        libc::_exit(u8::from(Code::Failed).into())
    }
}
