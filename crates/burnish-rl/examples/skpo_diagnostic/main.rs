//! How often, exactly, a Monte-Carlo advantage has the wrong sign on a small Markov task: the motivation of `skpo`.
//!
//!     cargo run --release -p burnish-rl --example skpo_diagnostic > docs/results/skpo-diagnostic.md

mod diagnostic;

fn main() {
    print!("{}", diagnostic::page());
}
