//! `--stats`: what was done, in numbers.

use std::io;

use crashpoint_check::engine::explore::Statistics;
use crashpoint_report::plot::{self, Series};
use crashpoint_report::{ConditionFigures, Report, TestFigures};

use crate::output::Output;

pub fn print(report: &Report, output: &mut Output) -> io::Result<()> {
    let Some(test) = &report.test else {
        return Ok(());
    };
    let TestFigures {
        possible_states,
        possible_exact,
        chosen_states,
        settled_states,
        duplicate_states,
        pruned_states,
        audited_states,
        tried_states,
        resumed_states,
        inconsistent_states,
        unstable_states,
        points_cut,
        points_left,
        states_per_second,
        seconds,
        crash_points,
        operations,
        strategy,
        model,
        unexplained_states,
        explaining_states,
        clusters,
        conditions,
        model_shown_by: _,
        behaviours,
        representatives,
        by_strategy,
    } = test;
    let at_least = if *possible_exact { "" } else { "at least " };
    let possible = short(possible_states);
    let mut text = format!(
        "model {model}, strategy {strategy}\n\
         {operations} operations, {crash_points} crash points\n\
         {at_least}{possible} crash states are possible\n\
         {chosen_states} chosen: {duplicate_states} with an image met before, {pruned_states} \
         that differ only in what was not read ({audited_states} of these tried all the same), \
         {settled_states} of a kind that had failed often enough or with a known cause, {tried_states} tried \
         ({states_per_second:.0} per second), {resumed_states} known from before\n\
         {inconsistent_states} inconsistent in {clusters} kinds, {unstable_states} without a \
         verdict, {unexplained_states} not explained; {explaining_states} more tried to explain them\n\
         {points_cut} crash points cut short by a budget, {points_left} not reached\n"
    );
    if *behaviours > 0 {
        text += &format!(
            "{behaviours} update behaviours, of which {representatives} stand for all of them\n"
        );
    }
    if by_strategy.len() > 1 {
        for (name, chosen, tried) in by_strategy {
            text += &format!("by {name}: {chosen} chosen, {tried} tried\n");
        }
    }
    if let Some(conditions) = conditions {
        text += &of_conditions(conditions);
    }
    for (phase, time) in seconds {
        text += &format!("{time:8.3} s  {phase}\n");
    }
    output.print(&text)
}

fn of_conditions(figures: &ConditionFigures) -> String {
    let ConditionFigures {
        inferred,
        violations,
        chosen,
        states,
        kinds,
        unfollowed,
    } = figures;
    let line = |counts: &[(String, u64)]| {
        let counts = counts.iter();
        let counts: Vec<String> = counts.map(|(name, n)| format!("{name} {n}")).collect();
        counts.join(", ")
    };
    let mut text = format!(
        "conditions: {}\nviolations of {kinds} kinds: {}\n  of which chosen: {}\n  states: {}\n",
        line(inferred),
        line(violations),
        line(chosen),
        line(states)
    );
    if !unfollowed.is_empty() {
        text += &format!("not followed: {}\n", line(unfollowed));
    }
    text
}

/// Nobody reads hundreds of digits.
fn short(number: &str) -> String {
    match number.len() {
        0..=15 => number.to_owned(),
        digits => format!("{}.{}e{}", &number[..1], &number[1..3], digits - 1),
    }
}

/// The numbers of states by operation, as a picture.
pub fn picture(statistics: &Statistics) -> String {
    let by_suffix = statistics.by_suffix.get(1..).unwrap_or_default();
    // The logarithm of 2 to base 10, for each bit.
    let possible = by_suffix.iter().map(|(possible, _)| match possible.bits() {
        0 => -1.0,
        bits => (bits - 1) as f64 * std::f64::consts::LOG10_2,
    });
    let possible: Vec<f64> = possible.collect();
    let chosen = by_suffix.iter().map(|(_, chosen)| match chosen {
        0 => -1.0,
        chosen => (*chosen as f64).log10(),
    });
    let chosen: Vec<f64> = chosen.collect();
    plot::render(
        "Crash states of each operation",
        &[
            Series {
                name: "possible: what exhaustive testing tries",
                colour: "#c0392b",
                logarithms: &possible,
            },
            Series {
                name: "chosen and distinct",
                colour: "#2471a3",
                logarithms: &chosen,
            },
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_told_by_their_size() {
        assert_eq!(short("123456"), "123456");
        assert_eq!(short(&format!("987{}", "0".repeat(29))), "9.87e31");
    }
}
