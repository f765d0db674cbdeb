//! Tables and numbers for people.

/// Rows of text under a header; the first column flush left, the others flush right.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub(crate) fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![heads.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as lines.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                match column {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A number with three significant digits and more only in front of the point: `1,234,567`, `12.3`,
/// `0.0012`.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    if magnitude < 100.0 {
        let decimals = match magnitude {
            m if m >= 10.0 => 1,
            m if m >= 1.0 => 2,
            m if m >= 0.01 => 3,
            0.0 => 0,
            _ => 5,
        };
        return format!("{value:.decimals$}");
    }
    let digits = format!("{magnitude:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0.0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let cases = [
            (0.0, "0"),
            (0.0012, "0.00120"),
            (0.25, "0.250"),
            (2.34567, "2.35"),
            (99.94, "99.9"),
            (123.4, "123"),
            (-4_321.0, "-4,321"),
            (1_234_567.0, "1,234,567"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["point", "ops/s"]);
        table.row(["get depth 1", "7"]);
        assert_eq!(table.render(), "point        ops/s\nget depth 1      7\n");
    }
}
