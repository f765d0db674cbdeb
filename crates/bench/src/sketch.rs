//! A histogram drawn with letters, for terminals.

use hdrhistogram::Histogram;
use zebu_figures::number;

/// Characters of the longest bar.
const WIDTH: u64 = 40;
/// Upper edges of the bars within a decade.
const STEPS: [u64; 3] = [1, 2, 5];

/// A line for each range between 1, 2, 5, 10 ... µs, from the shortest latency to the longest: its
/// share in percent, and a bar. Empty ranges in between have lines too, so gaps are visible. The
/// values are in ns.
pub(crate) fn latencies(histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut counts: Vec<(u64, u64)> = Vec::new();
    let mut edges = (3..).flat_map(|power| STEPS.map(|step| step * 10_u64.pow(power)));
    let mut edge = edges.next().unwrap_or(u64::MAX);
    for step in histogram.iter_recorded() {
        while edge <= step.value_iterated_to() {
            edge = edges.next().unwrap_or(u64::MAX);
            if !counts.is_empty() {
                counts.push((edge, 0));
            }
        }
        match counts.last_mut() {
            Some((_, count)) => *count += step.count_since_last_iteration(),
            None => counts.push((edge, step.count_since_last_iteration())),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let mut text = String::new();
    for (edge, count) in counts {
        let share = count as f64 * 100.0 / histogram.len() as f64;
        // A bar has at least one character.
        let length = (count * WIDTH).div_ceil(most);
        let bar = "#".repeat(length as usize);
        let edge = format!("< {} us", number(edge as f64 / 1e3));
        text.push_str(format!("{edge:>14}  {share:>8.4} %  {bar}").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_shares_and_gaps() {
        let mut histogram = Histogram::new_with_bounds(1, 600_000_000_000, 3).unwrap();
        histogram.record_n(60_000, 300).unwrap();
        histogram.record_n(150_000, 100).unwrap();
        histogram.record_n(700_000, 1).unwrap();
        let lines = format!(
            "      < 100 us   74.8130 %  {}\n      < 200 us   24.9377 %  {}\n      < 500 us    0.0000 %\n    \
             < 1,000 us    0.2494 %  #\n",
            "#".repeat(40),
            "#".repeat(14)
        );
        assert_eq!(latencies(&histogram), lines);
        histogram.reset();
        assert_eq!(latencies(&histogram), "");
    }
}
