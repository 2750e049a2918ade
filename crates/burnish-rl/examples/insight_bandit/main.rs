//! Task selectors on a simulated learner: prints systems/insight/results-simulation.md.
//!
//!     cargo run --release -p burnish-rl --example insight_bandit > systems/insight/results-simulation.md

mod simulation;

fn main() {
    print!("{}", simulation::page());
}
