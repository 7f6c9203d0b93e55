//! Memory of the process: what was freed is kept for the next allocation.

/// Size of free memory at the end of the heap above which it is returned to the kernel, in bytes.
#[cfg(target_env = "gnu")]
const TRIM_THRESHOLD_BYTES: libc::c_int = 256 << 20;

/// Size from which an allocation is a mapping of its own, in bytes: beyond what stacks allocate for a batch of packets,
/// and below the receive buffers of their endpoints (3 MB for quinn, 8 MiB for s2n-quic). The kernel gives zeroed pages
/// of a mapping as they are touched; on the heap, glibc would write all of them at the start of each trial.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD_BYTES: libc::c_int = 2 << 20;

/// Makes the allocator keep freed memory. To be called before there is a second thread.
///
/// glibc returns the free end of the heap of a thread other than the first to the kernel from 128 KiB
/// on. A stack that allocates buffers for packets and frees them then has a page fault for each page
/// of them: up to a tenth of its CPU time.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
    ] {
        // A refusal leaves the default.
        // SAFETY: takes no pointer.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::{hint::black_box, mem::MaybeUninit, thread};

    use super::*;

    /// Returns the page faults of this thread so far that needed no input or output.
    fn page_faults() -> i64 {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `usage` has room for the answer, which is read only if it was written.
        unsafe {
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
            usage.assume_init().ru_minflt
        }
    }

    #[test]
    fn memory_that_was_freed_is_used_again_without_page_faults() {
        keep_freed_memory();
        let faults = thread::spawn(|| {
            let buffers = || {
                let buffers: Vec<_> = (0..512).map(|_| vec![1_u8; 64 << 10]).collect();
                drop(black_box(buffers));
            };
            buffers();
            let before = page_faults();
            buffers();
            page_faults() - before
        });
        // 8192, if the pages of all buffers were returned to the kernel.
        let faults = faults.join().expect("no panic");
        assert!(faults < 1024, "{faults}");
    }

    #[test]
    fn a_large_zeroed_buffer_costs_the_pages_that_are_touched() {
        keep_freed_memory();
        let faults = thread::spawn(|| {
            let buffer = || drop(black_box(vec![0_u8; 8 << 20]));
            buffer();
            let before = page_faults();
            buffer();
            page_faults() - before
        });
        // 2048, if all of it were written.
        let faults = faults.join().expect("no panic");
        assert!(faults < 256, "{faults}");
    }
}
