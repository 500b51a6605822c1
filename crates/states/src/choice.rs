//! Strategies by name.

use crate::{Bounded, Exhaustive, Random, Strategy};

/// Which strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrategyChoice {
    Exhaustive,
    Bounded,
    Random,
}

/// What strategies can be told; each looks at its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bounded: how many chains (cache lines, mostly) may differ from an extreme.
    pub chains: usize,
    /// Random: what the draws depend on.
    pub seed: u64,
    /// Random: how many states are drawn at a point.
    pub states: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            chains: 2,
            seed: 0,
            states: 100,
        }
    }
}

impl StrategyChoice {
    pub const NAMES: [(&str, StrategyChoice); 3] = [
        ("exhaustive", StrategyChoice::Exhaustive),
        ("bounded", StrategyChoice::Bounded),
        ("random", StrategyChoice::Random),
    ];

    pub fn from_name(name: &str) -> Option<StrategyChoice> {
        let mut names = StrategyChoice::NAMES.iter();
        let (_, choice) = names.find(|(own, _)| *own == name)?;
        Some(*choice)
    }

    pub fn name(self) -> &'static str {
        match self {
            StrategyChoice::Exhaustive => "exhaustive",
            StrategyChoice::Bounded => "bounded",
            StrategyChoice::Random => "random",
        }
    }

    pub fn make(self, settings: &Settings) -> Box<dyn Strategy> {
        match self {
            StrategyChoice::Exhaustive => Box::new(Exhaustive::default()),
            StrategyChoice::Bounded => Box::new(Bounded::new(settings.chains)),
            StrategyChoice::Random => Box::new(Random::new(settings.seed, settings.states)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_strategies_of_that_name() {
        for (name, choice) in StrategyChoice::NAMES {
            assert_eq!(StrategyChoice::from_name(name), Some(choice));
            assert_eq!(choice.name(), name);
            assert_eq!(choice.make(&Settings::default()).name(), name);
        }
        assert_eq!(StrategyChoice::from_name("all"), None);
    }
}
