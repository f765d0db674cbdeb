//! Charts as SVG: bars side by side, ratios around one, and curves, all on logarithmic scales.
//!
//! Text, rectangles and lines are all that is needed, so they are written down as they are; servers
//! differ in colour and in shape.

use zebu_figures::{Spread, number};

/// The width of a plot.
const WIDTH: f64 = 860.0;
/// The start of the bars, after the labels.
const LABELS: f64 = 290.0;
/// The space after the bars for their values.
const VALUES: f64 = 90.0;
/// The space above for title and legend, and the space below for the scale.
const TOP: f64 = 58.0;
const BOTTOM: f64 = 30.0;
const BAR: f64 = 12.0;
const GAP: f64 = 9.0;
const COLOURS: [&str; 4] = ["#1f5f8b", "#e08e3c", "#7a7a7a", "#4c9f70"];

/// One group of bars: a label, and a value for each server.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) values: Vec<Option<Spread>>,
}

/// One of several charts of curves: a title, and for each server its values along the categories.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) curves: Vec<Vec<Option<f64>>>,
}

/// A logarithmic scale over whole decades.
struct Scale {
    from: f64,
    decades: f64,
    start: f64,
    length: f64,
}

impl Scale {
    /// A scale from the decade below the smallest value to the decade above the largest, drawn from
    /// `start` on.
    fn new(values: impl Iterator<Item = f64>, start: f64, length: f64) -> Option<Self> {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            return None;
        }
        let from = least.log10().floor();
        let decades = (most.log10().ceil() - from).max(1.0);
        Some(Self { from, decades, start, length })
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.max(f64::MIN_POSITIVE).log10() - self.from) / self.decades;
        self.start + part.clamp(0.0, 1.0) * self.length
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=self.decades as i32).map(|step| 10_f64.powf(self.from + f64::from(step)))
    }
}

/// An unfinished picture.
struct Picture {
    body: String,
    height: f64,
}

impl Picture {
    fn new(title: &str, servers: &[String], height: f64) -> Self {
        let mut picture = Self { body: String::new(), height };
        picture.text(12.0, 22.0, "start", 15, title);
        let mut x = 12.0;
        for (index, server) in servers.iter().enumerate() {
            picture.mark(x + 5.0, 38.0, index);
            picture.text(x + 16.0, 42.0, "start", 12, server);
            x += 40.0 + 8.0 * server.chars().count() as f64;
        }
        picture
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, size: u32, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.body.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>\n"
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.body.push_str(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    fn bar(&mut self, x: f64, y: f64, width: f64, server: usize) {
        let colour = COLOURS[server % COLOURS.len()];
        self.body.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR:.1}\" fill=\"{colour}\"/>\n"
        ));
    }

    /// The symbol of a server: a disc for the first one, a square for the others.
    fn mark(&mut self, x: f64, y: f64, server: usize) {
        let colour = COLOURS[server % COLOURS.len()];
        self.body.push_str(&match server {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{colour}\"/>\n"),
            _ => format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>\n",
                x - 4.0,
                y - 4.0
            ),
        });
    }

    /// A line for each decade of a horizontal scale.
    fn grid(&mut self, scale: &Scale, unit: &str) {
        let bottom = self.height - BOTTOM;
        for tick in scale.ticks() {
            let x = scale.at(tick);
            self.line((x, TOP - 6.0), (x, bottom), "#dddddd", 1.0);
            self.text(x, bottom + 16.0, "middle", 11, &format!("{}{unit}", short(tick)));
        }
    }

    /// A line for each decade of a scale that goes up from `bottom`.
    fn levels(&mut self, scale: &Scale, (left, bottom): (f64, f64), width: f64, unit: &str) {
        for tick in scale.ticks() {
            let y = bottom - scale.at(tick);
            self.line((left, y), (left + width, y), "#dddddd", 1.0);
            self.text(left - 6.0, y + 4.0, "end", 11, &format!("{}{unit}", short(tick)));
        }
    }

    fn finish(self) -> String {
        let (height, body) = (self.height, self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" font-family=\"sans-serif\" fill=\"#222222\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

/// For each group, the bars of all servers with lines for the spread. `None` without values.
pub(crate) fn bars(
    title: &str,
    servers: &[String],
    unit: &str,
    groups: &[Group],
) -> Option<String> {
    let values = || groups.iter().flat_map(|group| group.values.iter().flatten());
    let ends = values().flat_map(|of| [of.least, of.most]);
    let scale = Scale::new(ends, LABELS, WIDTH - LABELS - VALUES)?;
    let each = BAR * servers.len() as f64 + GAP;
    let mut picture = Picture::new(title, servers, TOP + each * groups.len() as f64 + BOTTOM);
    picture.grid(&scale, unit);
    for (index, group) in groups.iter().enumerate() {
        let top = TOP + each * index as f64;
        let middle = top + BAR * servers.len() as f64 / 2.0 + 4.0;
        picture.text(LABELS - 8.0, middle, "end", 12, &group.label);
        for (server, of) in group.values.iter().enumerate() {
            let Some(of) = of else { continue };
            let (y, end) = (top + BAR * server as f64, scale.at(of.median));
            picture.bar(LABELS, y, end - LABELS, server);
            let whisker = y + BAR / 2.0;
            picture.line(
                (scale.at(of.least), whisker),
                (scale.at(of.most), whisker),
                "#222222",
                1.0,
            );
            let behind = scale.at(of.most).max(end) + 5.0;
            picture.text(behind, y + BAR - 2.0, "start", 11, &number(of.median));
        }
    }
    Some(picture.finish())
}

/// Ratios, around a line at one.
pub(crate) fn ratios(title: &str, servers: &[String], rows: &[(String, Spread)]) -> Option<String> {
    let ends = rows.iter().flat_map(|(_, of)| [of.least, of.most, 1.0]);
    let scale = Scale::new(ends, LABELS, WIDTH - LABELS - VALUES)?;
    let each = BAR + GAP;
    let mut picture = Picture::new(title, &servers[..1], TOP + each * rows.len() as f64 + BOTTOM);
    picture.grid(&scale, "×");
    let one = scale.at(1.0);
    for (index, (label, of)) in rows.iter().enumerate() {
        let y = TOP + each * index as f64;
        picture.text(LABELS - 8.0, y + BAR - 2.0, "end", 12, label);
        let at = scale.at(of.median);
        picture.bar(one.min(at), y, (at - one).abs().max(1.0), if of.median < 1.0 { 1 } else { 0 });
        let whisker = y + BAR / 2.0;
        picture.line((scale.at(of.least), whisker), (scale.at(of.most), whisker), "#222222", 1.0);
        let behind = scale.at(of.most).max(one) + 5.0;
        picture.text(behind, y + BAR - 2.0, "start", 11, &format!("{}×", number(of.median)));
    }
    let bottom = picture.height - BOTTOM;
    picture.line((one, TOP - 6.0), (one, bottom), "#222222", 1.5);
    Some(picture.finish())
}

/// Curves over common categories and a common scale, two charts in a row.
pub(crate) fn curves(
    title: &str,
    servers: &[String],
    unit: &str,
    categories: &[&str],
    panels: &[Panel],
) -> Option<String> {
    const HEIGHT: f64 = 230.0;
    const LEFT: f64 = 70.0;
    let values = panels.iter().flat_map(|panel| panel.curves.iter().flatten().flatten());
    // The scale is upside down, because the picture's coordinates begin at the top.
    let scale = Scale::new(values.copied(), 0.0, HEIGHT - 60.0)?;
    let rows = panels.len().div_ceil(2);
    let mut picture = Picture::new(title, servers, TOP + HEIGHT * rows as f64 + 8.0);
    for (index, panel) in panels.iter().enumerate() {
        let left = LEFT + (WIDTH / 2.0) * (index % 2) as f64;
        let top = TOP + HEIGHT * (index / 2) as f64;
        let width = WIDTH / 2.0 - LEFT - 20.0;
        let bottom = top + HEIGHT - 36.0;
        let y = |value: f64| bottom - scale.at(value);
        let x = |step: usize| left + width * step as f64 / (categories.len().max(2) - 1) as f64;
        picture.text(left, top + 10.0, "start", 13, &panel.title);
        picture.levels(&scale, (left, bottom), width, unit);
        for (step, category) in categories.iter().enumerate() {
            picture.text(x(step), bottom + 16.0, "middle", 11, category);
        }
        for (server, curve) in panel.curves.iter().enumerate() {
            let points: Vec<(f64, f64)> = curve
                .iter()
                .enumerate()
                .filter_map(|(step, value)| Some((x(step), y((*value)?))))
                .collect();
            for pair in points.windows(2) {
                picture.line(pair[0], pair[1], COLOURS[server % COLOURS.len()], 2.0);
            }
            for point in points {
                picture.mark(point.0, point.1, server);
            }
        }
    }
    Some(picture.finish())
}

/// How one figure grows: its title, and its value for each size.
pub(crate) struct Grown {
    pub(crate) title: String,
    pub(crate) points: Vec<(f64, Spread)>,
}

/// Figures by size, two charts in a row, each with scales of its own. `of`: what the sizes count.
/// `None` without values.
pub(crate) fn grown(title: &str, of: &str, panels: &[Grown]) -> Option<String> {
    const HEIGHT: f64 = 190.0;
    const LEFT: f64 = 70.0;
    const TITLE: f64 = 40.0;
    let rows = panels.len().div_ceil(2);
    let mut picture = Picture::new(title, &[], TITLE + HEIGHT * rows as f64 + 8.0);
    let width = WIDTH / 2.0 - LEFT - 30.0;
    for (index, panel) in panels.iter().enumerate() {
        let left = LEFT + (WIDTH / 2.0) * (index % 2) as f64;
        let top = TITLE + HEIGHT * (index / 2) as f64;
        let bottom = top + HEIGHT - 40.0;
        let sizes = Scale::new(panel.points.iter().map(|(size, _)| *size), left, width)?;
        let ends = panel.points.iter().flat_map(|(_, it)| [it.least, it.most]);
        // The scale is upside down, because the picture's coordinates begin at the top.
        let Some(values) = Scale::new(ends, 0.0, bottom - top - 20.0) else { continue };
        let y = |value: f64| bottom - values.at(value);
        picture.text(left, top + 10.0, "start", 13, &panel.title);
        picture.levels(&values, (left, bottom), width, "");
        for tick in sizes.ticks() {
            let x = sizes.at(tick);
            picture.line((x, bottom), (x, bottom + 4.0), "#777777", 1.0);
            picture.text(x, bottom + 16.0, "middle", 11, &short(tick));
        }
        picture.text(left + width, bottom + 28.0, "end", 11, of);
        let at = |(size, it): &(f64, Spread)| (sizes.at(*size), y(it.median));
        for pair in panel.points.windows(2) {
            picture.line(at(&pair[0]), at(&pair[1]), COLOURS[0], 2.0);
        }
        for (size, it) in &panel.points {
            let x = sizes.at(*size);
            picture.line((x, y(it.least)), (x, y(it.most)), "#222222", 1.0);
            picture.mark(x, y(it.median), 0);
        }
    }
    (!panels.is_empty()).then(|| picture.finish())
}

/// A power of ten for a scale: 10k, 1M.
fn short(tick: f64) -> String {
    match tick {
        t if t >= 1e6 => format!("{:.0}M", t / 1e6),
        t if t >= 1e3 => format!("{:.0}k", t / 1e3),
        t if t >= 1.0 => format!("{t:.0}"),
        t => format!("{t}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread { median, least: median, most: median, count: 1 }
    }

    #[test]
    fn bars_are_as_long_as_the_logarithm_of_what_they_show() {
        let servers = ["zebu".to_owned(), "java".to_owned()];
        let group = |label: &str, zebu, java| Group {
            label: label.to_owned(),
            values: vec![Some(spread(zebu)), Some(spread(java))],
        };
        let groups = [group("a < b", 1000.0, 10.0), group("c", 100.0, 1.0)];
        let svg = bars("t", &servers, "", &groups).unwrap();
        assert!(svg.contains("a &lt; b"), "{svg}");
        // Three decades over 480 units: 160 each.
        for width in ["480.0", "160.0", "320.0", "0.0"] {
            assert!(svg.contains(&format!("width=\"{width}\" height=\"12.0\"")), "{width}: {svg}");
        }
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn nothing_measured_is_no_picture() {
        assert!(bars("t", &[], "", &[]).is_none());
        assert!(ratios("t", &["zebu".to_owned()], &[]).is_none());
        assert!(curves("t", &[], "", &[], &[]).is_none());
    }

    #[test]
    fn growth_in_proportion_is_a_straight_line() {
        let points = [10.0, 100.0, 1000.0].map(|size| (size, spread(size * 3.0)));
        let panel = Grown { title: "s".to_owned(), points: points.to_vec() };
        let svg = grown("t", "znodes", &[panel]).unwrap();
        let numbers = |start: &str| -> Vec<f64> {
            let texts = svg.split(start).skip(1).filter_map(|it| it.split('"').next());
            texts.map(|it| it.parse().unwrap()).collect()
        };
        let (x, y) = (numbers("<circle cx=\""), numbers(" cy=\""));
        assert_eq!((x.len(), y.len()), (3, 3));
        assert!((2.0 * x[1] - x[0] - x[2]).abs() < 0.2 && x[0] < x[1], "{x:?}");
        assert!((2.0 * y[1] - y[0] - y[2]).abs() < 0.2 && y[0] > y[1], "{y:?}");
        assert!(grown("t", "znodes", &[]).is_none());
    }

    #[test]
    fn a_ratio_below_one_goes_to_the_left() {
        let rows = [("worse".to_owned(), spread(0.1)), ("better".to_owned(), spread(10.0))];
        let svg = ratios("t", &["zebu".to_owned()], &rows).unwrap();
        let one = LABELS + (WIDTH - LABELS - VALUES) / 2.0;
        assert!(svg.contains(&format!("<rect x=\"{LABELS:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("<rect x=\"{one:.1}\"")), "{svg}");
    }
}
