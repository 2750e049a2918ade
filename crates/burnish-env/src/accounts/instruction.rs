//! The instructions of a task, carried out one after the other.

use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, Transfer};

/// The kinds of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Fixed,
    Half,
    All,
    Fill,
    Richer,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [Kind::Fixed, Kind::Half, Kind::All, Kind::Fill, Kind::Richer];

    /// As in labels and configurations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Fixed => "fixed",
            Kind::Half => "half",
            Kind::All => "all",
            Kind::Fill => "fill",
            Kind::Richer => "richer",
        }
    }
}

/// One instruction. Accounts are indices into the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Instruction {
    /// A stated amount.
    Fixed { from: usize, to: usize, amount: u64 },
    /// Half of what `from` has.
    Half { from: usize, to: usize },
    /// All that `from` has.
    All { from: usize, to: usize },
    /// As much as `to` needs to have `target`.
    Fill { from: usize, to: usize, target: u64 },
    /// A stated amount, from whichever of two has more.
    Richer { first: usize, second: usize, to: usize, amount: u64 },
}

impl Instruction {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Instruction::Fixed { .. } => Kind::Fixed,
            Instruction::Half { .. } => Kind::Half,
            Instruction::All { .. } => Kind::All,
            Instruction::Fill { .. } => Kind::Fill,
            Instruction::Richer { .. } => Kind::Richer,
        }
    }

    /// The accounts that it names.
    pub(super) fn named(&self) -> Vec<usize> {
        match *self {
            Instruction::Fixed { from, to, .. }
            | Instruction::Half { from, to }
            | Instruction::All { from, to }
            | Instruction::Fill { from, to, .. } => vec![from, to],
            Instruction::Richer { first, second, to, .. } => vec![first, second, to],
        }
    }

    /// The accounts that one must look at to know the transfer.
    pub(super) fn looks_at(&self) -> Vec<usize> {
        match *self {
            Instruction::Fixed { .. } => vec![],
            Instruction::Half { from, .. } | Instruction::All { from, .. } => vec![from],
            Instruction::Fill { to, .. } => vec![to],
            Instruction::Richer { first, second, .. } => vec![first, second],
        }
    }

    /// The transfer that carries it out; `None` if the balances leave it undecided or nothing would be moved.
    pub(super) fn transfer(&self, ledger: &Ledger) -> Option<Transfer> {
        let (from, to, amount) = match *self {
            Instruction::Fixed { from, to, amount } => (from, to, amount),
            Instruction::Half { from, to } => {
                let has = ledger.balance(from);
                (from, to, if has.is_multiple_of(2) { has / 2 } else { 0 })
            }
            Instruction::All { from, to } => (from, to, ledger.balance(from)),
            Instruction::Fill { from, to, target } => (from, to, target.saturating_sub(ledger.balance(to))),
            Instruction::Richer { first, second, to, amount } => {
                match ledger.balance(first).cmp(&ledger.balance(second)) {
                    std::cmp::Ordering::Greater => (first, to, amount),
                    std::cmp::Ordering::Less => (second, to, amount),
                    std::cmp::Ordering::Equal => return None,
                }
            }
        };
        (amount > 0).then_some(Transfer { from, to, amount })
    }

    /// As a sentence.
    pub(super) fn sentence(&self, ledger: &Ledger) -> String {
        let name = |at: usize| ledger.name(at);
        match *self {
            Instruction::Fixed { from, to, amount } => {
                format!("Move {amount} from {} to {}.", name(from), name(to))
            }
            Instruction::Half { from, to } => {
                format!("Move half of {}'s money to {}.", name(from), name(to))
            }
            Instruction::All { from, to } => {
                format!("Move all of {}'s money to {}.", name(from), name(to))
            }
            Instruction::Fill { from, to, target } => {
                format!("Move from {} to {} what {} needs to have {target}.", name(from), name(to), name(to))
            }
            Instruction::Richer { first, second, to, amount } => {
                let (first, second, to) = (name(first), name(second), name(to));
                format!("Move {amount} from the richer of {first} and {second} to {to}.")
            }
        }
    }
}

impl Instruction {
    /// In symbols, for policies trained on them. No name and no amount has a space before it, because some tokenizers
    /// take such a space into the word; this way they see the same word here, in calls and in results.
    pub(super) fn signs(&self, ledger: &Ledger) -> String {
        let name = |at: usize| ledger.name(at);
        match *self {
            Instruction::Fixed { from, to, amount } => format!("{}>{}:{amount}", name(from), name(to)),
            Instruction::Half { from, to } => format!("{}>{}:half", name(from), name(to)),
            Instruction::All { from, to } => format!("{}>{}:all", name(from), name(to)),
            Instruction::Fill { from, to, target } => format!("{}>{}:={target}", name(from), name(to)),
            Instruction::Richer { first, second, to, amount } => {
                format!("{}|{}>{}:{amount}", name(first), name(second), name(to))
            }
        }
    }
}

/// The ledger after all instructions; `None` if one of them can't be carried out.
pub(super) fn carry_out(start: &Ledger, instructions: &[Instruction]) -> Option<Ledger> {
    let mut ledger = start.clone();
    for instruction in instructions {
        let transfer = instruction.transfer(&ledger)?;
        ledger.transfer(transfer).ok()?;
    }
    Some(ledger)
}
