//! The progress of a long operation: shown on stderr if it is a terminal, and removed at the end.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;

/// Interval between two updates.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Short operations show no progress.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Progress towards an unknown number.
    pub(crate) fn counting(out: &Output, what: &'static str) -> Self {
        Self::new(out, what, None, "{spinner} {msg}: {human_pos} znodes, {elapsed}")
    }

    /// Progress towards a known number.
    pub(crate) fn to(out: &Output, what: &'static str, total: usize) -> Self {
        let template = "{msg} {wide_bar} {human_pos}/{human_len} znodes, {eta} left";
        Self::new(out, what, Some(total as u64), template)
    }

    fn new(out: &Output, what: &'static str, total: Option<u64>, template: &str) -> Self {
        let target = if out.is_watched() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        if out.is_watched() {
            bar.enable_steady_tick(DRAW_EVERY);
        }
        Self(bar)
    }

    /// Adds to the number of finished znodes.
    pub(crate) fn advance(&self, znodes: usize) {
        self.0.inc(znodes as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
