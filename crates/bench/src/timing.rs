//! Times whole commands.

use crate::Error;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Runs a command that prints a JSON report; that, and the most memory that it had, in MiB.
pub fn report_and_mib(command: &mut Command) -> Result<(Value, f64), Error> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut stdout = child.stdout.take().ok_or("no output")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut text).map(|_| text)
    });
    // The most it ever had only grows, so that the last look is the right one.
    let mut mib: f64 = 0.0;
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        let most = std::fs::read_to_string(&status).ok();
        let most = most.and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        });
        mib = mib.max(most.unwrap_or(0.0) / 1024.0);
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = reader.join().map_err(|_| "the reader failed")??;
    if !ended.success() {
        return Err(format!("{command:?}: {ended}").into());
    }
    Ok((serde_json::from_slice(&text)?, mib))
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
