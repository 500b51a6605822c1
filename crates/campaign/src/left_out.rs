//! What a test was to look at and did not: see [`LeftOut`].

use crashpoint_check::engine::explore::Statistics;
use crashpoint_report::terminal::count;
use crashpoint_report::{LeftOut, LeftOutReason};

/// What an exploration left out, and failing states that no finding explains.
pub fn of_exploration(statistics: &Statistics, unexplained: u64) -> Vec<LeftOut> {
    use LeftOutReason::{Budget, NotExplained, NothingToLose, NothingTried, Unstable};
    let Statistics {
        points,
        points_left,
        points_cut,
        unstable,
        ..
    } = *statistics;
    let all_points = points + points_left;
    let counted = [
        (
            points_left,
            Budget,
            format!(
                "{points_left} of {}, as the budget was spent (--time, --states)",
                count(all_points, "crash point")
            ),
        ),
        (
            points_cut,
            Budget,
            format!(
                "a part of the states at {} (--time, --states, --states-per-point)",
                count(points_cut, "crash point")
            ),
        ),
        (
            unexplained,
            NotExplained,
            format!(
                "the causes of {}, which no finding explains",
                count(unexplained, "failing state")
            ),
        ),
        (
            unstable,
            Unstable,
            format!(
                "what to make of {}: failing in one run and not in the next",
                count(unstable, "crash state")
            ),
        ),
    ];
    let left_out = counted.into_iter().filter(|(count, _, _)| *count > 0);
    let mut left_out: Vec<LeftOut> = left_out
        .map(|(_, reason, text)| LeftOut::new(reason, text))
        .collect();
    let (reason, text) = if all_points == 0 {
        (
            NothingToLose,
            "any crash, as the program stored nothing that can be lost",
        )
    } else if statistics.tried + statistics.resumed == 0 && left_out.is_empty() {
        (
            NothingTried,
            "any crash state, as the strategy chose none (--strategy)",
        )
    } else {
        return left_out;
    };
    left_out.push(LeftOut::new(reason, text));
    left_out
}

/// Gaps of a recording, each as the recording tells it.
pub fn of_recording(gaps: impl IntoIterator<Item = String>) -> Vec<LeftOut> {
    let mut left_out: Vec<LeftOut> = Vec::new();
    for text in gaps {
        let gap = LeftOut::new(LeftOutReason::RecordingGap, text);
        if !left_out.contains(&gap) {
            left_out.push(gap);
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasons why something was left out.
    fn reasons(statistics: Statistics, unexplained: u64) -> Vec<LeftOutReason> {
        let left_out = of_exploration(&statistics, unexplained);
        left_out.into_iter().map(|one| one.reason).collect()
    }

    fn whole() -> Statistics {
        Statistics {
            points: 9,
            tried: 30,
            ..Statistics::default()
        }
    }

    #[test]
    fn a_run_that_looked_at_all_leaves_nothing_out() {
        assert_eq!(reasons(whole(), 0), []);
        let resumed = Statistics {
            tried: 0,
            resumed: 30,
            ..whole()
        };
        assert_eq!(reasons(resumed, 0), []);
    }

    #[test]
    fn whatever_was_not_looked_at_has_its_reason() {
        use LeftOutReason::*;
        assert_eq!(reasons(whole(), 1), [NotExplained]);
        let points_left = Statistics {
            points_left: 38,
            ..whole()
        };
        assert_eq!(reasons(points_left, 0), [Budget]);
        let points_cut = Statistics {
            points_cut: 1,
            ..whole()
        };
        assert_eq!(reasons(points_cut, 0), [Budget]);
        let unstable = Statistics {
            unstable: 1,
            ..whole()
        };
        assert_eq!(reasons(unstable, 0), [Unstable]);
        assert_eq!(reasons(Statistics::default(), 0), [NothingToLose]);
        let none_tried = Statistics {
            tried: 0,
            ..whole()
        };
        assert_eq!(reasons(none_tried, 0), [NothingTried]);
    }
}
