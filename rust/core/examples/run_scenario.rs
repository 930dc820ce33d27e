//! Runs a scenario file under a few seeds and prints the metrics: the core without Python.
//!
//!     cargo run --release --example run_scenario -- scenario.json 4

use std::time::Instant;

use schedlab_core::record::METRIC_TABLE;
use schedlab_core::run::{Progress, run_seeds};
use schedlab_core::scenario::Scenario;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which scenario?")?;
    let nr_seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let scenario = Scenario::from_json(&std::fs::read_to_string(path)?)?;
    let seeds: Vec<u64> = (0..nr_seeds).collect();
    let start = Instant::now();
    let records = run_seeds(&scenario, &seeds, 1, &Progress::default())?;
    let wall = start.elapsed().as_secs_f64();
    for (metric, (name, unit, _)) in METRIC_TABLE.iter().enumerate() {
        let values: Vec<i64> = records.iter().map(|record| record.metrics.values()[metric]).collect();
        println!("{name:26} {unit:6} {values:?}");
    }
    for level in 0..records[0].classification.len() {
        for group_type in 0..8 {
            let counts: Vec<u64> = (0..5)
                .map(|bucket| {
                    records.iter().map(|record| record.classification[level][group_type][bucket]).sum()
                })
                .collect();
            println!("level {level} group_type {group_type} by running tasks {counts:?}");
        }
    }
    println!("{:.3} s a seed", wall / nr_seeds as f64);
    Ok(())
}
