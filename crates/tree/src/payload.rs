//! Stores the bytes of all znodes without allocator overhead: pages of equally sized slots.
//!
//! This module knows nothing of znodes. A slot is identified by a 32-bit handle; the caller
//! remembers its length. Empty pages are freed, so many large znodes leave no memory behind when
//! deleted.

/// Size of a page in bytes.
const PAGE_BYTES: usize = 32 * 1024;
/// Slots start at multiples of this size.
const UNIT: usize = 8;
const UNIT_BITS: u32 = (PAGE_BYTES / UNIT).trailing_zeros();
/// Above this size, a separate allocation costs no more.
const SMALL_MAX: usize = 1024;
const CLASSES: usize = 40;
const LARGE: u32 = 1 << 31;
const NO_SLOT: u16 = u16::MAX;

/// Size of the slots of a class.
const fn class_bytes(class: usize) -> usize {
    match class {
        0..16 => (class + 1) * 8,
        16..24 => 128 + (class - 15) * 16,
        24..32 => 256 + (class - 23) * 32,
        _ => 512 + (class - 31) * 64,
    }
}

/// The smallest class with slots of at least `length` bytes.
const fn class_of(length: usize) -> usize {
    match length {
        0 => 0,
        1..=128 => length.div_ceil(8) - 1,
        129..=256 => 15 + (length - 128).div_ceil(16),
        257..=512 => 23 + (length - 256).div_ceil(32),
        _ => 31 + (length - 512).div_ceil(64),
    }
}

const _: () = assert!(class_bytes(CLASSES - 1) == SMALL_MAX);
const _: () = assert!(1 << UNIT_BITS == PAGE_BYTES / UNIT, "a page has as many units as bits name");
const _: () = assert!((NO_SLOT as usize) * UNIT >= PAGE_BYTES, "no unit is that of no slot");
const _: () = assert!(UNIT >= size_of::<u16>(), "a free slot holds the next one");
const _: () = assert!(CLASSES <= u8::MAX as usize);
const _: () = assert!(class_of(SMALL_MAX) == CLASSES - 1);

/// Identifies a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(u32);

#[derive(Debug)]
struct Page {
    /// Empty after the page was freed.
    bytes: Box<[u8]>,
    class: u8,
    /// Slots in use.
    used: u16,
    /// The first released slot, as a unit; each contains the next one in its first bytes.
    free: u16,
    /// The first unit never used.
    fresh: u16,
    /// The page's position in its class's list, if it has room.
    place: u32,
}

impl Page {
    fn has_room(&self) -> bool {
        let bytes = class_bytes(self.class.into());
        self.free != NO_SLOT || usize::from(self.fresh) * UNIT + bytes <= PAGE_BYTES
    }
}

/// All payloads.
#[derive(Debug)]
pub(crate) struct Payloads {
    pages: Vec<Page>,
    /// Freed pages; their numbers are reused.
    vacant: Vec<u32>,
    /// The pages with room, by class.
    roomy: [Vec<u32>; CLASSES],
    large: Vec<Box<[u8]>>,
    vacant_large: Vec<u32>,
    /// Maximum number of pages.
    pages_max: usize,
}

impl Payloads {
    pub(crate) fn new() -> Self {
        Self {
            pages: Vec::new(),
            vacant: Vec::new(),
            roomy: [const { Vec::new() }; CLASSES],
            large: Vec::new(),
            vacant_large: Vec::new(),
            pages_max: (LARGE >> UNIT_BITS) as usize,
        }
    }

    /// Whether data of `old` and `new` bytes fit into the same slot.
    #[inline]
    pub(crate) fn same_slot(old: usize, new: usize) -> bool {
        let are_small = old <= SMALL_MAX && new <= SMALL_MAX;
        old == new || are_small && class_of(old) == class_of(new)
    }

    /// Allocates a slot of at least `length` bytes with arbitrary content.
    pub(crate) fn allocate(&mut self, length: usize) -> Handle {
        if length > SMALL_MAX {
            return self.allocate_large(length);
        }
        let class = class_of(length);
        let number = match self.roomy[class].last() {
            Some(&number) => number,
            None if self.vacant.is_empty() && self.pages.len() >= self.pages_max => {
                // All page numbers are in use, at 16 GiB: further payloads are allocated
                // separately.
                return self.allocate_large(class_bytes(class));
            }
            None => self.new_page(class),
        };
        let page = &mut self.pages[number as usize];
        let unit = if page.free == NO_SLOT {
            let unit = page.fresh;
            page.fresh += (class_bytes(class) / UNIT) as u16;
            unit
        } else {
            let unit = page.free;
            let at = usize::from(unit) * UNIT;
            page.free = u16::from_be_bytes([page.bytes[at], page.bytes[at + 1]]);
            unit
        };
        page.used += 1;
        debug_assert_eq!(usize::from(page.class), class, "a slot of another size");
        debug_assert!(usize::from(unit) * UNIT + class_bytes(class) <= PAGE_BYTES, "{unit}");
        if !page.has_room() {
            self.roomy[class].pop();
        }
        Handle(number << UNIT_BITS | u32::from(unit))
    }

    fn allocate_large(&mut self, length: usize) -> Handle {
        let bytes = vec![0; length].into_boxed_slice();
        let number = match self.vacant_large.pop() {
            Some(number) => {
                self.large[number as usize] = bytes;
                number
            }
            None => {
                self.large.push(bytes);
                (self.large.len() - 1) as u32
            }
        };
        assert!(number < LARGE, "too many large payloads: {number}");
        Handle(LARGE | number)
    }

    fn new_page(&mut self, class: usize) -> u32 {
        let place = self.roomy[class].len() as u32;
        let page = Page {
            bytes: vec![0; PAGE_BYTES].into_boxed_slice(),
            class: class as u8,
            used: 0,
            free: NO_SLOT,
            fresh: 0,
            place,
        };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.pages[number as usize] = page;
                number
            }
            None => {
                self.pages.push(page);
                (self.pages.len() - 1) as u32
            }
        };
        assert!((number as usize) < self.pages_max, "payload pages are spent: {number}");
        self.roomy[class].push(number);
        number
    }

    /// Frees a slot.
    pub(crate) fn release(&mut self, handle: Handle) {
        if handle.0 & LARGE != 0 {
            let number = handle.0 & !LARGE;
            self.large[number as usize] = Box::default();
            self.vacant_large.push(number);
            return;
        }
        let number = handle.0 >> UNIT_BITS;
        let unit = (handle.0 & ((1 << UNIT_BITS) - 1)) as u16;
        let page = &mut self.pages[number as usize];
        let class = usize::from(page.class);
        assert!(page.used > 0, "a slot is given back twice: page {number}, unit {unit}");
        debug_assert!(unit < page.fresh, "a slot that was never used: page {number}, unit {unit}");
        let had_room = page.has_room();
        let at = usize::from(unit) * UNIT;
        page.bytes[at..at + 2].copy_from_slice(&page.free.to_be_bytes());
        page.free = unit;
        page.used -= 1;
        if !had_room {
            page.place = self.roomy[class].len() as u32;
            self.roomy[class].push(number);
        }
        // The last page of a class is kept for the next znode of that size.
        if page.used == 0 && self.roomy[class].len() > 1 {
            let place = page.place;
            page.bytes = Box::default();
            let gone = self.roomy[class].swap_remove(place as usize);
            assert_eq!(gone, number, "another page stands in its place");
            if let Some(&moved) = self.roomy[class].get(place as usize) {
                self.pages[moved as usize].place = place;
            }
            self.vacant.push(number);
        }
    }

    /// The slot's bytes from a position on, and any bytes after it in the page.
    #[inline]
    pub(crate) fn slot_from(&self, handle: Handle, from: usize) -> &[u8] {
        if handle.0 & LARGE != 0 {
            return &self.large[(handle.0 & !LARGE) as usize][from..];
        }
        let at = (handle.0 & ((1 << UNIT_BITS) - 1)) as usize * UNIT + from;
        &self.pages[(handle.0 >> UNIT_BITS) as usize].bytes[at..]
    }

    /// The slot's bytes for writing. Only the allocated length belongs to the caller.
    pub(crate) fn slot_mut(&mut self, handle: Handle) -> &mut [u8] {
        if handle.0 & LARGE != 0 {
            return &mut self.large[(handle.0 & !LARGE) as usize];
        }
        let at = (handle.0 & ((1 << UNIT_BITS) - 1)) as usize * UNIT;
        &mut self.pages[(handle.0 >> UNIT_BITS) as usize].bytes[at..]
    }

    #[cfg(test)]
    fn pages_in_use(&self) -> usize {
        self.pages.iter().filter(|page| !page.bytes.is_empty()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_a_class_that_fits_and_wastes_little() {
        for length in 0..=SMALL_MAX {
            let bytes = class_bytes(class_of(length));
            assert!(length <= bytes);
            assert!(bytes <= length + length / 8 + 8, "{length} in {bytes}");
        }
    }

    #[test]
    fn more_than_all_pages_hold_is_kept_all_the_same() {
        let mut store = Payloads { pages_max: 3, ..Payloads::new() };
        let mut held = Vec::new();
        for i in 0..2000usize {
            let length = 1 + i * 7 % 300;
            let handle = store.allocate(length);
            // The whole slot is the caller's to grow into.
            let whole = class_bytes(class_of(length));
            store.slot_mut(handle)[..whole].fill(i as u8);
            held.push((handle, whole, i as u8));
        }
        assert_eq!(store.pages.len(), 3);
        for (handle, length, mark) in held {
            assert!(store.slot_from(handle, 0)[..length].iter().all(|byte| *byte == mark));
            store.release(handle);
        }
        assert!(store.large.iter().all(|bytes| bytes.is_empty()));
    }

    #[test]
    fn slots_keep_their_bytes_and_pages_are_given_back() {
        let mut store = Payloads::new();
        let mut held = Vec::new();
        for i in 0..20_000usize {
            let length = 2 + i * 7 % 1500;
            let handle = store.allocate(length);
            store.slot_mut(handle)[..length].fill(i as u8);
            held.push((handle, length, i as u8));
            if i % 3 == 0 {
                let (handle, length, mark) = held.swap_remove(i / 2 % held.len());
                assert!(store.slot_from(handle, 0)[..length].iter().all(|byte| *byte == mark));
                store.release(handle);
            }
        }
        for (handle, length, mark) in held {
            assert!(store.slot_from(handle, 0)[..length].iter().all(|byte| *byte == mark));
            store.release(handle);
        }
        assert!(store.pages_in_use() <= CLASSES);
        assert!(store.large.iter().all(|bytes| bytes.is_empty()));
    }
}
