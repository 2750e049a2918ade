//! The cost of choosing tasks: prints the milliseconds for one choice of 512 tasks from a pool of 100,000, as a
//! Markdown table.
//!
//!     cargo run --release -p burnish-rl --example selection_overhead

use std::time::Instant;

use burnish_core::rng::Stream;
use burnish_rl::catalogue::SELECTORS;
use serde_json::{Value, json};

const POOL: usize = 100_000;
const CHOSEN: usize = 512;
const ROLLOUTS: usize = 8;
const REPEATS: usize = 5;

fn main() -> Result<(), burnish_rl::SettingError> {
    let names: Vec<String> = (0..POOL).map(|at| format!("countdown-{at:016x}")).collect();
    let pool: Vec<&str> = names.iter().map(String::as_str).collect();
    println!("| selector | never played | 0 to 5 groups each | every belief its own | state, MB |");
    println!("| --- | --- | --- | --- | --- |");
    for entry in SELECTORS {
        let mut cells = Vec::new();
        let mut bytes = 0;
        for (groups, decay) in [(0, 1.0), (5, 1.0), (5, 0.9)] {
            let is_uniform = entry.card.id == "uniform";
            let config = if is_uniform { Value::Null } else { json!({ "beliefs": { "decay": decay } }) };
            let mut selector = (entry.build)(&config)?;
            let mut stream = Stream::new(1);
            for name in &names {
                for _ in 0..if groups == 0 { 0 } else { stream.index(groups + 1) } {
                    // With forgetting and different counts, hardly any two beliefs are equal.
                    let rollouts = if decay < 1.0 { 1 + stream.index(60) } else { ROLLOUTS };
                    selector.observe(name, rollouts, stream.index(rollouts + 1));
                }
            }
            let mut times: Vec<f64> = (0..REPEATS as u64)
                .map(|seed| {
                    let start = Instant::now();
                    let chosen = std::hint::black_box(selector.choose(&pool, CHOSEN, ROLLOUTS, seed));
                    assert_eq!(chosen.len(), CHOSEN);
                    1e3 * start.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            cells.push(format!("{:.1} ms", times[REPEATS / 2]));
            bytes = selector.state().to_string().len();
        }
        println!("| {} | {} | {:.1} |", entry.card.id, cells.join(" | "), bytes as f64 / 1e6);
    }
    Ok(())
}
