//! What a test was to look at and did not: see [`LeftOut`].

use crashpoint_check::engine::explore::Statistics;
use crashpoint_report::{LeftOut, LeftOutReason};

/// What an exploration left out, and failing states that no finding explains.
pub fn of_exploration(statistics: &Statistics, unexplained: u64) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    let points = statistics.points + statistics.points_left;
    if statistics.points_left > 0 {
        left_out.push(LeftOut::new(
            LeftOutReason::Budget,
            format!(
                "{} of {points} crash points, as the budget was spent (--time, --states)",
                statistics.points_left
            ),
        ));
    }
    if statistics.points_cut > 0 {
        left_out.push(LeftOut::new(
            LeftOutReason::Budget,
            format!(
                "a part of the states at {} crash points (--time, --states, --states-per-point)",
                statistics.points_cut
            ),
        ));
    }
    if unexplained > 0 {
        left_out.push(LeftOut::new(
            LeftOutReason::NotExplained,
            format!("the causes of {unexplained} failing states, which no finding explains"),
        ));
    }
    if statistics.unstable > 0 {
        left_out.push(LeftOut::new(
            LeftOutReason::Unstable,
            format!(
                "{} states that fail in one run and not in the next",
                statistics.unstable
            ),
        ));
    }
    if points == 0 {
        left_out.push(LeftOut::new(
            LeftOutReason::NothingToLose,
            "any crash, as the program stored nothing that can be lost",
        ));
    } else if statistics.tried + statistics.resumed == 0 && left_out.is_empty() {
        left_out.push(LeftOut::new(
            LeftOutReason::NothingTried,
            "any crash state, as the strategy chose none (--strategy)",
        ));
    }
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
