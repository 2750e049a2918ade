//! Four rewards on one task, two of them more and more alike: the advantages that `rdpo`, `gdpo` and `grpo` give.
//!
//!     cargo run --release -p burnish-rl --example rdpo_simulation > systems/rdpo/results-simulation.md

mod simulation;

fn main() {
    print!("{}", simulation::page());
}
