//! Times whole commands.

use crate::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs a command to its end, discarding its output, and returns the seconds it took.
pub fn seconds(command: &mut Command) -> Result<f64, Error> {
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    let elapsed = start.elapsed().as_secs_f64();
    if output.status.success() {
        Ok(elapsed)
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}\n{stderr}", output.status).into())
    }
}

pub fn geometric_mean(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a mean needs values");
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Three significant decimals: more would pretend.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((geometric_mean(&[4.0, 0.25]) - 1.0).abs() < 1e-12);
    }
}
