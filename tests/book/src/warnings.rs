//! The warnings of a library, which it writes as events of `tracing`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::Level;

/// What was written.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Does the work, and returns its result and the warnings and errors that it wrote in this thread.
pub(crate) fn of<T>(work: impl FnOnce() -> anyhow::Result<T>) -> (anyhow::Result<T>, String) {
    let text = Text::default();
    let writer = text.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::WARN)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    let result = tracing::subscriber::with_default(subscriber, work);
    let written = String::from_utf8_lossy(&text.0.lock().expect("no writer panics")).into_owned();
    (result, written)
}

#[test]
fn warnings_and_errors_are_collected() {
    let (result, warnings) = of(|| {
        tracing::info!("one");
        tracing::warn!("two");
        tracing::error!("three");
        Ok(4)
    });
    assert_eq!(result.unwrap(), 4);
    let lines: Vec<&str> = warnings.lines().collect();
    assert_eq!(lines.len(), 2, "{warnings}");
    assert!(lines[0].ends_with("two") && lines[1].ends_with("three"), "{warnings}");
}
