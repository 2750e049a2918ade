//! Makes tasks: shares by largest remainder, ledgers and instructions by trial.

use burnish_core::rng::{self, Address, Purpose, Stream};

use super::config::{AccountsConfig, Amounts, NAMES, PromptStyle};
use super::episode::{Truth, right};
use super::instruction::{Instruction, Kind, carry_out};
use super::ledger::{Account, Ledger};
use crate::settings::config_error;
use crate::shares::largest_remainder;
use crate::{CellReport, EnvError};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 2_000;

/// Makes `count` tasks in random order, and reports on every number of instructions.
pub(super) fn instances(
    config: &AccountsConfig,
    seed: u64,
    count: usize,
) -> Result<(Vec<Truth>, Vec<CellReport>), EnvError> {
    let lengths: Vec<usize> = (config.steps.min..=config.steps.max).collect();
    let quotas = largest_remainder(&vec![1.0; lengths.len()], count);
    let steps = lengths.iter().zip(&quotas).map(|(length, quota)| length * quota).sum();
    let mut kinds = kinds(config, seed, steps).into_iter();
    let mut made = Vec::with_capacity(count);
    let mut reports = Vec::new();
    for (length, quota) in lengths.into_iter().zip(quotas) {
        let mut report = CellReport::new(format!("steps={length}"));
        for slot in 0..quota {
            let kinds: Vec<Kind> = kinds.by_ref().take(length).collect();
            let place = Address { task: slot as u64, ..address(Draw::Candidates(length), seed) };
            made.push(instance(config, &kinds, Stream::new(place.seed()), &mut report)?);
        }
        reports.push(report);
    }
    Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut made);
    Ok((made, reports))
}

/// The uses of random numbers.
enum Draw {
    Kinds,
    Candidates(usize),
}

fn address(draw: Draw, seed: u64) -> Address {
    let stage = match draw {
        Draw::Kinds => 0,
        Draw::Candidates(length) => length as u64,
    };
    Address { stage, ..Address::new(seed, Purpose::Task) }
}

/// The kinds of `count` instructions: the shares are exact, the order is random.
fn kinds(config: &AccountsConfig, seed: u64, count: usize) -> Vec<Kind> {
    let (kinds, shares) = config.kinds();
    let quotas = largest_remainder(&shares, count);
    let each = kinds.into_iter().zip(quotas);
    let mut all: Vec<Kind> = each.flat_map(|(kind, quota)| std::iter::repeat_n(kind, quota)).collect();
    Stream::new(address(Draw::Kinds, seed).seed()).shuffle(&mut all);
    all
}

fn instance(
    config: &AccountsConfig,
    kinds: &[Kind],
    mut stream: Stream,
    report: &mut CellReport,
) -> Result<Truth, EnvError> {
    let made = report.draw(DRAWS_MAX, || {
        let truth = draw(config, kinds, &mut stream).ok_or("not enough money")?;
        if changes(&truth) { Ok(settled(truth, config.amounts)) } else { Err("nothing changes") }
    });
    made.ok_or_else(|| {
        let Amounts { unit, max } = config.amounts;
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let none = format!("no task with the instructions {} in {DRAWS_MAX} draws", names.join(", "));
        config_error("amounts.max", &format!("{max}: {none}; nearest: {}", max + 2 * unit))
    })
}

fn changes(truth: &Truth) -> bool {
    carry_out(&truth.accounts, &truth.instructions).is_some_and(|end| end != truth.accounts)
}

/// Draws a ledger, and instructions that can be carried out on it; `None` if one can't.
fn draw(config: &AccountsConfig, kinds: &[Kind], stream: &mut Stream) -> Option<Truth> {
    let amounts = config.amounts;
    let mut balance = || amounts.unit * stream.below(amounts.max / amounts.unit + 1);
    let account = |name: &&str| Account { name: (*name).to_owned(), balance: balance() };
    let accounts = Ledger { accounts: NAMES[..config.accounts].iter().map(account).collect() };
    let mut ledger = accounts.clone();
    let mut instructions = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let instruction = instruction(*kind, &ledger, amounts, stream)?;
        ledger.transfer(instruction.transfer(&ledger)?).ok()?;
        instructions.push(instruction);
    }
    Some(Truth { accounts, instructions })
}

/// An instruction of this kind that can be carried out on the ledger.
fn instruction(kind: Kind, ledger: &Ledger, amounts: Amounts, stream: &mut Stream) -> Option<Instruction> {
    let mut who: Vec<usize> = (0..ledger.accounts.len()).collect();
    stream.shuffle(&mut who);
    let (from, to, third) = (who[0], who[1], who.get(2).copied());
    let has = ledger.balance(from);
    // A multiple of the unit from 1 to `most`.
    let mut amount = |most: u64| {
        let units = most.min(amounts.max) / amounts.unit;
        (units > 0).then(|| amounts.unit * (1 + stream.below(units)))
    };
    Some(match kind {
        Kind::Fixed => Instruction::Fixed { from, to, amount: amount(has)? },
        Kind::Half if has > 0 && has.is_multiple_of(2 * amounts.unit) => Instruction::Half { from, to },
        Kind::All if has > 0 => Instruction::All { from, to },
        Kind::Half | Kind::All => return None,
        Kind::Fill => {
            let already = ledger.balance(to);
            let target = already + amount(has.min(amounts.max.saturating_sub(already)))?;
            Instruction::Fill { from, to, target }
        }
        Kind::Richer => {
            let third = third?;
            let richer = ledger.balance(from).max(ledger.balance(to));
            Instruction::Richer { first: from, second: to, to: third, amount: amount(richer)? }
        }
    })
}

/// The task, with the balances that the right conversation never mentions made a function of that conversation. So two
/// tasks whose right conversations have the same text are the same task, and a held-out task is never imitated under
/// another name.
fn settled(mut truth: Truth, amounts: Amounts) -> Truth {
    let told: Vec<usize> = truth.instructions.iter().flat_map(Instruction::looks_at).collect();
    let mut text = truth.text(PromptStyle::Full);
    for message in right(&truth, amounts) {
        let calls = message.tool_calls.iter().map(|call| format!("\n{}", call.function.arguments));
        text.extend(calls.chain([format!("\n{}", message.content)]));
    }
    let seed = rng::fold_bytes(Address::new(0, Purpose::Task).seed(), text.as_bytes());
    let needed = needed(&truth);
    for (at, account) in truth.accounts.accounts.iter_mut().enumerate().filter(|(at, _)| !told.contains(at)) {
        let spare = (amounts.max - needed[at].min(amounts.max)) / amounts.unit;
        account.balance = needed[at] + amounts.unit * Stream::new(seed ^ at as u64).below(spare + 1);
    }
    truth
}

/// The least opening balance that each account needs for all its payments.
fn needed(truth: &Truth) -> Vec<u64> {
    let mut ledger = truth.accounts.clone();
    let mut needed = vec![0_u64; ledger.accounts.len()];
    let (mut paid, mut received) = (needed.clone(), needed.clone());
    for instruction in &truth.instructions {
        let Some(transfer) = instruction.transfer(&ledger) else { break };
        if ledger.transfer(transfer).is_err() {
            break;
        }
        let from = transfer.from;
        paid[from] += transfer.amount;
        needed[from] = needed[from].max(paid[from].saturating_sub(received[from]));
        received[transfer.to] += transfer.amount;
    }
    needed
}
