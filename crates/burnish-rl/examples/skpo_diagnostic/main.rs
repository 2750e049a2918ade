//! How often, exactly, a Monte-Carlo advantage has the wrong sign on a small Markov task: the motivation of `skpo`.
//!
//!     cargo run --release -p burnish-rl --example skpo_diagnostic > systems/skpo/results-diagnostic.md

mod diagnostic;

fn main() {
    print!("{}", diagnostic::page());
}
