//! Settings that may be infinite. JSON has no such number, so they are words there.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    match *value {
        f64::INFINITY => to.serialize_str("inf"),
        f64::NEG_INFINITY => to.serialize_str("-inf"),
        value => to.serialize_f64(value),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_any(Number)
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, or \"inf\" or \"-inf\" in quotes")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<f64, E> {
        match value {
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    // TOML's `inf` without quotes arrives here as a unit.
    fn visit_unit<E: Error>(self) -> Result<f64, E> {
        Err(E::invalid_value(Unexpected::Other("no number"), &self))
    }
}
