//! Task selectors on a simulated learner: prints docs/results/insight-simulation.md.
//!
//!     cargo run --release -p burnish-rl --example insight_bandit > docs/results/insight-simulation.md

mod simulation;

fn main() {
    print!("{}", simulation::page());
}
