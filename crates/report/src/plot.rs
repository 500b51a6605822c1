//! How many crash states there are and how many were tried, operation by operation, as a picture:
//! an SVG on its own, with a logarithmic scale.

use std::fmt::Write as _;

/// One line of the picture: a name, a colour, and a logarithm to base 10 for each operation; less
/// than 0 is nothing.
pub struct Series<'a> {
    pub name: &'a str,
    pub colour: &'a str,
    pub logarithms: &'a [f64],
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// More operations than this share columns; the largest of a column is drawn.
const COLUMNS: usize = 800;

/// The picture.
pub fn render(title: &str, series: &[Series<'_>]) -> String {
    let count = series.iter().map(|one| one.logarithms.len()).max();
    let count = count.unwrap_or(0).max(1);
    let all = series.iter().flat_map(|one| one.logarithms.iter().copied());
    let highest = all.fold(1.0, f64::max).ceil();
    let x = |column: usize, columns: usize| {
        LEFT + (WIDTH - LEFT - RIGHT) * (column as f64 + 0.5) / columns as f64
    };
    let y = |logarithm: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * logarithm / highest;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    for tick in ticks(highest) {
        let at = y(tick);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">10<tspan dy=\"-5\" \
             font-size=\"9\">{tick}</tspan></text>\n",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    let columns = count.min(COLUMNS);
    for one in series {
        let mut points = String::new();
        for column in 0..columns {
            let part = column * count / columns..(column + 1) * count / columns;
            let part = one.logarithms.get(part).unwrap_or_default();
            let largest = part.iter().copied().fold(-1.0, f64::max);
            if largest >= 0.0 {
                let _ = write!(points, "{:.1},{:.1} ", x(column, columns), y(largest));
            }
        }
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1\"/>",
            points.trim_end(),
            one.colour
        );
    }
    for (index, one) in series.iter().enumerate() {
        let at = LEFT + 260.0 * index as f64;
        let _ = write!(
            svg,
            "<rect x=\"{at}\" y=\"26\" width=\"10\" height=\"10\" fill=\"{}\"/>\n\
             <text x=\"{}\" y=\"35\">{}</text>\n",
            one.colour,
            at + 14.0,
            escaped(one.name)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\">operation 1</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">operation {count}</text>\n</svg>\n",
        HEIGHT - BOTTOM + 20.0,
        WIDTH - RIGHT,
        HEIGHT - BOTTOM + 20.0
    );
    svg
}

/// At most about eight whole powers.
fn ticks(highest: f64) -> impl Iterator<Item = f64> {
    let step = (highest / 8.0).ceil().max(1.0);
    let count = (highest / step) as u32;
    (0..=count).map(move |tick| f64::from(tick) * step)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_a_line_for_each_series() {
        let many: Vec<f64> = (0..5000).map(|n| f64::from(n % 31)).collect();
        let series = [
            Series {
                name: "possible & more",
                colour: "red",
                logarithms: &many,
            },
            Series {
                name: "tried",
                colour: "blue",
                logarithms: &[-1.0, 0.0, 1.0],
            },
        ];
        let svg = render("a < b", &series);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("possible &amp; more"));
        let points = svg.split("<polyline points=\"").nth(1).unwrap();
        let points = points.split('"').next().unwrap();
        assert_eq!(points.split(' ').count(), COLUMNS);
    }

    #[test]
    fn nothing_at_all_is_a_picture_too() {
        assert!(render("", &[]).ends_with("</svg>\n"));
    }
}
