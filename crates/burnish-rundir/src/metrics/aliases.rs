//! Every metric: what it means, and what other frameworks call the same number.
//!
//! A metric has an alias only if the other framework's number has the same definition, for runs that both can do.
//! The table is that of `docs/metrics.md`, which also lists where runs can make a difference and which names look alike but
//! mean something else.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::{Row, Values};

/// `metrics.names`: the framework whose names the metrics get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Names {
    /// TRL 1.16's, which are burnish's own.
    #[default]
    Trl,
    /// verl 0.7's.
    Verl,
    /// prime-rl 0.6's.
    PrimeRl,
}

/// A number that a run can log. Placeholders in names are in braces.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in `metrics.jsonl`.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its name in verl.
    pub verl: Option<&'static str>,
    /// Its name in prime-rl.
    pub prime_rl: Option<&'static str>,
}

/// The numbers of extra evaluations.
const FURTHER: &str = "eval/{name}/{metric}";

/// The page, whose first table has a row for each metric.
const PAGE: &str = include_str!("../../../../docs/metrics.md");
/// The line before that table.
const TABLE: &str = "<!-- table -->\n";

/// All metrics.
pub static METRICS: LazyLock<Vec<Metric>> =
    LazyLock::new(|| rows().skip(2).filter_map(Metric::of_row).collect());

/// The lines of the table.
fn rows() -> impl Iterator<Item = &'static str> {
    let table = PAGE.split_once(TABLE).map_or("", |(_, table)| table);
    table.lines().take_while(|line| !line.is_empty())
}

/// A number of another framework that can be computed from ours.
#[derive(Debug, Clone, Copy)]
pub struct Derived {
    /// The framework.
    pub names: Names,
    /// Its name there.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    value: fn(&Row) -> Option<f64>,
}

/// All derived numbers; they come from training rows.
pub const DERIVED: &[Derived] = &[
    Derived {
        names: Names::Verl,
        name: "training/global_step",
        unit: "steps",
        meaning: "`step`",
        value: |row| Some(row.step as f64),
    },
    Derived {
        names: Names::Verl,
        name: "perf/throughput",
        unit: "tokens/s",
        meaning: "`tokens/total` over `step_time`, for one device",
        value: |row| Some(row.values.get("tokens/total")? / row.values.get("step_time")?),
    },
];

impl Metric {
    fn of_row(row: &'static str) -> Option<Self> {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let &[_, name, unit, meaning, verl, prime_rl, _] = &cells[..] else { return None };
        let named = |cell: &'static str| Some(cell.trim_matches('`')).filter(|name| !name.is_empty());
        Some(Metric { name: named(name)?, unit, meaning, verl: named(verl), prime_rl: named(prime_rl) })
    }

    /// Its name in another framework, with placeholders; `None` if the framework has no such number.
    pub fn alias(&self, names: Names) -> Option<&'static str> {
        match names {
            Names::Trl => None,
            Names::Verl => self.verl,
            Names::PrimeRl => self.prime_rl,
        }
    }

    /// Whether `name` is a name of this metric in some run.
    pub fn is_called(&self, name: &str) -> bool {
        if self.name != FURTHER {
            return fits(self.name, name);
        }
        let Some((own, rest)) = name.strip_prefix("eval/").and_then(|name| name.split_once('/')) else {
            return false;
        };
        let main = format!("eval/{rest}");
        !is_of_evaluation(own) && METRICS.iter().any(|other| other.name != FURTHER && other.is_called(&main))
    }
}

/// Whether `name` is the first part of a main evaluation's metric after `eval/`.
pub fn is_of_evaluation(name: &str) -> bool {
    let names = METRICS.iter().filter_map(|metric| metric.name.strip_prefix("eval/"));
    names.map(|own| own.split(['/', '@']).next().unwrap_or(own)).any(|own| own == name)
}

/// Whether `name` fits a pattern whose placeholders each stand for one or more characters.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == name };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    let Some(name) = name.strip_prefix(before) else { return false };
    name.char_indices()
        .skip(1)
        .map(|(at, _)| at)
        .chain([name.len()])
        .any(|at| at > 0 && fits(after, &name[at..]))
}

/// Renames the metrics of one run.
#[derive(Debug, Clone)]
pub struct Aliases {
    names: Names,
    env: String,
    rollouts: usize,
}

impl Aliases {
    /// `names` for a run in environment `env` whose evaluations play `rollouts` episodes per task.
    pub fn new(names: Names, env: &str, rollouts: usize) -> Self {
        Aliases { names, env: env.to_owned(), rollouts }
    }

    /// The numbers of a row under these names. Numbers that the framework lacks keep burnish's names.
    pub fn rename(&self, row: &Row) -> Values {
        let named = row.values.iter().map(|(name, value)| (self.name(name), *value));
        let derived = DERIVED.iter().filter(|derived| derived.names == self.names && row.event == "train");
        let derived = derived.filter_map(|derived| Some((derived.name.to_owned(), (derived.value)(row)?)));
        named.chain(derived).collect()
    }

    /// The numbers of a row under their TensorBoard tags: these names, in the form that the framework's own logger
    /// writes. TRL (the `Trainer` of transformers) puts the event first.
    pub(super) fn tags(&self, row: &Row) -> Vec<(String, f64)> {
        let prefix = format!("{}/", row.event);
        let tag = |name: String| match self.names {
            Names::Trl if !name.starts_with(&prefix) => prefix.clone() + &name,
            _ => name,
        };
        self.rename(row).into_iter().map(|(name, value)| (tag(name), value)).collect()
    }

    fn name(&self, name: &str) -> String {
        let alias =
            METRICS.iter().find(|metric| metric.name == name).and_then(|metric| metric.alias(self.names));
        alias.map_or_else(
            || name.to_owned(),
            |alias| alias.replace("{env}", &self.env).replace("{k}", &self.rollouts.to_string()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ALL: [Names; 3] = [Names::Trl, Names::Verl, Names::PrimeRl];

    #[test]
    fn no_two_metrics_have_the_same_name_in_any_framework() {
        for names in ALL {
            let mut seen = BTreeSet::new();
            for metric in METRICS.iter() {
                let name = metric.alias(names).unwrap_or(metric.name);
                assert!(seen.insert(name), "{names:?} has two {name}");
            }
            for derived in DERIVED.iter().filter(|derived| derived.names == names) {
                assert!(seen.insert(derived.name), "{names:?} has two {}", derived.name);
            }
        }
        // No metric's name may fit the pattern of another.
        for metric in METRICS.iter().filter(|metric| metric.name != FURTHER) {
            let called = METRICS.iter().filter(|other| other.is_called(metric.name)).count();
            assert_eq!(called, 1, "{}", metric.name);
        }
    }

    #[test]
    fn a_row_gets_the_names_of_a_framework_and_keeps_what_that_lacks() {
        let values = [("reward", 0.5), ("success", 0.25), ("tokens/total", 600.0), ("step_time", 2.0)];
        let values: Values = values.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let row = Row { step: 7, event: "train".into(), values };
        let named = |names| Aliases::new(names, "countdown", 4).rename(&row).into_iter().collect::<Vec<_>>();
        let expect = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>()
        };
        assert_eq!(Aliases::new(Names::Trl, "countdown", 4).rename(&row), row.values);
        assert_eq!(
            named(Names::Verl),
            expect(&[
                ("critic/rewards/mean", 0.5),
                ("perf/throughput", 300.0),
                ("perf/total_num_tokens", 600.0),
                ("success", 0.25),
                ("timing_s/step", 2.0),
                ("training/global_step", 7.0),
            ])
        );
        assert_eq!(
            named(Names::PrimeRl),
            expect(&[
                ("reward/all/mean", 0.5),
                ("success", 0.25),
                ("time/step", 2.0),
                ("tokens/total", 600.0)
            ])
        );
    }

    #[test]
    fn evaluations_are_named_by_environment_and_rollouts_and_nothing_is_derived_from_them() {
        let values = Values::from([("eval/success".into(), 0.5), ("eval/reward".into(), 0.75)]);
        let row = Row { step: 3, event: "eval".into(), values };
        let tags = |names| {
            let tags = Aliases::new(names, "countdown", 4).tags(&row);
            tags.into_iter().map(|(tag, _)| tag).collect::<Vec<_>>()
        };
        assert_eq!(tags(Names::Trl), ["eval/reward", "eval/success"]);
        assert_eq!(tags(Names::Verl), ["val-aux/countdown/reward/mean@4", "val-core/countdown/acc/mean@4"]);
        assert_eq!(tags(Names::PrimeRl), ["eval/countdown/avg@4", "eval/success"]);
    }

    #[test]
    fn tensorboard_tags_under_trl_start_with_the_event() {
        let row = Row { step: 1, event: "train".into(), values: Values::from([("reward".into(), 1.0)]) };
        assert_eq!(Aliases::new(Names::Trl, "x", 1).tags(&row), [("train/reward".into(), 1.0)]);
        assert_eq!(Aliases::new(Names::Verl, "x", 1).tags(&row)[0], ("critic/rewards/mean".into(), 1.0));
    }

    #[test]
    fn placeholders_stand_for_one_name_or_more() {
        let metric = METRICS.iter().find(|metric| metric.name == "rewards/{component}/mean").unwrap();
        assert!(metric.is_called("rewards/plan/mean") && metric.is_called("rewards/a/b/mean"));
        assert!(!metric.is_called("rewards//mean") && !metric.is_called("rewards/plan/std"));
        let called = |name: &str| -> Vec<&str> {
            METRICS.iter().filter(|metric| metric.is_called(name)).map(|metric| metric.name).collect()
        };
        assert_eq!(called("eval/flags_by_label/a/b/c"), ["eval/flags_by_label/{label}/{value}/{flag}"]);
        assert_eq!(called("eval/pass@8"), ["eval/pass@{n}"]);
        for further in ["eval/retention/success", "eval/retention/success/low", "eval/a-b/by_label/x/y"] {
            assert_eq!(called(further), [FURTHER], "{further}");
        }
        for unknown in ["eval/retention", "eval/retention/succes", "eval/success/reward", "eval/pass@"] {
            assert_eq!(called(unknown), [""; 0], "{unknown}");
        }
    }

    #[test]
    fn the_page_has_a_row_for_each_metric_and_each_derived_number() {
        assert!(METRICS.len() > 150);
        assert_eq!(METRICS.len(), rows().count() - 2, "each row is a metric");
        for Derived { names, name, unit, meaning, .. } in DERIVED {
            let of = serde_json::to_value(names).unwrap();
            let row = format!("| `{name}` | {unit} | {meaning} | {} |\n", of.as_str().unwrap());
            assert!(PAGE.contains(&row), "docs/metrics.md lacks {row}");
        }
    }
}
