//! Settings of a merge: one value, a gradient over the layers, or cases by the name of the tensor, as in mergekit.

use std::collections::BTreeMap;

use burnish_core::names;

use crate::WeightsError;

/// A value without structure.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
}

impl Scalar {
    /// The number; 0 if it is none.
    pub(crate) fn number(&self) -> f64 {
        if let Scalar::Number(number) = self { *number } else { 0.0 }
    }

    /// The text; empty if it is none.
    pub(crate) fn text(self) -> String {
        if let Scalar::Text(text) = self { text } else { String::new() }
    }
}

/// What a setting says, for all tensors.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// The same everywhere.
    One(Scalar),
    /// Values at equal distances over the layers, from the first to the last. Numbers are interpolated linearly, of
    /// other values the last one that was reached holds. Tensors outside of layers have the first value.
    Gradient(Vec<Scalar>),
    /// The first case that applies holds; if none does, the setting is not made here.
    Cases(Vec<Case>),
}

/// A value for some tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// A part of the names of the tensors that are meant; `None` and `*` mean all.
    pub filter: Option<String>,
    /// Their value.
    pub said: Said,
}

/// A setting, and where it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The file and the line, or the option.
    pub place: String,
    /// What it says.
    pub said: Said,
}

/// Settings by key.
pub type Settings = BTreeMap<String, Setting>;

/// What values a key has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A number of this range.
    Number(f64, f64),
    /// A whole number, at least this.
    Count(usize),
    /// True or false.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A key of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What values it has.
    pub kind: Kind,
    /// Whether each input has its own.
    pub is_per_input: bool,
    /// Its value if it is not set; `None` where it must be set.
    pub default: Option<Default>,
    /// What it is.
    pub about: &'static str,
}

/// A value that is not set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A text; the empty one stands for none.
    Text(&'static str),
}

impl Kind {
    /// The value as this kind has it: mergekit's YAML reads `1e-5` as a text.
    fn accept(self, scalar: &Scalar) -> Result<Scalar, String> {
        let shown = match scalar {
            Scalar::Number(number) => number.to_string(),
            Scalar::Flag(flag) => flag.to_string(),
            Scalar::Text(text) => format!("\"{text}\""),
        };
        let number = || match scalar {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Flag(_) => None,
        };
        let expected = match self {
            Kind::Number(min, max) => {
                // Arithmetic is f32, so what is not finite there has no use.
                let is_finite = |number: &f64| (*number as f32).is_finite();
                if let Some(number) = number().filter(|number| (min..=max).contains(number)).filter(is_finite)
                {
                    return Ok(Scalar::Number(number));
                }
                match (min.is_finite(), max.is_finite()) {
                    (true, true) => format!("a number from {min} to {max}"),
                    (true, false) => format!("a number, {min} or more"),
                    _ => "a finite number".to_owned(),
                }
            }
            Kind::Count(min) => {
                if let Some(number) = number().filter(|number| number.fract() == 0.0 && *number >= min as f64)
                {
                    return Ok(Scalar::Number(number));
                }
                format!("a whole number, {min} or more")
            }
            Kind::Flag => {
                if let Scalar::Flag(_) = scalar {
                    return Ok(scalar.clone());
                }
                "true or false".to_owned()
            }
            Kind::Word(words) => {
                if let Scalar::Text(text) = scalar
                    && words.contains(&text.as_str())
                {
                    return Ok(scalar.clone());
                }
                format!("one of {}", words.join(", "))
            }
            Kind::Text => match scalar {
                // A list with one number in it, such as `layers: 3`, is read as a number.
                Scalar::Number(number) => return Ok(Scalar::Text(number.to_string())),
                Scalar::Text(_) => return Ok(scalar.clone()),
                Scalar::Flag(_) => "a text".to_owned(),
            },
        };
        Err(format!("is {shown}; it must be {expected}"))
    }
}

impl Said {
    /// Calls `visit` for every value.
    fn each(&self, visit: &mut impl FnMut(&Scalar) -> Result<(), String>) -> Result<(), String> {
        match self {
            Said::One(scalar) => visit(scalar),
            Said::Gradient(scalars) => scalars.iter().try_for_each(visit),
            Said::Cases(cases) => cases.iter().try_for_each(|case| case.said.each(visit)),
        }
    }

    /// The value for the tensor `name` at `depth`, from 0 for the first layer to 1 for the last.
    fn at(&self, name: &str, depth: f64, kind: Kind) -> Option<Scalar> {
        match self {
            Said::One(scalar) => kind.accept(scalar).ok(),
            Said::Gradient(scalars) => gradient(scalars, depth, kind),
            Said::Cases(cases) => {
                let applies = |case: &&Case| {
                    case.filter.as_deref().is_none_or(|filter| filter == "*" || name.contains(filter))
                };
                cases.iter().find(applies)?.said.at(name, depth, kind)
            }
        }
    }
}

fn gradient(scalars: &[Scalar], depth: f64, kind: Kind) -> Option<Scalar> {
    let last = scalars.len().checked_sub(1)?;
    let place = depth.clamp(0.0, 1.0) * last as f64;
    let below = place as usize;
    let (first, second) = (scalars.get(below)?, scalars.get((below + 1).min(last))?);
    match (kind.accept(first).ok()?, kind.accept(second).ok()?) {
        (Scalar::Number(first), Scalar::Number(second)) => {
            let share = place - below as f64;
            Some(Scalar::Number((1.0 - share) * first + share * second))
        }
        (first, _) => Some(first),
    }
}

/// Checks that all keys are known and all values are of their kind.
pub(crate) fn check(settings: &Settings, keys: &[Key], method: &str) -> Result<(), WeightsError> {
    for (name, setting) in settings {
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let names = keys.iter().map(|key| key.name);
            let hint = match names::nearest(name, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if keys.is_empty() => "it has no parameters".to_owned(),
                None => format!("it has {}", names.collect::<Vec<_>>().join(", ")),
            };
            let problem = format!("unknown parameter `{name}` of {method}; {hint}");
            return Err(WeightsError::config(&setting.place, problem));
        };
        setting
            .said
            .each(&mut |scalar| key.kind.accept(scalar).map(|_| ()))
            .map_err(|problem| WeightsError::config(&setting.place, format!("`{name}` {problem}")))?;
    }
    Ok(())
}

/// The largest number that `key` has for any tensor; `None` if it must be set and is not.
pub(crate) fn largest(key: &Key, settings: &Settings) -> Option<f64> {
    let Some(setting) = settings.get(key.name) else {
        return match key.default {
            Some(Default::Number(number)) => Some(number),
            _ => None,
        };
    };
    let mut largest = None;
    let seen = setting.said.each(&mut |scalar| {
        let number = key.kind.accept(scalar)?.number();
        largest = Some(largest.map_or(number, |largest: f64| largest.max(number)));
        Ok(())
    });
    seen.ok().and(largest)
}

/// The value of `key` for the tensor `name`: of the first of `scopes` that has one, else the default.
///
/// # Errors
/// If it must be set and is not.
pub(crate) fn resolve<'a>(
    key: &Key,
    scopes: impl IntoIterator<Item = &'a Settings>,
    name: &str,
    depth: f64,
) -> Result<Scalar, String> {
    for settings in scopes {
        if let Some(setting) = settings.get(key.name)
            && let Some(value) = setting.said.at(name, depth, key.kind)
        {
            return Ok(value);
        }
    }
    match key.default {
        Some(Default::Number(number)) => Ok(Scalar::Number(number)),
        Some(Default::Flag(flag)) => Ok(Scalar::Flag(flag)),
        Some(Default::Text(text)) => Ok(Scalar::Text(text.to_owned())),
        None => Err(format!("`{}` is not set for tensor {name}: {}", key.name, key.about)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Key =
        Key { name: "t", kind: Kind::Number(0.0, 1.0), is_per_input: false, default: None, about: "share" };

    fn numbers(values: &[f64]) -> Said {
        Said::Gradient(values.iter().map(|value| Scalar::Number(*value)).collect())
    }

    fn made(said: Said) -> Settings {
        Settings::from([("t".to_owned(), Setting { place: "x.yaml, line 3".into(), said })])
    }

    fn at(said: &Said, name: &str, depth: f64) -> Result<f64, String> {
        match resolve(&T, [&made(said.clone())], name, depth)? {
            Scalar::Number(number) => Ok(number),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn gradients_go_through_their_values() {
        let said = numbers(&[0.0, 0.5, 0.3, 0.7, 1.0]);
        for (depth, value) in [(0.0, 0.0), (0.25, 0.5), (0.375, 0.4), (1.0, 1.0), (0.125, 0.25)] {
            assert!((at(&said, "x", depth).unwrap() - value).abs() < 1e-12);
        }
        assert_eq!(at(&numbers(&[0.5]), "x", 0.7), Ok(0.5));
        assert!(at(&numbers(&[]), "x", 0.7).is_err());
    }

    #[test]
    fn the_first_case_that_applies_holds() {
        let case = |filter: Option<&str>, value| Case { filter: filter.map(str::to_owned), said: value };
        let one = |value| Said::One(Scalar::Number(value));
        let cases = Said::Cases(vec![
            case(Some("self_attn"), numbers(&[0.0, 1.0])),
            case(Some("mlp"), one(0.25)),
            case(None, one(0.5)),
        ]);
        assert_eq!(at(&cases, "layers.1.self_attn.q_proj.weight", 0.5), Ok(0.5));
        assert_eq!(at(&cases, "layers.1.mlp.up_proj.weight", 0.5), Ok(0.25));
        assert_eq!(at(&cases, "norm.weight", 0.0), Ok(0.5));
        let only = Said::Cases(vec![case(Some("mlp"), one(0.25))]);
        let error = at(&only, "norm.weight", 0.0).unwrap_err();
        assert!(error.contains("`t`") && error.contains("norm.weight"), "{error}");
    }

    #[test]
    fn wrong_keys_and_values_say_where_they_are() {
        let error = |settings: &Settings| check(settings, &[T], "slerp").unwrap_err().to_string();
        let said = error(&made(Said::Gradient(vec![Scalar::Number(0.0), Scalar::Number(1.5)])));
        assert_eq!(said, "x.yaml, line 3: `t` is 1.5; it must be a number from 0 to 1");
        let said = error(&made(Said::One(Scalar::Flag(true))));
        assert!(said.contains("`t` is true"), "{said}");
        let unknown = Settings::from([(
            "tt".to_owned(),
            Setting { place: "x".into(), said: Said::One(Scalar::Number(1.0)) },
        )]);
        let said = error(&unknown);
        assert!(said.contains("`tt` of slerp; did you mean `t`?"), "{said}");
        assert!(check(&made(Said::One(Scalar::Text("1e-1".into()))), &[T], "slerp").is_ok());
        let weight = Key { kind: Kind::Number(f64::NEG_INFINITY, f64::INFINITY), ..T };
        for wrong in [f64::INFINITY, f64::NAN, 1e300] {
            let said = check(&made(Said::One(Scalar::Number(wrong))), &[weight], "slerp").unwrap_err();
            assert!(said.to_string().contains("must be a finite number"), "{said}");
        }
        assert_eq!(Kind::Text.accept(&Scalar::Number(3.0)), Ok(Scalar::Text("3".into())));
    }
}
