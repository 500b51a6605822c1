//! Litmus tests run on real file systems, and what they leave there the models allow.

use std::time::Duration;

use crashpoint_blockdev::{Choice, FileSystem, Lab, LitmusOutcome, VerifyPlan, verify};
use crashpoint_persist::files::litmus::Litmus;

#[test]
fn litmus_tests_run_by_real_system_calls() {
    let file_systems = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
    let lacks = Lab::lacks(&file_systems);
    if !lacks.is_empty() {
        eprintln!("not run here: {lacks:?}");
        return;
    }
    let saved = "\
litmus saved
setup
  create f O*1
program
  create t
  append t N*1
  fsync t
  rename t f
  fsync .
";
    let litmus = Litmus::parse(saved).expect("it is right");
    let plan = VerifyPlan {
        file_systems: &file_systems,
        litmus: &litmus,
        time: Duration::from_secs(3),
        images: 60,
        choice: Choice::default(),
    };
    for verified in verify(&plan, &|_| {}).expect("it can be done here") {
        let name = verified.file_system.name();
        match verified.outcome {
            LitmusOutcome::Failed(reason) => panic!("{name}: {reason}"),
            LitmusOutcome::Compared(comparison) => {
                assert_eq!(comparison.holes, [], "{name}");
                assert_eq!(
                    comparison.looked_at.broken, 0,
                    "{name}: {:?}",
                    comparison.looked_at.reason
                );
                assert!(comparison.seen >= 2, "{name}: {comparison:?}");
            }
        }
    }
}
