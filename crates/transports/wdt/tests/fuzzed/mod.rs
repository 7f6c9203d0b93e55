//! Damage of inputs, repetition for a given time, and measurement of the memory used.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::random::Random;

/// Prints the seed when its test fails.
struct Named(&'static str, u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the target `{}` failed: REGATTA_FUZZ_SEED={}",
                self.0, self.1
            );
        }
    }
}

/// Runs a target until its time is over.
pub fn for_many_seeds(name: &'static str, mut target: impl FnMut(&mut Random)) {
    let from_environment = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let seconds = from_environment("REGATTA_FUZZ_SECONDS", 5);
    let first = from_environment("REGATTA_FUZZ_SEED", 0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = first;
    while seed == first || Instant::now() < end {
        let _named = Named(name, seed);
        target(&mut Random::new(seed));
        seed += 1;
    }
    eprintln!("{name}: seeds {first} to {seed}");
}

/// Returns one of these inputs, most often damaged.
pub fn damaged(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let one = |random: &mut Random| &inputs[random.below(inputs.len() as u64) as usize];
    let mut bytes = one(random).clone();
    for _ in 0..random.below(6) {
        // Most commands stand near the front.
        let length = bytes.len() as u64;
        let reach = if random.below(2) == 0 {
            length.min(120)
        } else {
            length
        };
        let at = random.below(reach) as usize;
        match random.below(8) {
            _ if bytes.is_empty() => bytes.push(random.below(256) as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.below(256) as u8),
            4 => drop(bytes.remove(at)),
            // A number as large as it can be.
            5 => {
                let count = random.below(9) as usize + 1;
                let end = (at + count).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
            6 => bytes[at] = b"SZLFDWHEAC\x01ea%&=:,"[random.below(18) as usize],
            _ => {
                let other = one(random);
                let from = random.below(other.len() as u64) as usize;
                let end = other.len().min(from + random.below(400) as usize);
                bytes.splice(at..at, other[from..end].iter().copied());
            }
        }
    }
    bytes
}

/// Returns the result of `run`, and the maximum of memory that it held at once, in bytes.
pub fn peak_bytes<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let value = run();
    let peak = PEAK.get();
    (value, usize::try_from(peak - before).unwrap_or(0))
}

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Allocator that counts the memory held by each thread.
struct Counting;

fn count(bytes: isize) {
    // While a thread ends, its counters are destroyed before its last memory is freed.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: everything is done by the system's allocator; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
