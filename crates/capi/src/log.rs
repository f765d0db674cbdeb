//! `zookeeper_log.h`: log lines with a level, written to a C stream or to a function of the
//! program.
//!
//! Lines have the format of the C client: time, process, thread, level, function, line number,
//! text.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// `log_callback_fn`.
pub(crate) type Callback = Option<unsafe extern "C" fn(*const c_char)>;

/// The maximum level of written lines: 0 for none, from 1 for errors to 4 for all lines.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is that of the C client")]
pub static logLevel: AtomicI32 = AtomicI32::new(Level::Info as i32);

/// The stream for handles without a function for log lines; null for the standard error.
static STREAM: AtomicPtr<libc::FILE> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    static mut stderr: *mut libc::FILE;
}

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error = 1,
    Warn,
    Info,
    Debug,
}

impl Level {
    fn of(level: c_int) -> Self {
        match level {
            ..=1 => Self::Error,
            2 => Self::Warn,
            3 => Self::Info,
            4.. => Self::Debug,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Error => "ZOO_ERROR",
            Self::Warn => "ZOO_WARN",
            Self::Info => "ZOO_INFO",
            Self::Debug => "ZOO_DEBUG",
        }
    }
}

/// Whether lines of this level are written.
pub(crate) fn is_on(level: Level) -> bool {
    logLevel.load(Ordering::Relaxed) >= level as i32
}

/// A line to be written later, when no lock is held.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) from: &'static str,
    pub(crate) number: u32,
    pub(crate) text: String,
}

/// Makes a line, unless its level is off.
macro_rules! say {
    ($lines:expr, $level:ident, $from:literal, $($text:tt)*) => {
        if $crate::log::is_on($crate::log::Level::$level) {
            $lines.push($crate::log::Line {
                level: $crate::log::Level::$level,
                from: $from,
                number: line!(),
                text: format!($($text)*),
            });
        }
    };
}
pub(crate) use say;

impl Line {
    /// Writes it.
    pub(crate) fn write(&self, callback: Callback) {
        write(callback, self.level, self.number.into(), self.from.as_bytes(), self.text.as_bytes());
    }
}

/// Writes a line.
fn write(callback: Callback, level: Level, number: i64, from: &[u8], text: &[u8]) {
    // SAFETY: a thread can always ask for its name.
    let thread = unsafe { libc::pthread_self() };
    let process = std::process::id();
    let head = format!("{}:{process}({thread:#x}):{}@", now(), level.name());
    let mut line = head.into_bytes();
    line.extend_from_slice(from);
    line.extend_from_slice(format!("@{number}: ").as_bytes());
    line.extend_from_slice(text);
    line.retain(|byte| *byte != 0);
    let Ok(line) = CString::new(line) else { return };
    match callback {
        // SAFETY: the program gave this function for this.
        Some(callback) => unsafe { callback(line.as_ptr()) },
        None => {
            // SAFETY: the stream is open as long as the program has it set, and the format takes
            // one text.
            unsafe {
                let stream = stream();
                libc::fprintf(stream, c"%s\n".as_ptr(), line.as_ptr());
                libc::fflush(stream);
            }
        }
    }
}

/// The local time, to the millisecond.
fn now() -> String {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seconds = since.as_secs() as libc::time_t;
    let mut text = [0_u8; 32];
    // SAFETY: the structure has only numbers. The calls write the structure, and at most
    // `text.len()` bytes of text.
    let length = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut parts);
        let format = c"%Y-%m-%d %H:%M:%S";
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &parts)
    };
    format!("{},{:03}", String::from_utf8_lossy(&text[..length]), since.subsec_millis())
}

fn stream() -> *mut libc::FILE {
    let stream = STREAM.load(Ordering::Relaxed);
    // SAFETY: the C library has set this variable before anything of ours runs.
    if stream.is_null() { unsafe { stderr } } else { stream }
}

/// Sets the maximum level of written lines; 0 for none.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_debug_level(level: c_int) {
    logLevel.store(if level == 0 { 0 } else { Level::of(level) as i32 }, Ordering::Relaxed);
}

/// Sets the stream for handles without a function for log lines; null for the standard error.
#[unsafe(no_mangle)]
extern "C" fn zoo_set_log_stream(stream: *mut libc::FILE) {
    STREAM.store(stream, Ordering::Relaxed);
}

/// The stream for handles without a function for log lines.
#[unsafe(no_mangle)]
extern "C" fn zoo_get_log_stream() -> *mut libc::FILE {
    stream()
}

/// Writes a line of the program. `c/flavour.c` calls it after `log_message` has formatted the text.
#[unsafe(no_mangle)]
unsafe extern "C" fn zebu_log_text(
    callback: Callback,
    level: c_int,
    number: c_int,
    from: *const c_char,
    text: *const c_char,
) {
    // SAFETY: `log_message` gives texts.
    let (from, text) = unsafe { (crate::memory::text(from), crate::memory::text(text)) };
    let bytes = |text: Option<&'static CStr>| text.unwrap_or_default().to_bytes();
    write(callback, Level::of(level), number.into(), bytes(from), bytes(text));
}
