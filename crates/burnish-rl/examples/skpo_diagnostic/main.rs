//! How often a Monte-Carlo advantage has the wrong sign, exactly, on a small Markov task: what motivates `skpo`.
//!
//!     cargo run --release -p burnish-rl --example skpo_diagnostic > docs/results/skpo-diagnostic.md

mod diagnostic;

fn main() {
    print!("{}", diagnostic::page());
}
