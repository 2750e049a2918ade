//! Proposals by chance: a member of the archive with a change, or a crossing of two.

use burnish_core::rng::Stream;
use burnish_reason::StrategyConfig;
use serde_json::{Value, json};

use super::{Member, Proposal, Said, shared};

/// A temperature to begin with, where a strategy has that of the turn.
const TEMPERATURE: f64 = 0.7;

/// One of three, each equally likely: a number of a member is halved or doubled (temperatures by a factor of 1.4); a member
/// takes one setting of another; or another strategy takes over all settings that it shares with a member.
pub(super) fn proposed(archive: &[Member], seed: u64) -> Said {
    let mut stream = Stream::new(seed);
    let mut pick = || &archive[stream.index(archive.len())];
    let (one, other) = (pick(), pick());
    let mut strategy = one.strategy.clone();
    let thought = match stream.index(3) {
        0 => scale(&mut strategy.config, &mut stream),
        1 => {
            let keys: Vec<String> =
                shared(&one.strategy.config, &other.strategy.config).into_iter().collect();
            keys.get(stream.index(keys.len().max(1))).map(|key| {
                strategy.config[key] = other.strategy.config[key].clone();
                format!("{key} of {}", other.name)
            })
        }
        _ => {
            strategy = StrategyConfig { config: other.strategy.config.clone(), ..other.strategy.clone() };
            for key in shared(&one.strategy.config, &other.strategy.config) {
                strategy.config[&key] = one.strategy.config[&key].clone();
            }
            Some(format!("with the settings of {}", one.name))
        }
    };
    let name = strategy.strategy.clone();
    let proposal = match thought {
        Some(thought) => Ok(Proposal { thought, name, strategy }),
        None => Err("there was nothing to change".to_owned()),
    };
    Said { conversation: Vec::new(), proposal }
}

/// Changes one number, and says which.
fn scale(config: &mut Value, stream: &mut Stream) -> Option<String> {
    let table = config.as_object_mut()?;
    let numbers = table.iter().filter(|(_, value)| value.is_number()).map(|(key, _)| key.clone());
    let mut keys: Vec<String> = numbers.collect();
    if !table.contains_key("temperature") {
        keys.push("temperature".to_owned());
    }
    let key = keys.swap_remove(stream.index(keys.len()));
    let is_more = stream.index(2) == 1;
    let new = match table.get(&key) {
        None => json!(TEMPERATURE),
        Some(own) => match own.as_u64() {
            Some(count) => json!(if is_more { count.saturating_mul(2) } else { (count / 2).max(1) }),
            None => json!(own.as_f64()? * if is_more { 1.4 } else { 1.0 / 1.4 }),
        },
    };
    let thought = format!("{key} = {new}");
    table.insert(key, new);
    Some(thought)
}
