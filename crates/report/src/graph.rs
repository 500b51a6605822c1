//! Pictures of behaviours and of what a crash left of them: a layered drawing as SVG.
//!
//! An operation is a box with its text and its source line, below all that it needs; an arrow leads
//! from what is needed to what needs it. In the picture of a finding, what was kept is green, what
//! was lost is red, and of what is both only a part was kept.
//!
//! Layers are the longest ways from an operation without needs; within a layer, operations come in
//! the order of issue. That is no less readable than what a general layout makes of a graph that is
//! mostly a few chains, and the same input always gives the same bytes.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Version of the form in which graphs are kept.
pub const VERSION: u32 = 1;

/// What a crash left of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Nobody says.
    #[default]
    Open,
    Kept,
    Lost,
    Partly,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Such as `rename("CURRENT.tmp", "CURRENT")`.
    pub text: String,
    /// `file.c:12`, in a function; empty if that is not known.
    pub place: String,
    pub fate: Fate,
}

/// Operations in the order of issue, and which need which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    pub crashpoint_graph: u32,
    pub title: String,
    pub operations: Vec<Operation>,
    /// The second can't be durable unless the first is.
    pub edges: Vec<(u32, u32)>,
}

const BOX_HEIGHT: u32 = 44;
const GAP_X: u32 = 28;
const GAP_Y: u32 = 52;
const MARGIN: u32 = 24;
const TITLE: u32 = 34;
/// Tenths of a pixel: the widest of the usual fonts.
const LETTER: u32 = 75;
const MAX_LETTERS: usize = 48;

impl Graph {
    /// Edges that follow from others left out.
    pub fn reduced(mut self) -> Graph {
        let count = self.operations.len();
        let mut direct = vec![vec![false; count]; count];
        for (from, to) in &self.edges {
            direct[*from as usize][*to as usize] = true;
        }
        // Edges lead from older to newer, so that each row is complete when it is used.
        let mut reach = direct.clone();
        for from in (0..count).rev() {
            let next = (from + 1..count).filter(|to| direct[from][*to]);
            for between in next {
                let (rows, later) = reach.split_at_mut(between);
                let further = rows[from].iter_mut().zip(&later[0]);
                further.for_each(|(one, more)| *one |= more);
            }
        }
        self.edges.retain(|(from, to)| {
            let (from, to) = (*from as usize, *to as usize);
            !(from + 1..to).any(|between| direct[from][between] && reach[between][to])
        });
        self.edges.sort_unstable();
        self.edges.dedup();
        self
    }

    /// The layer in which each operation is drawn.
    fn layers(&self) -> Vec<Vec<usize>> {
        let mut depth = vec![0; self.operations.len()];
        let mut edges = self.edges.clone();
        edges.sort_by_key(|(_, to)| *to);
        for (from, to) in edges {
            depth[to as usize] = depth[to as usize].max(depth[from as usize] + 1);
        }
        let mut layers = vec![Vec::new(); depth.iter().max().map_or(0, |last| last + 1)];
        for (operation, layer) in depth.into_iter().enumerate() {
            layers[layer].push(operation);
        }
        layers
    }

    pub fn svg(&self) -> String {
        let layers = self.layers();
        let widths: Vec<u32> = self.operations.iter().map(width).collect();
        let row = |layer: &Vec<usize>| -> u32 {
            let boxes: u32 = layer.iter().map(|one| widths[*one] + GAP_X).sum();
            boxes.saturating_sub(GAP_X)
        };
        let title = letters(&self.title, usize::MAX) * LETTER / 10;
        let widest = layers
            .iter()
            .map(row)
            .max()
            .unwrap_or(0)
            .max(title)
            .max(LEGEND);
        let full = widest + 2 * MARGIN;
        let rows = layers.len() as u32;
        let height = TITLE + 2 * MARGIN + rows * (BOX_HEIGHT + GAP_Y);
        let mut places = vec![(0, 0); self.operations.len()];
        for (index, layer) in layers.iter().enumerate() {
            let mut x = (full - row(layer)) / 2;
            let y = TITLE + MARGIN + index as u32 * (BOX_HEIGHT + GAP_Y);
            for one in layer {
                places[*one] = (x, y);
                x += widths[*one] + GAP_X;
            }
        }
        let mut svg = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full}\" height=\"{height}\" \
             viewBox=\"0 0 {full} {height}\" font-family=\"monospace\" font-size=\"12\">\n{ARROW}\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{MARGIN}\" y=\"26\" font-weight=\"bold\">{}</text>\n",
            escape(&self.title)
        );
        for (from, to) in &self.edges {
            let (from, to) = (*from as usize, *to as usize);
            let (x1, y1) = (
                places[from].0 + widths[from] / 2,
                places[from].1 + BOX_HEIGHT,
            );
            let (x2, y2) = (places[to].0 + widths[to] / 2, places[to].1);
            let (c1, c2) = (y1 + GAP_Y / 2, y2 - GAP_Y / 2);
            let _ = writeln!(
                svg,
                "<path d=\"M{x1} {y1} C{x1} {c1} {x2} {c2} {x2} {y2}\" fill=\"none\" \
                 stroke=\"#555555\" marker-end=\"url(#arrow)\"/>"
            );
        }
        for (index, operation) in self.operations.iter().enumerate() {
            box_of(&mut svg, operation, places[index], widths[index]);
        }
        if self.operations.iter().any(|one| one.fate != Fate::Open) {
            legend(&mut svg, height);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

const ARROW: &str = "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
                     markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
                     <path d=\"M0 0 L8 4 L0 8 z\" fill=\"#555555\"/></marker></defs>\n";

fn width(operation: &Operation) -> u32 {
    let text = letters(&operation.text, MAX_LETTERS);
    let place = letters(&operation.place, MAX_LETTERS);
    text.max(place).max(8) * LETTER / 10 + 20
}

fn letters(text: &str, most: usize) -> u32 {
    text.chars().count().min(most) as u32
}

/// Names and lines are told by their ends, calls by their beginnings.
fn shortened(text: &str, from_end: bool) -> String {
    let count = text.chars().count();
    if count <= MAX_LETTERS {
        return text.to_owned();
    }
    if from_end {
        let rest: String = text.chars().skip(count - MAX_LETTERS + 1).collect();
        format!("…{rest}")
    } else {
        let begin: String = text.chars().take(MAX_LETTERS - 1).collect();
        format!("{begin}…")
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // SVG is XML, which has no place for these.
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

impl Fate {
    /// Fill, line, and what the legend says.
    fn look(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Fate::Open => ("#f2f2f2", "#666666", "not said"),
            Fate::Kept => ("#d9f2d9", "#2b7a2b", "kept"),
            Fate::Lost => ("#f8d7d7", "#b02a2a", "lost"),
            Fate::Partly => ("#fdeecb", "#b07a1a", "partly lost"),
        }
    }
}

fn box_of(svg: &mut String, operation: &Operation, (x, y): (u32, u32), width: u32) {
    let (fill, line, _) = operation.fate.look();
    let dashes = match operation.fate {
        Fate::Lost => " stroke-dasharray=\"5 3\"",
        Fate::Open | Fate::Kept | Fate::Partly => "",
    };
    let (text_x, first, second) = (x + 10, y + 18, y + 35);
    let _ = write!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"5\" \
         fill=\"{fill}\" stroke=\"{line}\"{dashes}/>\n\
         <text x=\"{text_x}\" y=\"{first}\">{}</text>\n\
         <text x=\"{text_x}\" y=\"{second}\" fill=\"#555555\">{}</text>\n",
        escape(&shortened(&operation.text, false)),
        escape(&shortened(&operation.place, true))
    );
}

const LEGEND: u32 = 3 * 110;

fn legend(svg: &mut String, height: u32) {
    let y = height - MARGIN;
    for (number, fate) in (0..).zip([Fate::Kept, Fate::Lost, Fate::Partly]) {
        let (fill, line, says) = fate.look();
        let x = MARGIN + number * 110;
        let (box_y, text_x) = (y - 10, x + 18);
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{box_y}\" width=\"12\" height=\"12\" fill=\"{fill}\" \
             stroke=\"{line}\"/>\n<text x=\"{text_x}\" y=\"{y}\">{says}</text>\n"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(count: usize, edges: &[(u32, u32)]) -> Graph {
        let operation = |number| Operation {
            text: format!("write(\"f{number}\" & <more>)"),
            place: format!("a.c:{number}"),
            fate: [Fate::Kept, Fate::Lost][number % 2],
        };
        Graph {
            crashpoint_graph: VERSION,
            title: "a finding".into(),
            operations: (0..count).map(operation).collect(),
            edges: edges.to_vec(),
        }
    }

    #[test]
    fn edges_that_follow_from_others_are_not_drawn() {
        let all = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        assert_eq!(graph(4, &all).reduced().edges, [(0, 1), (1, 2), (2, 3)]);
        let fork = [(0, 1), (0, 2)];
        assert_eq!(graph(3, &fork).reduced().edges, fork);
    }

    #[test]
    fn an_operation_is_below_all_that_it_needs() {
        let layers = graph(4, &[(0, 2), (2, 3)]).layers();
        assert_eq!(layers, [vec![0, 1], vec![2], vec![3]]);
    }

    #[test]
    fn a_picture_has_every_operation_with_its_line_and_nothing_that_is_not_xml() {
        let svg = graph(3, &[(0, 1)]).svg();
        assert_eq!(svg.matches("&amp; &lt;more&gt;").count(), 3);
        assert_eq!(svg.matches("a.c:").count(), 3);
        assert_eq!(svg.matches("marker-end").count(), 1);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn no_operations_are_a_picture_too() {
        assert!(graph(0, &[]).svg().contains("a finding"));
    }
}
